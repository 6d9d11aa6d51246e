"""`FileBackend`: folders and URLs, and nothing outside of them."""

from pathlib import Path

import pytest

from interpose.backends import FileBackend, ReadableBackend, path_part
from interpose.errors import ConfigurationError

pytest.importorskip("fsspec")


def names_in(folder: Path) -> list[str]:
    return [found.name for found in folder.iterdir()]


async def test_text_is_read_back_from_a_folder_that_is_made(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path / "new")
    await backend.write("evicted/r/t/c.txt", "é\n漢")
    assert await backend.read("evicted/r/t/c.txt") == "é\n漢"
    assert (tmp_path / "new/evicted/r/t/c.txt").read_bytes() == "é\n漢".encode()


async def test_text_is_written_in_place_of_what_was_there(tmp_path: Path) -> None:
    backend = FileBackend(str(tmp_path))
    await backend.write("a.txt", "long before")
    await backend.write("a.txt", "now")
    assert await backend.read("a.txt") == "now"


async def test_urls_of_other_places_work() -> None:
    backend = FileBackend("memory://builtin-tests/files")
    await backend.write("a/b.txt", "x")
    assert await FileBackend("memory://builtin-tests").read("files/a/b.txt") == "x"


async def test_missing_file_is_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await FileBackend(tmp_path).read("none.txt")


@pytest.mark.parametrize(
    "path", ["../x", "a/../../x", "/etc/x", "a//b", "", "a/", ".", "..", "a\\..\\x", "c:x", "a\0b", "./x"]
)
async def test_path_that_leads_out_of_the_root_is_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(ValueError, match="root"):
        await FileBackend(tmp_path / "root").write(path, "x")
    assert names_in(tmp_path) == []


async def test_link_that_leads_out_of_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root/link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="link"):
        await FileBackend(tmp_path / "root").write("link/x.txt", "x")


def test_unknown_kind_of_url_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="nowhere"):
        FileBackend("nowhere://x")


def test_file_backend_can_be_read(tmp_path: Path) -> None:
    assert isinstance(FileBackend(tmp_path), ReadableBackend)


@pytest.mark.parametrize(("text", "expected"), [("a-b_C9", "a-b_C9"), ("../x", "___x"), ("", "_"), ("é.", "__")])
def test_part_of_a_path_has_plain_letters_only(text: str, expected: str) -> None:
    assert path_part(text) == expected


def test_part_of_a_path_that_no_file_system_takes_is_shortened_and_stays_its_own() -> None:
    parts = [path_part("x" * 300 + end) for end in "ab"]
    assert ([len(part) for part in parts], parts[0] == parts[1]) == ([200, 200], False)
    assert path_part("x" * 200) == "x" * 200


async def test_half_characters_become_the_replacement_character(tmp_path: Path) -> None:
    backend = FileBackend(tmp_path)
    await backend.write("a.txt", "a\ud800b")
    assert await backend.read("a.txt") == "a\ufffdb"


async def test_root_of_the_file_system_is_a_root(tmp_path: Path) -> None:
    path = str(tmp_path / "a.txt").lstrip("/")
    await FileBackend("/").write(path, "x")
    assert await FileBackend("/").read(path) == "x"
