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


PREFIXED = (
    Shape(
        "-",
        ("xai-", "pplx-", "nvapi-", "tvly-", "pypi-", "pmak-", "gocspx-", "pul-", "sq0", "gl", "key-"),
        re.compile(
            r"(?<![A-Za-z0-9])(?<!REDACTED\])((?:xai|pplx|nvapi|tvly|pypi|PMAK|GOCSPX|pul|sq0[a-z]{3}|gl[a-z]{1,5}t|"
            r"key(?=-[0-9a-f]{32}))-)[A-Za-z0-9_\-]{20,}+"
        ),
    ),
    Shape(
        "_",
        (
            "hf_",
            "gsk_",
            "npm_",
            "r8_",
            "whsec_",
            "_v1_",
            "shp",
            "_pat_",
            "lin_",
            "ntn_",
            "figd_",
            "gl",
            "sntry",
            "gems_",
        ),
        re.compile(
            r"(?<![A-Za-z0-9])(?<!REDACTED\])((?:hf|gsk|npm|r8|whsec|do[opr]_v1|shp(?:at|ca|pa|ss)|dckr_pat|lin_(?:api|oauth)|ntn|"
            r"figd|gl(?:sa|c)|sntry[su]|rubygems)_)[A-Za-z0-9_+/\-]{20,}+"
        ),
    ),
    Shape(
        ".",
        ("sg.", "ya29.", "hvs.", "hvb."),
        re.compile(
            r"(?<![A-Za-z0-9])(?<!REDACTED\])(SG\.(?=[A-Za-z0-9_\-]{10,40}\.)|ya29\.|hv[sb]\.)[A-Za-z0-9_.\-]{20,}+"
        ),
    ),
    Shape(":", (":aa",), re.compile(r"(?<!\d)(\d{8,10}:)AA[A-Za-z0-9_\-]{30,}+")),
    Shape(
        "/",
        ("hooks.slack.com/", "/api/webhooks/"),
        re.compile(r"(hooks\.slack\.com/[a-z]{1,20}/|/api/webhooks/\d{1,30}/)[A-Za-z0-9_/\-]{20,}+"),
    ),
    Shape("/", ("://",), re.compile(r"(://)(?!\[)[A-Za-z0-9_\-]{20,200}+(?=@)")),
    Shape(
        "=",
        ("sig=", "signature=", "key="),
        re.compile(
            r"((?:[?&]|(?<=amp;))(?:sig|key|x-(?:amz|goog)-signature)=|\bsignature=)[A-Za-z0-9_%+/=\-]{20,}+",
            re.IGNORECASE,
        ),
    ),
)
"""What stands behind a mark that `LONG` finds: keys known by how they begin, addresses that are secrets, signatures."""
LONG = re.compile(r"[_\-.:/=][A-Za-z0-9_%+\-]{16}")

SAID = (
    Shape(
        ":=",
        ("authorization",),
        re.compile(
            r"(authorization[\"']{0,2}\s{0,2}[:=]\s{0,2}[\"']?"
            r"(?!(?:bearer|basic|token)\s)[a-z][a-z0-9\-]{1,30}[ \t]{1,3})"
            r"(?!\[REDACTED)(?:[^\r\n\"']|(?<==)\"[^\"\r\n]*+\"){4,}+",
            re.IGNORECASE,
        ),
    ),
    Shape(
        ":",
        ("cookie",),
        re.compile(r"(cookie[\"']?:\s{0,3}[\"']?)(?!\[REDACTED)[^\s=;,:\[\"']{1,100}=[^\r\n\"']++", re.IGNORECASE),
    ),
    Shape(
        "%",
        ("%3a%2f%2f",),
        re.compile(r"(%3A%2F%2F[^\s%&]{0,100}%3A)(?!\[REDACTED)[^\s&@]{1,300}?(?=%40)", re.IGNORECASE),
    ),
    Shape(
        " ",
        ("curl",),
        re.compile(r"(\s(?:-u|--user)[ =]{0,2}[\"']?[^\s:\"']{1,100}:)(?!\[REDACTED|\d{1,9}\b)[^\s\"']{3,}+"),
    ),
    Shape(
        "(",
        ("token", "secret", "pass", "key", "authorization", "cookie"),
        re.compile(
            r"(\(b?([\"'])[\w\-]{0,40}(?:token|secret|passw(?:or)?d|api[_\-]?key|authorization|cookie)\2,\s?b?([\"']))"
            r"(?!\S{0,12}\[REDACTED)[^\"'\n]{4,4000}(?=\3)",
            re.IGNORECASE,
        ),
    ),
    Shape(
        " ",
        ("pass", "secret", "key", "token"),
        re.compile(
            r"((?:passw(?:or)?d|passphrase|passcode|secret|api[ _\-]?key|token) (?:is|was):? [\"'`]?)"
            r"(?=[^\s\"'`,\[\]=:]*\d)(?=[^\s\"'`,\[\]=:]*[A-Za-z])[^\s\"'`,\[\]=:]{6,}+",
            re.IGNORECASE,
        ),
    ),
)
"""What is known by the words around it: headers, cookies, options, pairs, and what is said in a sentence."""

