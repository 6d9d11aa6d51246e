"""The key by which checkpoints are sealed and questions are bound to what was asked."""

from __future__ import annotations

import hashlib
import hmac
from os import urandom
from typing import TYPE_CHECKING, Any

from interpose.text import canonical_json

if TYPE_CHECKING:
    from interpose.agent import Agent

PROCESS_KEY = urandom(32)


async def key_of(agent: Agent[Any]) -> bytes:
    """Return the agent's own key, else that of its store, else one of this process."""
    if agent.checkpoint_key is not None:
        return agent.checkpoint_key
    key: bytes = PROCESS_KEY if agent.store is None else await agent.store.key()
    return key


def mark(key: bytes, value: Any) -> str:
    """Return a short keyed hash of the JSON-like *value*: 16 hexadecimal digits of HMAC-SHA-256."""
    return hmac.new(key, canonical_json(value), hashlib.sha256).hexdigest()[:16]
