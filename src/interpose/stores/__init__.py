"""Stores: what keeps threads and checkpoints between runs."""

from interpose.errors import StoreError
from interpose.stores.base import Store
from interpose.stores.memory import MemoryStore
from interpose.stores.sql import SQLStore

__all__ = ["MemoryStore", "SQLStore", "Store", "StoreError"]
