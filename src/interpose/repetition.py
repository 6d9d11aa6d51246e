"""Repetition: texts that say the same thing over and over."""

TIMES = 4
MIN_LINE_CHARS = 10
MIN_BLOCK_CHARS = 40


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
    """Look for a period: of four equal blocks in a row, one of every 40 characters is found again one block later."""
    last = len(text) - (TIMES - 1) * MIN_BLOCK_CHARS
    for start in range(0, last, MIN_BLOCK_CHARS):
        again = text.find(text[start : start + MIN_BLOCK_CHARS], start + 1)
        if again > 0 and _is_periodic(text, start, again - start):
            return True
    return False


def _is_periodic(text: str, place: int, period: int) -> bool:
    """Return whether the text round *place* repeats with *period* for long enough to hold four blocks."""
    begin, end = place, place
    while begin > 0 and text[begin - 1] == text[begin - 1 + period]:
        begin -= 1
    while end + period < len(text) and text[end] == text[end + period]:
        end += 1
    block = text[begin : begin + period]
    times = -(-MIN_BLOCK_CHARS // period)
    long_enough = period > MIN_BLOCK_CHARS or times > 1 or len(block.strip()) >= MIN_BLOCK_CHARS
    return long_enough and end - begin >= (TIMES * times - 1) * period and _says_something(block)


def _says_something(text: str) -> bool:
    return any(letter.isalnum() for letter in text)
