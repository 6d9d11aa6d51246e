"""Rules that edit text of which only the beginning is known: a pattern with its replacement, or a function."""

import re
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, NamedTuple, Protocol

from interpose.builtin.options import check_takes

Replacement = str | Callable[[re.Match[str]], str]
GivenRule = tuple[str | re.Pattern[str], Replacement] | Callable[[str], Any]


class Edit(NamedTuple):
    """A text edited on both sides of a cut; *first* is where the first edit before the cut begins, if there is one."""

    left: str
    right: str
    first: int | None


class Rule(Protocol):
    """One rule."""

    async def edit(self, before: str, text: str, cut: int, final: bool, /) -> Edit | int:
        """Edit *text*, which comes after *before*, or return an earlier place where it may be cut.

        It may be cut where nothing that comes later can change what the rule makes of the part in front; *final* says
        that nothing comes later.
        """
        ...


class PatternRule:
    """Replaces what a pattern matches, as `re.sub` does."""

    def __init__(self, pattern: re.Pattern[str], replacement: Replacement) -> None:
        self.pattern = pattern
        self.replacement = replacement
        self.replace = replacement if callable(replacement) else _template(replacement)

    async def edit(self, before: str, text: str, cut: int, final: bool) -> Edit | int:
        """Cut in no match, and not behind one that reaches the end and may still grow."""
        whole = before + text if before else text
        offset = len(before)
        if self.pattern.search(whole, offset) is None:
            return Edit(text[:cut], text[cut:], None)
        left: list[str] = []
        right: list[str] = []
        first: int | None = None
        done = 0
        for match in self.pattern.finditer(whole, offset):
            start, end = match.start() - offset, match.end() - offset
            if start < cut and (end > cut or (end == len(text) and not final)):
                return start
            if end > cut or (start == cut and not final):
                if done < cut:
                    left.append(text[done:cut])
                    done = cut
                side = right
            else:
                side = left
                first = start if first is None else first
            side += text[done:start], self.replace(match)
            done = end
        if done < cut:
            left.append(text[done:cut])
            done = cut
        right.append(text[done:])
        return Edit("".join(left), "".join(right), first)


class FunctionRule:
    """Replaces a text by what a function makes of it."""

    def __init__(self, function: Callable[[str], Any]) -> None:
        self.function = function

    async def edit(self, _before: str, text: str, cut: int, _final: bool) -> Edit | int:
        """Cut where both parts together give what the whole gives."""
        left = await self._call(text[:cut])
        right = await self._call(text[cut:]) if cut < len(text) else ""
        if cut < len(text) and left + right != await self._call(text):
            return cut - 1
        return Edit(left, right, _first_difference(text[:cut], left))

    async def _call(self, text: str) -> str:
        made = self.function(text)
        if isawaitable(made):
            made = await made
        if not isinstance(made, str):
            raise TypeError(f"a rule must return text, {self.function!r} returned {type(made).__name__}")
        return made


def _first_difference(text: str, edited: str) -> int | None:
    if text == edited:
        return None
    return next(
        (i for i, (old, new) in enumerate(zip(text, edited, strict=False)) if old != new), min(len(text), len(edited))
    )


def as_rule(given: GivenRule) -> Rule:
    """Return *given* as a rule.

    Raises:
        TypeError: it is neither `(pattern, replacement)` nor a function.
        ValueError: the pattern is none, or the replacement refers to a group that it does not have.
    """
    if callable(given):
        check_takes("a rule", given, "text")
        return FunctionRule(given)
    match given:
        case (str() | re.Pattern() as pattern, replacement) if isinstance(replacement, str) or callable(replacement):
            return _pattern_rule(pattern, replacement)
    raise TypeError(f"a rule must be (pattern, replacement) or a function of the text, got {given!r:.80}")


def _pattern_rule(pattern: str | re.Pattern[str], replacement: Replacement) -> PatternRule:
    if callable(replacement):
        check_takes("a rule's replacement", replacement, "match")
    try:
        compiled = re.compile(pattern)
        if isinstance(replacement, str):
            compiled.sub(replacement, "")
    except TypeError as error:
        raise TypeError(f"a rule's pattern must be one of text, got {pattern!r:.60}") from error
    except (re.error, IndexError) as error:
        raise ValueError(f"the rule ({pattern!r:.60}, {replacement!r:.60}) is no valid one: {error}") from error
    return PatternRule(compiled, replacement)


def _template(replacement: str) -> Callable[[re.Match[str]], str]:
    """Return what makes the replacement of a match; most have no group to fill in, and are the same each time."""
    if "\\" not in replacement:
        return lambda _: replacement
    return lambda match: match.expand(replacement)
