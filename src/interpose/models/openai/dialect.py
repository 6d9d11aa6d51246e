"""What servers that speak Chat Completions do differently."""

from msgspec import Struct


class Dialect(Struct, frozen=True, kw_only=True):
    """How one server wants its requests.

    *max_tokens_field* is the field for the limit on the answer. With *send_reasoning* the reasoning of earlier
    answers goes back in the field *reasoning_field*, which some reasoning models want and most servers refuse. With
    *keep_extras* what a server adds to its calls and messages for its own use, such as Gemini's `extra_content` with
    the signature of a thought or the `reasoning_details` of routers, is kept and sent back untouched.
    """

    max_tokens_field: str = "max_completion_tokens"
    send_reasoning: bool = False
    reasoning_field: str = "reasoning_content"
    keep_extras: bool = True


OFFICIAL = Dialect(keep_extras=False)
COMPATIBLE = Dialect(max_tokens_field="max_tokens")  # the older field, which every compatible server knows
