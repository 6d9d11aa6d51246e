"""What servers that speak Chat Completions do differently."""

from msgspec import Struct


class Dialect(Struct, frozen=True, kw_only=True):
    """How one server wants its requests.

    *max_tokens_field* is the field for the limit on the answer. With *send_reasoning* the reasoning of earlier
    answers goes back as `reasoning_content`, which some reasoning models want and most servers refuse.
    """

    max_tokens_field: str = "max_completion_tokens"
    send_reasoning: bool = False


OFFICIAL = Dialect()
COMPATIBLE = Dialect(max_tokens_field="max_tokens")  # the older field, which every compatible server knows
