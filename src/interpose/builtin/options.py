"""Checks of options: what is wrong with them is said when a middleware is made, not in the tenth step of a run."""

import inspect
import math
from collections.abc import Collection
from numbers import Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from interpose.models.base import Model


def check_whole(name: str, value: object, least: int, hint: str = "") -> None:
    """Take *value* only if it is a whole number of *least* or more; *hint* goes on with what else may be done.

    Raises:
        TypeError: it is no whole number.
        ValueError: it is below *least*.
    """
    wanted = _at_least(least) + hint
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name} must be a whole number, {wanted}; got {value!r:.80}")
    if value < least:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def check_number(name: str, value: Any, least: float, hint: str = "") -> None:
    """Take *value* only if it is a number of *least* or more.

    Raises:
        TypeError: it is no number.
        ValueError: it is below *least*, or no number that others can be compared with (NaN).
    """
    wanted = _at_least(least) + hint
    if value.__class__ is bool or not isinstance(value, Real):
        raise TypeError(f"{name} must be a number, {wanted}; got {value!r:.80}")
    if math.isnan(value) or value < least:
        raise ValueError(f"{name} must be {wanted}, got {value!r}")


def _at_least(least: float) -> str:
    return f"at least {least:g}" if least else "0 or more"


def check_takes(name: str, function: object, *arguments: str) -> None:
    """Take *function* only if it can be called with *arguments*, which are named for the message.

    Raises:
        TypeError: it cannot.
    """
    if callable(function):
        try:
            inspect.signature(function).bind(*arguments)
        except ValueError:  # one written in C may not tell what it takes
            return
        except TypeError:
            pass
        else:
            return
    raise TypeError(f"{name} must be a function of ({', '.join(arguments)}), got {function!r:.80}")


def names_of(name: str, tools: Collection[Any]) -> frozenset[str]:
    """Return the names in *tools*, which are names or tools.

    Raises:
        TypeError: it is a single name, or has something else in it.
    """
    if isinstance(tools, str):
        raise TypeError(f"{name} takes a list of names, got the string {tools!r}; write {name}=[{tools!r}]")
    named = [getattr(tool, "name", tool) for tool in tools]
    wrong = [one for one in named if not isinstance(one, str)]
    if wrong:
        raise TypeError(f"{name} takes names of tools, or tools, got {wrong[0]!r:.80}")
    return frozenset(named)


def model_or_name(model: "str | Model") -> "str | Model":
    """Return *model*, or the one that "provider:name" names; any other text is a name that the run's provider knows.

    Raises:
        ConfigurationError: the provider is not in this release, or needs a package that is not installed.
        TypeError, ValueError: it is no model and no name.
    """
    if isinstance(model, str):
        from interpose.models import is_provider, resolve

        if not model:
            raise ValueError("a model is a Model or 'provider:name', got an empty text")
        provider, colon, _ = model.partition(":")
        return resolve(model) if colon and is_provider(provider) else model
    if isinstance(model, type) or not hasattr(model, "stream"):
        raise TypeError(f"a model is a Model or 'provider:name', got {model!r:.80}")
    return model
