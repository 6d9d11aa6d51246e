"""Redaction: secrets taken out of what the record tells, before any reader sees it.

What the model and the caller get is never touched. Redacting twice is the same as redacting once. Lengths are counted
in characters.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from typing import Any

from interpose.errors import ConfigurationError
from interpose.secret_patterns import (
    FIELDS,
    HIDDEN,
    SECRET_NAME,
    SHAPES,
    Field,
    field_named,
    may_hold_secret,
    may_name_secret,
    names_may_follow,
)
from interpose.text import clean, readable, to_jsonable

logger = logging.getLogger("interpose")

LIMIT = 20_000
"""How much of one text, or of one structured value, the record keeps."""
MAX_DEPTH = 40
SCHEMES = ("bearer", "basic", "digest", "token")
FIELD_NAME = re.compile(r"[A-Za-z0-9_.\- ]+")

Given = str | re.Pattern[str] | tuple[str | re.Pattern[str], str] | Callable[[str], str]


class Redactor:
    """Takes secrets out of texts and values: what secrets look like, and what an agent adds with `redact=`.

    *given* holds names of fields (a text of letters, digits, `_`, `-`, `.` and spaces), regular expressions (any other
    text, or a compiled one), `(expression, replacement)` pairs, and functions that return the redacted text.

    Raises:
        ConfigurationError: something else was given, or an expression is wrong.
    """

    def __init__(self, given: Iterable[Given] = ()) -> None:
        if isinstance(given, str | re.Pattern) or not isinstance(given, Iterable):
            raise ConfigurationError(f"redact takes a list, got {given!r}: write redact=[...]")
        self.given = tuple(given)
        self.fields: tuple[Field, ...] = ()
        self.patterns: list[tuple[re.Pattern[str], str]] = []
        self.functions: list[Callable[[str], str]] = []
        for one in self.given:
            if isinstance(one, str) and FIELD_NAME.fullmatch(one):
                self.fields = (*self.fields, field_named(one))
            elif isinstance(one, str | re.Pattern | tuple):
                self.patterns.append(_pattern(one))
            elif callable(one):
                self.functions.append(one)
            else:
                raise ConfigurationError(
                    f"redact takes field names, patterns, (pattern, replacement) pairs and functions, got {one!r}"
                )
        self._known: dict[str, tuple[int, str]] = {}
        self._failed: set[int] = set()

    def also(self, given: Iterable[Given]) -> Redactor:
        """Return a redactor with the rules of this one and those *given*."""
        more = tuple([one for one in given if one not in self.given])
        return Redactor((*self.given, *more)) if more else self

    def text(self, text: str) -> str:
        """Return *text* without its secrets, whole."""
        if len(text) >= 8 and may_hold_secret(text):
            text = _without_known(text)
        if self.given:
            low = _lower(text)
            for one in self.fields:
                if one.word in low:
                    text = one.hide(text, low)
                    low = _lower(text)
            for pattern, instead in self.patterns:
                text = pattern.sub(instead, text)
            for function in self.functions:
                text = self._apply(function, text)
        return text

    def cut(self, text: str) -> str:
        """Return *text* redacted, then cut at `LIMIT` characters plus "…".

        Of a very long text only what may be kept is looked at, and as much again, so that no secret is cut in two.
        """
        if not text.isascii():
            text = clean(text)
        size = len(text)
        if size <= LIMIT:
            redacted = self.text(text)
            return redacted if len(redacted) <= LIMIT else redacted[:LIMIT] + "…"
        if size == LIMIT + 1 and text[-1] == "…":  # it was cut before
            return self.text(text[:-1])[:LIMIT] + "…"
        head = self.text(text[: 2 * LIMIT])
        if len(head) <= LIMIT and size > 2 * LIMIT:
            head = self.text(text)
        return head[:LIMIT] + "…" if len(head) > LIMIT else head

    def value(self, value: Any) -> Any:
        """Return a JSON-able copy of *value* without its secrets; one that is too long as a text, cut."""
        kind = value.__class__
        if kind is str:
            return self.cut(value)
        if kind is bool or value is None:
            return value
        try:
            if not self.given:
                texts: list[str] = []
                copy = _copied(value, texts, 0)
                told = "\n".join(texts)
                if len(told) < LIMIT // 2 and not may_name_secret(told) and clean(told) is told:
                    return copy
        except (_NotPlainError, RecursionError):
            pass
        try:
            return self._walk(value, 0, 0, [LIMIT])
        except (_TooLongError, RecursionError):
            return self.cut(readable(value))
        except Exception:
            return f"<{type(value).__name__}>"

    def _walk(self, value: Any, hides: int, depth: int, left: list[int]) -> Any:
        """Copy *value*; *hides* is the least length of what is hidden for the name of its field, 0 for nothing."""
        kind = value.__class__
        if kind is str:
            left[0] -= len(value)
            if left[0] < 0:
                raise _TooLongError
            return _hidden(value, hides) if hides else self.cut(value)
        if value is None or kind is bool:
            return value
        if kind is int or kind is float:
            return _number(value, hides)
        left[0] -= 2
        if depth > MAX_DEPTH or left[0] < 0:
            raise _TooLongError
        if kind is dict:
            copy = {}
            for key, item in value.items():
                name = key if key.__class__ is str else str(key)
                left[0] -= len(name)
                secret, shown = self._known[name] if name in self._known else self._look_at(name)
                copy[shown] = self._walk(item, secret or hides, depth + 1, left)
            return self._named_value(copy)
        if kind is list or kind is tuple:
            if len(value) == 2 and value[0].__class__ is str and not hides:  # a header, perhaps
                return [self.cut(value[0]), self._walk(value[1], self._look_at(value[0])[0], depth + 1, left)]
            return [self._walk(item, hides, depth + 1, left) for item in value]
        if kind is bytes or kind is bytearray:
            return self._walk(_bytes(value), hides, depth + 1, left)
        return self._walk(to_jsonable(value), hides, depth + 1, left)

    def _look_at(self, name: str) -> tuple[int, str]:
        """Return the least length of a value of a field of this *name* that is hidden, 0 for none; and the name."""
        if len(self._known) > 2000:
            self._known.clear()
        hides = 0
        if len(name) <= 200:
            if any(one.name.search(name) for one in self.fields):
                hides = 1
            elif SECRET_NAME.search(name) is not None:
                hides = 4
        self._known[name] = known = (hides, self.cut(name))
        return known

    def _named_value(self, copy: dict[str, Any]) -> dict[str, Any]:
        """Hide the value of `{"name": "password", "value": …}`, as headers and forms are often written."""
        name = copy.get("name", copy.get("key"))
        if name.__class__ is str and copy.get("value").__class__ is str and (hides := self._look_at(name)[0]):
            copy["value"] = _hidden(copy["value"], hides)
        return copy

    def _apply(self, function: Callable[[str], str], text: str) -> str:
        """Return what a function of the user makes of *text*; nothing of it where that fails."""
        try:
            given: Any = function(text)
            if given.__class__ is str:
                return str(given)
            problem = f"it returned {type(given).__name__}, expected a text"
        except Exception as error:
            problem = repr(error)
        if id(function) not in self._failed:
            self._failed.add(id(function))
            logger.error("redact function %r failed: %s; what it was given is left out", function, problem)
        return HIDDEN


def as_redactor(given: Any) -> Redactor:
    """Return what `redact=` says as a redactor."""
    return given if isinstance(given, Redactor) else Redactor(given) if given else REDACTOR


class _TooLongError(Exception):
    """A structured value is longer, or deeper, than the record keeps."""


class _NotPlainError(Exception):
    """A value holds more than texts, whole numbers, truths, lists and dicts."""


def _copied(value: Any, texts: list[str], depth: int) -> Any:
    """Return a copy of *value*, and its texts and names in *texts*: what most values need, and all at once."""
    kind = value.__class__
    if kind is dict and depth < MAX_DEPTH:
        copy = {}
        for key, item in value.items():
            if key.__class__ is not str:
                raise _NotPlainError
            texts.append(key)
            if item.__class__ is str:
                texts.append(item)
                copy[key] = item
            else:
                copy[key] = item if item.__class__ in _PLAIN else _copied(item, texts, depth + 1)
        return copy
    if (kind is list or kind is tuple) and depth < MAX_DEPTH:
        items = []
        for item in value:
            if item.__class__ is str:
                texts.append(item)
                items.append(item)
            else:
                items.append(item if item.__class__ in _PLAIN else _copied(item, texts, depth + 1))
        return items
    if kind in _PLAIN or (kind is float and value - value == 0):
        return value
    raise _NotPlainError


_PLAIN = frozenset((int, bool, type(None)))


def _without_known(text: str) -> str:
    """Return *text* without what looks like a secret."""
    low = _lower(text)
    for marks, hints, pattern in SHAPES:
        for mark in marks:
            if mark in text:
                break
        else:
            continue
        for hint in hints:
            if hint in low:
                text = pattern.sub(rf"\1{HIDDEN}", text)
                low = _lower(text)
                break
    if names_may_follow(low):
        for one in FIELDS:
            if one.word in low:
                text = one.hide(text, low)
                low = _lower(text)
    return text


def _lower(text: str) -> str:
    """Return *text* in lower case, of the same length: a few letters would become two."""
    low = text.lower()
    return low if len(low) == len(text) else "".join([c.lower() if len(c.lower()) == 1 else c for c in text])


def _pattern(given: str | re.Pattern[str] | tuple[Any, ...]) -> tuple[re.Pattern[str], str]:
    expression, instead = given if isinstance(given, tuple) and len(given) == 2 else (given, HIDDEN)
    try:
        pattern: re.Pattern[str] = re.compile(expression)  # type: ignore[arg-type]  # its errors are caught
        pattern.sub(instead, "")
    except (re.error, TypeError, IndexError) as error:
        raise ConfigurationError(f"redact={given!r} is no regular expression with its replacement: {error}") from error
    return pattern, instead


def _hidden(value: str, least: int) -> str:
    """Return what is told of a secret *value*: the scheme of an authorization, if it has one."""
    scheme, space, rest = value.partition(" ")
    if space and scheme.lower() in SCHEMES:
        return f"{scheme} {HIDDEN}" if len(rest) >= least else value
    return HIDDEN if len(value) >= least else value


def _number(value: float, hides: int) -> Any:
    if hides and len(str(value)) >= hides:
        return HIDDEN
    return value if value - value == 0 else None  # JSON has no infinity


def _bytes(value: bytes | bytearray) -> str:
    try:
        return bytes(value).decode()
    except UnicodeDecodeError:
        return f"<{len(value)} bytes>"


REDACTOR = Redactor()
"""Knows the secrets that everybody has."""
