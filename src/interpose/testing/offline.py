"""No test pays for tokens by accident."""

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, ContextDecorator
from types import TracebackType
from typing import Any, TypeVar, cast

from interpose.models.guard import refuse_real_calls

FunctionT = TypeVar("FunctionT", bound=Callable[..., Any])


class no_real_models(ContextDecorator):  # noqa: N801  # used like a function, as contextlib's own are
    """Makes every provider call of the process an error: a context manager, and a decorator of tests.

    Scripted models, and models of one's own that do not ask the guard, go on to work. As a fixture:

        @pytest.fixture(autouse=True)
        def offline():
            with no_real_models():
                yield
    """

    def __init__(self) -> None:
        self._guards: list[AbstractContextManager[None]] = []

    def __enter__(self) -> None:
        guard = refuse_real_calls()
        guard.__enter__()
        self._guards.append(guard)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._guards.pop().__exit__(None, None, None)

    def __call__(self, function: FunctionT) -> FunctionT:
        """Return *function*, plain or async, with the guard up while it runs."""
        if not inspect.iscoroutinefunction(function):
            return super().__call__(function)

        @functools.wraps(function)
        async def guarded(*args: Any, **kwargs: Any) -> Any:
            with self:
                return await function(*args, **kwargs)

        return cast("FunctionT", guarded)
