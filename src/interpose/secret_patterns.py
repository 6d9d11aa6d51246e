"""What secrets look like in a text: shapes of keys and tokens, and the names of fields whose values are secret.

Each pattern keeps the part that says what was there, and leaves alone what is hidden already. Each is tried only where
a cheap look says that it may be there: most texts hold none, and all that is recorded passes here. No pattern takes
more than linear time, whatever the text: repetitions are possessive or bounded.
"""

from __future__ import annotations

import re
from typing import NamedTuple

HIDDEN = "[REDACTED]"


class Shape(NamedTuple):
    """A secret known by its own shape: the pattern, whose first group stays; characters and texts that must be there.

    One of the *marks* (single characters) and one of the *hints* (lower case) are in every text that it matches.
    """

    marks: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


SHAPES = (
    Shape(
        "-",
        ("private key-",),
        re.compile(r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----)[\s\S]*?(?=-----END [A-Z0-9 ]{0,40}PRIVATE KEY|\Z)"),
    ),
    Shape(
        "@",
        ("://",),
        re.compile(
            r"(://[^\s:/@\"<>]{0,200}+:)(?!\d{1,5}[/?#])(?:[^\s/\"<>]{1,1000}(?=@)|[^\s@\"<>]{1,300}+(?=@))",
        ),
    ),
    Shape(
        ".",
        ("eyj",),
        re.compile(r"(?<![A-Za-z0-9_\-])(eyJ)[A-Za-z0-9_\-]{4,}+\.[A-Za-z0-9_\-]{2,}+(?:\.[A-Za-z0-9_\-]*+)?"),
    ),
    Shape(
        " \t\n",
        ("earer", "asic"),
        re.compile(r"\b((?:(?i:bearer)|B(?:asic|ASIC)|basic(?=\s+[a-z]*+[A-Z0-9+/=]))\s+)[A-Za-z0-9._~+/=\-]{8,}+"),
    ),
    Shape("-_", ("k-", "k_"), re.compile(r"(?<![A-Za-z0-9])([spr]k(?:-|_(?:live|test)_))[A-Za-z0-9_\-]{16,}+")),
    Shape(
        "-_",
        ("gh", "pat-", "xox", "xapp"),
        re.compile(r"(?<![A-Za-z0-9])(gh[pousr]_|github_pat_|glpat-|xox[a-z]-|xapp-)[A-Za-z0-9_\-]{4,}+"),
    ),
    Shape("A", ("akia", "asia"), re.compile(r"(?<![A-Za-z0-9])(AKIA|ASIA)[A-Z0-9]{16,}+")),
    Shape("A", ("aiza",), re.compile(r"(?<![A-Za-z0-9])(AIza)[A-Za-z0-9_\-]{30,}+")),
)
"""In order: a whole secret is hidden before the name of the field that it stands in is looked at.

Sources: RFC 6750 and 7617 (Bearer, Basic), RFC 7519 (JSON web tokens), RFC 7468 (PEM), and the vendors' pages on the
formats of their keys, read in November 2026.
"""


class Field:
    """The name of a field whose value is secret: *word* begins it, *rest* is a pattern for what follows.

    *before* is a pattern for what must stand in front. A value of fewer than *least* characters is left.
    """

    def __init__(self, word: str, rest: str = "", before: str = "", least: int = 4) -> None:
        self.word = word
        self.least = least
        self.before = re.compile(rf"(?:{before})\Z", re.IGNORECASE) if before else None
        self.after = re.compile(rf"(?:{word}){rest}{_value(least)}", re.IGNORECASE)
        self.flag = re.compile(rf"(?:{word}){rest}\s{{1,3}}(?!-){NOT_HIDDEN}(\S{{{least},4000}}+)", re.IGNORECASE)
        self.name = re.compile(rf"(?:{before})(?:{word}){rest}\Z", re.IGNORECASE)

    def hide(self, text: str, low: str) -> str:
        """Return *text* without the values of this field; *low* is the text in lower case, of the same length."""
        pieces: list[str] = []
        done = 0
        at = low.find(self.word)
        while at >= 0:
            span = self._value_at(text, low, at) if at >= done else None
            if span is not None:
                pieces += text[done : span[0]], HIDDEN
                done = span[1]
            at = low.find(self.word, max(at + len(self.word), done))
        return "".join([*pieces, text[done:]]) if pieces else text

    def _value_at(self, text: str, low: str, at: int) -> tuple[int, int] | None:
        """Return where the value is that belongs to the name at *at*, if there is one to hide."""
        if self.before is not None and self.before.search(low[max(at - 12, 0) : at]) is None:
            return None
        match = self.after.match(text, at)
        if match is None:
            dashes = text.rfind("--", max(at - 42, 0), at)
            if dashes >= 0 and FLAG.fullmatch(text, dashes + 2, at) is not None:
                match = self.flag.match(text, at)
        if match is None:
            return None
        start, end = match.span(match.lastindex or 0)
        if match.lastindex == BARE:
            end = start + len(text[start:end].rstrip(",.)]}"))
        return (start, end) if end - start >= self.least else None


