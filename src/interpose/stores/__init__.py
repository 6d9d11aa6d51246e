"""Stores: what keeps threads between runs."""

from interpose.stores.base import Store
from interpose.stores.memory import MemoryStore

__all__ = ["MemoryStore", "Store"]
