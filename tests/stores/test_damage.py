"""What is no database, is damaged, of a newer release, or out of reach: refused with what is wrong, nothing changed."""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.stores.conftest import Server

from interpose import ConfigurationError, ResumeError
from interpose.stores import SQLStore, StoreError
from interpose.testing.store_values import some_checkpoint, some_messages

Opener = Callable[..., SQLStore]


async def filled(open_store: Opener, url: str, **options: Any) -> SQLStore:
    store = open_store(url, **options)
    await store.commit("t1", "r0", some_messages(500))
    await store.put(some_checkpoint())
    return store


@pytest.mark.parametrize(
    "content", [b"this is a letter, not a database" * 40, b"SQLite format 3\x00" + b"\x07" * 5000, b"x"]
)
async def test_file_that_is_no_database_is_refused_and_left_alone(
    content: bytes, tmp_path: Path, open_store: Opener
) -> None:
    path = tmp_path / "letter.db"
    path.write_bytes(content)
    store = open_store(f"sqlite:///{path}")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"letter\.db.*left as it is"):
            await store.load("t1")
    with pytest.raises(StoreError, match=r"letter\.db"):
        await store.put(some_checkpoint())
    assert path.read_bytes() == content


async def test_file_that_was_cut_is_refused_and_left_alone(sqlite: str, open_store: Opener) -> None:
    await (await filled(open_store, sqlite)).aclose()
    path = sqlite.removeprefix("sqlite:///")
    left = cut(path)
    store = open_store(sqlite)
    with pytest.raises(StoreError, match="damaged"):
        await store.load("t1")
    assert content_of(path) == left


def cut(path: str) -> bytes:
    """Cut off the end of a file, and return what is left of it."""
    left = content_of(path)[: os.path.getsize(path) // 3]
    Path(path).write_bytes(left)
    return left


def content_of(path: str) -> bytes:
    return Path(path).read_bytes()


async def test_empty_file_becomes_a_database(tmp_path: Path, open_store: Opener) -> None:
    (tmp_path / "empty.db").touch()
    store = open_store(f"sqlite:///{tmp_path}/empty.db")
    await store.commit("t1", "r1", some_messages(1))
    assert list(await store.load("t1")) == some_messages(1)


async def test_newer_tables_are_refused_with_both_versions(url: str, open_store: Opener) -> None:
    await (await filled(open_store, url)).aclose()
    await execute(url, "UPDATE interpose_schema SET version = 99")
    with pytest.raises(StoreError, match="version 99.*up to 2; upgrade"):
        await open_store(url).load("t1")


async def test_newer_checkpoint_is_refused_and_others_are_not(url: str, open_store: Opener) -> None:
    store = await filled(open_store, url)
    await store.put(some_checkpoint("r2"))
    await execute(
        url, "UPDATE interpose_parts SET data = replace(data, '\"version\":1', '\"version\":9') WHERE run_id = 'r1'"
    )
    with pytest.raises(ResumeError, match="run 'r1'.*version 9.*up to 1"):
        await store.get("r1")
    assert await store.get("r2") == some_checkpoint("r2")


@pytest.mark.parametrize("data", ['{"version":1,', "", "garbage", '{"version":1,"run_id":"r1","x":1}'])
async def test_damaged_checkpoint_is_refused_by_its_run_id(data: str, url: str, open_store: Opener) -> None:
    store = await filled(open_store, url)
    await execute(url, f"UPDATE interpose_parts SET data = '{data}'")
    with pytest.raises(ResumeError, match="run 'r1' cannot be gone on with"):
        await store.get("r1")


@pytest.mark.parametrize("data", ['{"role":"user","te', '{"role":"robot"}', ""])
async def test_damaged_message_is_refused_by_its_thread(data: str, url: str, open_store: Opener) -> None:
    store = await filled(open_store, url)
    await execute(url, f"UPDATE interpose_messages SET data = '{data}' WHERE place = 7")
    with pytest.raises(StoreError, match="thread 't1' holds something that is no message"):
        await store.load("t1")
    assert list(await store.load("t1", after=8)) == some_messages(492, 8)


async def test_folder_that_is_not_there_is_said(tmp_path: Path, open_store: Opener) -> None:
    store = open_store(f"sqlite:///{tmp_path}/absent/store.db")
    with pytest.raises(StoreError, match="absent/store.db.*the folder must be there"):
        await store.load("t1")
    (tmp_path / "absent").mkdir()
    assert list(await store.load("t1")) == []


async def execute(url: str, sql: str) -> None:
    """Change the database behind the store's back."""
    if url.startswith("sqlite"):
        with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
            connection.execute(sql)
        connection.close()
        return
    import psycopg

    with psycopg.connect(url, autocommit=True) as other:
        other.execute(sql.encode())


# Postgres, away for a while.


async def test_postgres_that_comes_back_is_waited_for(
    postgres_server: Server, postgres: str, open_store: Opener
) -> None:
    store = await filled(open_store, postgres, timeout_s=60)
    await asyncio.to_thread(postgres_server.stop)
    waiting = asyncio.create_task(store.commit("t1", "r1", some_messages(1, 500), expected=500))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await asyncio.to_thread(postgres_server.start)
    await waiting
    assert list(await store.load("t1")) == some_messages(501)


async def test_postgres_that_stays_away_is_said_and_works_again_afterwards(
    postgres_server: Server, postgres: str, open_store: Opener
) -> None:
    store = await filled(open_store, postgres)
    hasty = open_store(postgres, timeout_s=0.3)
    assert await hasty.get("r1") == some_checkpoint()
    await asyncio.to_thread(postgres_server.stop)
    try:
        with pytest.raises(StoreError, match="out of reach.*timeout_s=0.3"):
            await hasty.drop("r1")
    finally:
        await asyncio.to_thread(postgres_server.start)
    assert await hasty.get("r1") == some_checkpoint()
    assert await store.get("r1") == some_checkpoint()


# What is asked wrongly.


@pytest.mark.parametrize(
    "url",
    ["store.db", "", "mysql://host/db", "sqlite:/store.db", "sqlite://store.db", "sqlite://host/store.db", "://"],
)
def test_url_that_names_no_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="sqlite:///"):
        SQLStore(url)


@pytest.mark.parametrize("timeout_s", [0, -1, float("nan")])
def test_timeout_must_be_above_0(timeout_s: float) -> None:
    with pytest.raises(ConfigurationError, match="above 0"):
        SQLStore("sqlite://", timeout_s=timeout_s)


async def test_null_in_a_thread_id_is_kept_or_refused(url: str, open_store: Opener) -> None:
    store = open_store(url)
    (came,) = await asyncio.gather(store.commit("a\0b", "r1", some_messages(1)), return_exceptions=True)
    assert came is None or isinstance(came, StoreError)
    if came is None:
        assert list(await store.load("a\0b")) == some_messages(1)
    assert list(await store.load("a")) == []


async def test_half_a_character_in_an_id_is_refused_and_harms_no_other(url: str, open_store: Opener) -> None:
    store = open_store(url)
    acts = [store.commit(thread_id, "r1", some_messages(1)) for thread_id in ("t1", "half \ud800", "t2")]
    came = await asyncio.gather(*acts, return_exceptions=True)
    assert [type(one) for one in came] == [type(None), StoreError, type(None)]
    assert list(await store.load("t2")) == some_messages(1)