SHAPES = (
    *SAID,
    Shape(
        "-",
        ("private key",),
        re.compile(
            r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)"
            r"[\s\S]*?(?=-----END [A-Z0-9 ]{0,40}PRIVATE KEY|\Z)"
        ),
    ),
    Shape(
        "@",
        ("://",),
        re.compile(
            r"(://[^\s:/@\"<>]{0,200}+:)(?!\d{1,5}[/?#]|\[REDACTED\])(?:[^\s/\"<>]{1,1000}(?=@)|[^\s@\"<>]{1,300}+(?=@))",
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
    Shape(
        "-_",
        ("k-", "k_"),
        re.compile(r"(?<![A-Za-z0-9])(?<!REDACTED\])([spr]k(?:-|_(?:live|test)_))[A-Za-z0-9_\-]{16,}+"),
    ),
    Shape(
        "-_",
        ("gh", "pat-", "xox", "xapp"),
        re.compile(
            r"(?<![A-Za-z0-9])(?<!REDACTED\])(gh[pousr]_|github_pat_|glpat-|xox[a-z]-|xapp-)[A-Za-z0-9_\-]{4,}+"
        ),
    ),
    *PREFIXED,
    Shape("A", ("akia", "asia"), re.compile(r"(?<![A-Za-z0-9])(?<!REDACTED\])(AKIA|ASIA)[A-Z0-9]{16,}+")),
    Shape("A", ("aiza",), re.compile(r"(?<![A-Za-z0-9])(?<!REDACTED\])(AIza)[A-Za-z0-9_\-]{30,}+")),
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


QUOTES = r"(?:[\"'*`]|\\u0022|\\|&(?:quot|#3[49]);|%2[27]){0,9}"
NAMED = r"[\"'\\]{0,5}\s{0,3},\s{0,3}[\"'\\]{1,5}value[\"'\\]{1,5}\s{0,3}:"
"""What stands between a name and its value in `{"name": "password", "value": "…"}`."""


def _value(least: int) -> str:
    r"""Return a pattern for what follows the name: `: value`, `="value"`, `\": \"value\"`, `:** value`, `>value</`."""
    scheme = r"(?:(?:bearer|basic|digest|token)\s{1,3})?+"
    size = f"{{{least},4000}}+"
    return (
        rf"(?:{QUOTES}(?:\s{{0,3}}(?:=>|:=|[:=\uff1a\uff1d]|%3[AD])\s{{0,3}}(?:\*{{1,3}}\s{{0,3}})?+|{NAMED}\s{{0,3}})"
        rf'(?:"(?:"")?+{scheme}{NOT_HIDDEN}((?:[^"\\\n]|\\.){size})'
        rf"|'(?:'')?+{scheme}{NOT_HIDDEN}((?:[^'\\\n]|\\.){size})"
        rf'|\\{{1,8}}(?:"|u0022){scheme}{NOT_HIDDEN}([^"\\\n]{size})'
        rf"|(?:&(?:quot|#3[49]);)?+{scheme}{NOT_HIDDEN}((?:[^\s\"'\\;&<>,]|,(?!\s|[\w.\-]{{1,40}}[=:])){size}))"
        rf"|>{NOT_HIDDEN}([^<]{{{least},200}}+)(?=</))"
    )


KEYS = r"(?:api|access|account|private|secret|signing|encryption|master|session)[_\- ]?"
MORE = r"(?:[_\-]?(?:value|string|hash))?(?:[_\-]?\d{1,3})?"
FIELDS = (
    Field("key", MORE, before=KEYS),
    Field("secret", MORE),
    Field("pass", rf"(?:word|wd|phrase|code){MORE}"),
    Field("pass", before=r"[_\-\"'?&]"),
    Field("pwd", MORE),
    Field("token", MORE),
    Field("authorization"),
    Field("credential", "s?"),
)
SECRET_NAME = re.compile(
    rf"(?:(?:\A|[_\-])pass|token|cookies?|(?:{KEYS}key|secret|passw(?:or)?d|passphrase|passcode|pwd|authorization|credential)s?)"
    rf"{MORE}\Z",
    re.IGNORECASE,
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
    if names_may_follow(low) or " is " in low or " was " in low or "('" in low or '("' in low or "(b'" in low:
        for word in WORDS:
            if word in low:
                return True
    if (" " in low or "\n" in low or "\t" in low) and ("earer" in low or "asic" in low or "curl" in low):
        return True
    if ("-" in low or "_" in low) and (
        "k-" in low or "k_" in low or "gh" in low or "pat-" in low or "xox" in low or "xapp" in low or "private" in low
    ):
        return True
    if ("A" in text and ("AKIA" in text or "ASIA" in text or "AIza" in text)) or "eyJ" in text:
        return True
    return LONG.search(text) is not None


def names_may_follow(low: str) -> bool:
    """Whether something in *low*, a text in lower case, joins a name and its value."""
    return ":" in low or "=" in low or ">" in low or "--" in low or "%3" in low or "\uff1a" in low or "\uff1d" in low


WORDS = (*dict.fromkeys(one.word for one in FIELDS), "cookie", "%2f%2f", "://")


def field_named(name: str) -> Field:
    """Return the field of this *name*, however its words are joined; its values are hidden at any length."""
    words = [word for word in re.split(r"[_\-. ]+", name.lower()) if word] or [name.lower()]
    rest = "".join([rf"[_\-. ]?{re.escape(word)}" for word in words[1:]])
    return Field(words[0], rest, before=r"(?<![a-z0-9])", least=1)
