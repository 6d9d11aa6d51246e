"""A store as it was at a moment: what a process that is killed there leaves behind."""

import copy

from interpose.stores import MemoryStore


def snapshot(store: MemoryStore) -> MemoryStore:
    """Return a copy of *store* whose claims have lapsed."""
    left = MemoryStore()
    left._threads, left._runs = copy.deepcopy(store._threads), copy.deepcopy(store._runs)
    left._successors, left._key = dict(store._successors), store._key
    for run in left._runs.values():
        run.claimed_until = 0.0
    return left
