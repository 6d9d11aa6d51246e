"""The daily budget in a table: one row per tenant and day, and an update that adds only where it fits."""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

from daily import Aside, DailyBudget

CREATE = """CREATE TABLE IF NOT EXISTS budget (
    tenant TEXT NOT NULL, day TEXT NOT NULL, micro_usd INTEGER NOT NULL, PRIMARY KEY (tenant, day))"""
BEGIN_DAY = "INSERT INTO budget VALUES (?, ?, 0) ON CONFLICT DO NOTHING"
ADD_WITHIN = """UPDATE budget SET micro_usd = micro_usd + ?1
    WHERE tenant = ?2 AND day = ?3 AND micro_usd + ?1 <= ?4"""
ADD = "UPDATE budget SET micro_usd = micro_usd + ? WHERE tenant = ? AND day = ?"
SPENT = "SELECT micro_usd FROM budget WHERE tenant = ? AND day = ?"


class SQLBudget(DailyBudget):
    """A daily budget that all processes with the same file share. Each statement is a transaction of its own."""

    def __init__(self, limit_usd: float, path: str) -> None:
        super().__init__(limit_usd)
        self.path = path
        self._execute(CREATE)

    async def add_within(self, key: Aside, limit_micro_usd: int) -> bool:
        """Make the day's row and update it; the condition is checked where the row is locked."""
        await asyncio.to_thread(self._execute, BEGIN_DAY, key.tenant, key.day)
        given = (key.micro_usd, key.tenant, key.day, limit_micro_usd)
        changed, _ = await asyncio.to_thread(self._execute, ADD_WITHIN, *given)
        return changed == 1

    async def add(self, tenant: str, day: str, micro_usd: int) -> None:
        """Update the row."""
        await asyncio.to_thread(self._execute, ADD, micro_usd, tenant, day)

    async def spent(self, tenant: str, day: str) -> int:
        """Return what the row says."""
        _, rows = await asyncio.to_thread(self._execute, SPENT, tenant, day)
        return int(rows[0][0]) if rows else 0

    def _execute(self, statement: str, *given: Any) -> tuple[int, list[Any]]:
        """Execute one statement; return how many rows it changed, and those that it gave."""
        with closing(sqlite3.connect(self.path, timeout=30, isolation_level=None)) as db:
            cursor = db.execute(statement, given)
            return cursor.rowcount, cursor.fetchall()
