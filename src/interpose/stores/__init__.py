"""Stores: what keeps threads and checkpoints between runs."""

from interpose.stores.base import Store, StoreError
from interpose.stores.memory import MemoryStore
from interpose.stores.sql import SQLStore

__all__ = ["MemoryStore", "SQLStore", "Store", "StoreError"]
