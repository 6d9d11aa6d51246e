"""The engine: one loaded model file, its worker threads, and the models that share it."""

import ctypes
import importlib.util
import os
import secrets
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from msgspec import Struct

from interpose.errors import ConfigurationError
from interpose.models.local.files import INSTALL_ENGINE, INSTALL_MODEL

BATCH_TOKENS = 64  # a prompt is read in pieces of this size; a call can be stopped between two of them
CACHE_MIB = 128  # for prompts read before; the engine's own default is 8 GiB


class EngineOptions(Struct, frozen=True):
    """What one loaded engine is made from; models with equal options share it."""

    file: Path
    context_tokens: int
    threads: int
    chat_template: str


class Engine:
    """A model file in memory. It is loaded by the first call, and answers one call at a time, in order of asking."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="interpose-local")
        self._server: Any = None

    def start(self, body: Mapping[str, Any], on_chunk: Callable[[Any], bool]) -> "Future[None]":
        """Answer *body*, a Chat Completions request that streams, in the worker thread.

        *on_chunk* is called there with each chunk and stops the generation by returning True; errors of the engine
        come as chunks too, or are raised by the future. A call that has not begun can be cancelled.
        """
        return self._worker.submit(self._answer, body, on_chunk)

    def _answer(self, body: Mapping[str, Any], on_chunk: Callable[[Any], bool]) -> None:
        if self._server is None:
            self._server = self._load()
        self._server.handle_chat_completions(dict(body), on_chunk)

    def _load(self) -> Any:
        import xllamacpp

        options = self._options
        params = xllamacpp.CommonParams()
        params.model.path = str(options.file)
        params.n_ctx = options.context_tokens
        params.n_parallel = 1
        params.n_batch = params.n_ubatch = BATCH_TOKENS
        # Threads of the engine spin while they wait for each other: beside any other work one is faster than two.
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options.threads
        params.cache_ram_mib = CACHE_MIB
        params.verbosity = -1
        if options.chat_template:
            params.chat_template = options.chat_template
        # It always listens on a free port of the loopback interface: with a key that nobody knows, to nobody.
        params.hostnames, params.port, params.api_keys = ["127.0.0.1"], 0, [secrets.token_urlsafe()]
        params.ui = params.endpoint_slots = params.endpoint_props = False
        try:
            return xllamacpp.Server(params)
        except (RuntimeError, ValueError) as error:
            raise ConfigurationError(
                f"local: cannot load {str(options.file)!r}; is it a GGUF model? ({error})"
            ) from error


_engines: dict[tuple[int, EngineOptions], Engine] = {}
_lock = threading.Lock()


def shared_engine(options: EngineOptions) -> Engine:
    """Return the engine of this process for *options*; once loaded it stays until the process ends."""
    key = (os.getpid(), options)  # a forked child has no worker threads, so it loads its own
    with _lock:
        engine = _engines.get(key)
        if engine is None:
            engine = _engines[key] = Engine(options)
        return engine


def check_installed() -> None:
    """Raise `ConfigurationError` where the engine is not installed."""
    if importlib.util.find_spec("xllamacpp") is None:
        raise ConfigurationError(
            f"local models need an engine that is not installed: {INSTALL_ENGINE} "
            f"(and, for the embedded model: {INSTALL_MODEL})"
        )
    if sys.platform == "linux" and not _loads("libgomp.so.1"):
        raise ConfigurationError(
            "the engine of local models needs the system library libgomp.so.1, which is missing; on Debian: "
            "apt-get install libgomp1"
        )


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