NOT_HIDDEN = r"(?!\S{0,12}\[REDACTED|(?:none|null|true|false|bearer|basic|digest)\b)"
FLAG = re.compile(r"[\w\-]*")
BARE = 4
"""The group of a value without quotes."""


def _value(least: int) -> str:
    r"""Return a pattern for what follows the name: `: value`, `="value"`, `\": \"value\"`, `>value</`."""
    scheme = r"(?:(?:bearer|basic|digest|token)\s{1,3})?+"
    size = f"{{{least},4000}}+"
    return (
        rf"(?:[\"'\\]{{0,9}}\s{{0,3}}(?:=>|[:=])\s{{0,3}}"
        rf'(?:"{scheme}{NOT_HIDDEN}((?:[^"\\\n]|\\.){size})'
        rf"|'{scheme}{NOT_HIDDEN}((?:[^'\\\n]|\\.){size})"
        rf'|\\{{1,8}}"{scheme}{NOT_HIDDEN}([^"\\\n]{size})'
        rf"|{scheme}{NOT_HIDDEN}((?:[^\s\"'\\;&<>,]|,(?!\s|[\w.\-]{{1,40}}[=:])){size}))"
        rf"|>{NOT_HIDDEN}([^<]{{{least},200}}+)(?=</))"
    )


KEYS = r"(?:api|access|account|private|secret|signing|encryption|master|session)[_\- ]?"
FIELDS = (
    Field("key", before=KEYS),
    Field("secret"),
    Field("pass", r"(?:word|wd|phrase)"),
    Field("pwd"),
    Field("token"),
    Field("authorization"),
    Field("credential", "s?"),
)
SECRET_NAME = re.compile(
    rf"(?:token|(?:{KEYS}key|secret|passw(?:or)?d|passphrase|pwd|authorization|credential)s?)\Z", re.IGNORECASE
)
"""Names, in structured data, whose values are secret; `tokens` are mostly counted."""


def may_name_secret(text: str) -> bool:
    """Whether *text*, the names and values of some data, may hold a secret or the name of a secret field."""
    low = text.lower()
    for word in WORDS:
        if word in low:
            return True
    return may_hold_secret(text)


def may_hold_secret(text: str) -> bool:
    """Whether a look at *text* is worth while: no pattern here matches where this is false."""
    low = text.lower()
    if ":" in low or "=" in low or ">" in low or "--" in low:
        for word in WORDS:
            if word in low:
                return True
    if (" " in low or "\n" in low or "\t" in low) and ("earer" in low or "asic" in low):
        return True
    if ("-" in low or "_" in low) and (
        "k-" in low or "k_" in low or "gh" in low or "pat-" in low or "xox" in low or "xapp" in low or "key-" in low
    ):
        return True
    return ("A" in text and ("AKIA" in text or "ASIA" in text or "AIza" in text)) or "eyJ" in text


WORDS = (*[one.word for one in FIELDS], "://")


def field_named(name: str) -> Field:
    """Return the field of this *name*, however its words are joined; its values are hidden at any length."""
    words = [word for word in re.split(r"[_\-. ]+", name.lower()) if word] or [name.lower()]
    rest = "".join([rf"[_\-. ]?{re.escape(word)}" for word in words[1:]])
    return Field(words[0], rest, before=r"(?<![a-z0-9])", least=1)
