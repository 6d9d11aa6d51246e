"""Looking for a text in what nodes took and gave."""

from collections.abc import Iterable

from interpose.flow.wire import unpack
from interpose.text import to_json

MAX_FOUND = 5_000


def events_with(text: str, packed: Iterable[tuple[int, bytes]]) -> list[int]:
    """Return the numbers of the events that brought *text*, in whatever case; none for an empty text.

    *packed* are pairs of the number of an event and something packed that it brought.
    """
    wanted = to_json(text)[1:-1].lower()  # as it stands within JSON, where quotes and line ends are escaped
    found: list[int] = []
    if not wanted:
        return found
    for seq, body in packed:
        if wanted in unpack(body).decode("utf-8", "replace").lower():
            found.append(seq)
            if len(found) == MAX_FOUND:
                break
    return found
