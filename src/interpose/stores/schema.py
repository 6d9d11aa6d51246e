"""The tables of a database, and how those of an older release become those of this one."""

from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from interpose.errors import StoreError

Steps = Generator[Any, Any, Any]
"""What an operation does: it yields statements with `?` for their parameters, and is sent what came of each."""


@dataclass(frozen=True)
class Dialect:
    """Where databases differ."""

    placeholder: str
    now: str
    """The database's own time in seconds since 1970, so that machines whose clocks differ agree on claims."""
    clustered: str
    """What ends the definition of a table whose rows lie in the order of its key, where one has to ask for that."""
    has_schema: str
    lock: str | None
    """What keeps two processes from migrating at once, where beginning to write does not."""
    messages: str
    """Reads messages of a thread, from a place on, so many at most: a row for each, or their texts in one."""


SQLITE = Dialect(
    placeholder="?",
    now="((julianday('now') - 2440587.5) * 86400.0)",
    clustered="WITHOUT ROWID",
    has_schema="SELECT count(*) FROM sqlite_master WHERE name = 'interpose_schema'",
    lock=None,
    messages="SELECT data FROM interpose_messages WHERE thread_id = ? AND place >= ? ORDER BY place LIMIT ?",
)
POSTGRES = Dialect(
    placeholder="%s",
    now="extract(epoch FROM clock_timestamp())::float8",
    clustered="",
    has_schema="""SELECT count(*) FROM pg_catalog.pg_tables
        WHERE tablename = 'interpose_schema' AND schemaname = ANY(current_schemas(false))""",
    lock="SELECT pg_advisory_xact_lock(8317202618)",
    messages="""SELECT string_agg(data, ',' ORDER BY place) FROM (SELECT place, data FROM interpose_messages
        WHERE thread_id = ? AND place >= ? ORDER BY place LIMIT ?) AS page""",
)


@lru_cache(maxsize=256)
def translate(sql: str, dialect: Dialect) -> str:
    """Return a statement as *dialect* writes it."""
    for name in ("messages", "now", "clustered"):
        sql = sql.replace(f"{{{name}}}", getattr(dialect, name))
    return sql.replace("?", dialect.placeholder)


MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE interpose_threads (thread_id TEXT PRIMARY KEY, length BIGINT NOT NULL, state TEXT) {clustered}",
        """CREATE TABLE interpose_messages (thread_id TEXT NOT NULL, place BIGINT NOT NULL, message_id TEXT NOT NULL,
            data TEXT NOT NULL, PRIMARY KEY (thread_id, place)) {clustered}""",
        """CREATE TABLE interpose_commits (thread_id TEXT NOT NULL, run_id TEXT NOT NULL,
            PRIMARY KEY (thread_id, run_id)) {clustered}""",
        """CREATE TABLE interpose_runs (run_id TEXT PRIMARY KEY, thread_id TEXT NOT NULL, status TEXT NOT NULL,
            created_at DOUBLE PRECISION NOT NULL, claimed_until DOUBLE PRECISION, claimed_by TEXT) {clustered}""",
        """CREATE TABLE interpose_parts (run_id TEXT NOT NULL REFERENCES interpose_runs ON DELETE CASCADE,
            part BIGINT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run_id, part)) {clustered}""",
        "CREATE INDEX interpose_paused ON interpose_runs (thread_id, created_at) WHERE status = 'paused'",
        """CREATE TABLE interpose_successors (old_run_id TEXT PRIMARY KEY,
            run_id TEXT NOT NULL REFERENCES interpose_runs ON DELETE CASCADE) {clustered}""",
        "CREATE INDEX interpose_successor ON interpose_successors (run_id)",
        "CREATE TABLE interpose_keys (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    ),
    (
        """CREATE TABLE interpose_served (run_id TEXT PRIMARY KEY, agent TEXT NOT NULL, owner TEXT NOT NULL,
            thread_id TEXT NOT NULL, title TEXT NOT NULL, worker TEXT NOT NULL, status TEXT NOT NULL,
            created_at DOUBLE PRECISION NOT NULL, heard_at DOUBLE PRECISION NOT NULL,
            is_cancelled INTEGER NOT NULL DEFAULT 0) {clustered}""",
        "CREATE INDEX interpose_served_by ON interpose_served (worker) WHERE status = 'running'",
        "CREATE INDEX interpose_served_heard ON interpose_served (heard_at)",
        """CREATE TABLE interpose_events (run_id TEXT NOT NULL REFERENCES interpose_served ON DELETE CASCADE,
            seq BIGINT NOT NULL, data TEXT NOT NULL, PRIMARY KEY (run_id, seq)) {clustered}""",
        """CREATE TABLE interpose_served_threads (agent TEXT NOT NULL, owner TEXT NOT NULL, thread_id TEXT NOT NULL,
            title TEXT NOT NULL, created_at DOUBLE PRECISION NOT NULL, updated_at DOUBLE PRECISION NOT NULL,
            PRIMARY KEY (agent, owner, thread_id)) {clustered}""",
        "CREATE INDEX interpose_served_last ON interpose_served_threads (agent, owner, updated_at)",
    ),
)
"""What leads from one version to the next; entries that were released are never changed, only added to."""


def migrate(dialect: Dialect) -> Steps:
    """Bring the tables to the version of this release.

    Raises:
        StoreError: they are of a newer one.
    """
    version = yield from _version(dialect)
    if version == len(MIGRATIONS):
        return
    if dialect.lock is not None:
        yield dialect.lock, ()
        version = yield from _version(dialect)
    if version > len(MIGRATIONS):
        raise StoreError(
            f"this database is of version {version}, and this release of interpose knows versions up to "
            f"{len(MIGRATIONS)}; upgrade interpose, or use another database"
        )
    if version == 0:
        yield "CREATE TABLE interpose_schema (version INTEGER NOT NULL)", ()
        yield "INSERT INTO interpose_schema VALUES (0)", ()
    for statements in MIGRATIONS[version:]:
        for sql in statements:
            yield sql, ()
    yield "UPDATE interpose_schema SET version = ?", (len(MIGRATIONS),)


def _version(dialect: Dialect) -> Any:
    (row,) = yield dialect.has_schema, ()
    if not row[0]:
        return 0
    (row,) = yield "SELECT version FROM interpose_schema", ()
    return row[0]
