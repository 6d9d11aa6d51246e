"""What went wrong, as one line for a person: what happened, what was expected, how to mend it."""

from interpose.errors import AuthFailed, InterposeError, ProviderDown, ProviderError, RunAborted

KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY", "google": "GEMINI_API_KEY"}


class Problem(Exception):
    """Something that the command line itself found; its text is the whole line."""


def describe(error: BaseException) -> str:
    """Return *error* as one line."""
    if isinstance(error, BaseExceptionGroup):
        first, *others = error.exceptions
        return describe(first) + (f" (and {len(others)} more; --debug shows all)" if others else "")
    text = " ".join(str(error).split())
    match error:
        case Problem():
            return text
        case RunAborted():
            return f"the run was aborted: {text}" if text else "the run was aborted"
        case ProviderError():
            return _with_hint(error, text)
        case InterposeError():
            return text or type(error).__name__
    return f"{named(error)}; --debug shows where"


def named(error: BaseException) -> str:
    """Return the kind of *error* and its text, on one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _with_hint(error: ProviderError, text: str) -> str:
    """Name the key to set, or what to start, where the provider's own words do not."""
    key = KEYS.get(error.provider, "")
    if isinstance(error, AuthFailed) and key and key not in text:
        return f"{text}; set {key} to a key that may use {error.model or 'this model'}"
    if isinstance(error, ProviderDown) and error.status_code is None:
        return f"{text}; is the server running, and is its address (base_url) right?"
    return text or type(error).__name__
