"""Repetition: texts that say the same thing over and over."""

TIMES = 4
MIN_LINE_CHARS = 10
MIN_BLOCK_CHARS = 40
MAX_BLOCK_CHARS = 4000
"""Longer blocks are not looked for, so that the time stays linear in the text."""


def repeats_itself(text: str) -> bool:
    """Return whether a line of 10 characters or more, or a block of 40 or more, stands four times in a row.

    White space counts as one blank, and blank lines are passed over. Rules made of signs, such as `-----`, are let be.
    """
    if len(text) < TIMES * MIN_LINE_CHARS:
        return False
    return _repeats_a_line(text) or _repeats_a_block(" ".join(text.split()) + " ")


def _repeats_a_line(text: str) -> bool:
    before, count = "", 0
    for line in map(str.strip, text.splitlines()):
        if not line:
            continue
        count = count + 1 if line == before else 1
        before = line
        if count == TIMES and len(line) >= MIN_LINE_CHARS and _says_something(line):
            return True
    return False


def _repeats_a_block(text: str) -> bool:
    """Look for a period: of four equal blocks in a row, a piece at one of every 80 places stands again a block later.

    Three blocks are 120 characters at least, so 40 that begin at such a place are always among them.
    """
    seen: dict[int, int] = {}
    for start in range(0, len(text) - MIN_BLOCK_CHARS, 2 * MIN_BLOCK_CHARS):
        anchor = text[start : start + MIN_BLOCK_CHARS]
        period = text.find(anchor, start + 1, start + MAX_BLOCK_CHARS + MIN_BLOCK_CHARS) - start
        if period <= 0 or start < seen.get(period, 0):
            continue
        begin, end = _run(text, start, period)
        if _is_long_enough(text[begin : begin + period], end - begin):
            return True
        seen[period] = end
    return False


def _run(text: str, place: int, period: int) -> tuple[int, int]:
    """Return from where to where each character round *place* stands again one *period* later."""
    begin, end = place, place
    while begin > 0 and text[begin - 1] == text[begin - 1 + period]:
        begin -= 1
    while end + period < len(text) and text[end] == text[end + period]:
        end += 1
    return begin, end


def _is_long_enough(block: str, length: int) -> bool:
    """Return whether a run of *length* holds four times *block*, or as much of short ones as makes 40 characters."""
    blocks = -(-MIN_BLOCK_CHARS // len(block))
    return length >= (TIMES * blocks - 1) * len(block) and _says_something(block)


def _says_something(text: str) -> bool:
    return any(letter.isalnum() for letter in text)
