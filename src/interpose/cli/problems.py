"""What went wrong, as one line for a person: what happened, what was expected, how to mend it."""

from interpose.errors import InterposeError, RunAborted


class Problem(Exception):
    """Something that the command line itself found; its text is the whole line."""


def describe(error: BaseException) -> str:
    """Return *error* as one line; our own errors say all that a person needs, others are named by their kind."""
    if isinstance(error, BaseExceptionGroup):
        first, *others = error.exceptions
        return describe(first) + (f" (and {len(others)} more; --debug shows all)" if others else "")
    text = " ".join(str(error).split())
    match error:
        case Problem():
            return text
        case RunAborted():
            return f"the run was aborted: {text}" if text else "the run was aborted"
        case InterposeError():
            return text or type(error).__name__
    return f"{named(error)}; --debug shows where"


def named(error: BaseException) -> str:
    """Return the kind of *error* and its text, on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
