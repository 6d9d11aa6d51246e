"""The whole of a run, seam by seam, with its phases and its events."""

from typing import Any

from tests.lifecycle.play import add, agent, both, hello

from interpose import Agent, Middleware, Usage, on_should_continue
from interpose.testing import calls, text

USED = Usage(input_tokens=1, output_tokens=1)


class Everything(Middleware):
    """Logs each hook with the phase in which it is called."""

    def __init__(self, log: list[Any], events: bool = False) -> None:
        self.log = log
        self.events = events

    def note(self, ctx: Any, hook: str) -> None:
        self.log.append(hook if self.events else (ctx.phase, hook))

    def setup(self, ctx: Any) -> None:
        self.note(ctx, "setup")

    def on_config(self, ctx: Any, config: Any) -> None:
        self.note(ctx, "on_config")

    def on_start(self, ctx: Any) -> None:
        self.note(ctx, "on_start")

    async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
        self.note(ctx, "wrap_run in")
        result = await call_next()
        self.note(ctx, "wrap_run out")
        return result

    def on_step(self, ctx: Any, info: Any) -> None:
        self.note(ctx, f"on_step {info.step}")

    def on_interrupt_boundary(self, ctx: Any) -> None:
        self.note(ctx, "boundary")

    def before_model_call(self, ctx: Any, request: Any) -> None:
        self.note(ctx, "before_model_call")

    async def wrap_model_call(self, ctx: Any, request: Any, call_next: Any) -> Any:
        self.note(ctx, "wrap_model_call in")
        response = await call_next(request)
        self.note(ctx, "wrap_model_call out")
        return response

    def on_chunk(self, ctx: Any, event: Any) -> None:
        if self.events:
            self.log.append(event.type)

    def after_model_call(self, ctx: Any, request: Any, response: Any) -> None:
        self.note(ctx, "after_model_call")

    def on_usage(self, ctx: Any, usage: Any) -> None:
        self.note(ctx, "on_usage")

    def before_tool_call(self, ctx: Any, call: Any) -> None:
        self.note(ctx, "before_tool_call")

    async def wrap_tool_call(self, ctx: Any, call: Any, call_next: Any) -> Any:
        self.note(ctx, "wrap_tool_call in")
        result = await call_next(call)
        self.note(ctx, "wrap_tool_call out")
        return result

    def after_tool_call(self, ctx: Any, call: Any, result: Any) -> None:
        self.note(ctx, "after_tool_call")

    def on_tool_phase_complete(self, ctx: Any, info: Any) -> None:
        self.note(ctx, "on_tool_phase_complete")

    def on_should_continue(self, ctx: Any, state: Any) -> None:
        self.note(ctx, "on_should_continue")

    def on_finish(self, ctx: Any, info: Any) -> None:
        self.note(ctx, "on_finish")


def two_steps_with(log: list[Any], **options: Any) -> Agent[Any]:
    turns = calls(("add", {"a": 1, "b": 2}), usage=USED), text("3", usage=USED)
    return agent(*turns, tools=[add], middleware=[Everything(log, **options)])


INIT = [("init", hook) for hook in ("setup", "on_config", "on_start", "wrap_run in")]
MODEL = [
    ("before_model", "on_config"),
    ("before_model", "boundary"),
    ("model_stream", "before_model_call"),
    ("model_stream", "wrap_model_call in"),
    ("model_stream", "wrap_model_call out"),
    ("model_stream", "after_model_call"),
    ("model_stream", "on_usage"),
    ("after_model", "boundary"),
]
TOOLS = [
    ("before_tools", "boundary"),
    ("before_tools", "before_tool_call"),
    ("before_tools", "wrap_tool_call in"),
    ("before_tools", "wrap_tool_call out"),
    ("before_tools", "after_tool_call"),
    ("after_tools", "on_tool_phase_complete"),
    ("after_tools", "boundary"),
]


async def test_a_run_of_two_steps_meets_every_seam_in_its_order_and_phase() -> None:
    log = (await both(two_steps_with)).log
    first = [("before_model", "on_step 0"), *MODEL, *TOOLS, ("after_tools", "on_should_continue")]
    assert log[: len(INIT) + len(first)] == [*INIT, *first]
    second = log[len(INIT) + len(first) :]
    assert second[: 1 + len(MODEL)] == [("before_model", "on_step 1"), *MODEL]
    hooks = [hook for _, hook in second[1 + len(MODEL) :] if hook not in ("boundary", "on_tool_phase_complete")]
    assert hooks == ["on_should_continue", "wrap_run out", "on_finish"]


async def test_the_terminal_hook_keeps_the_last_phase() -> None:
    log = (await both(two_steps_with)).log
    assert log[-1][0] == log[-2][0]


def in_order(log: list[Any], *wanted: str) -> None:
    """Check that *wanted* stand in *log* in this order, others between."""
    rest = iter(log)
    for one in wanted:
        assert one in rest, f"{one} does not stand where it should in {log}"


async def test_events_stand_between_the_hooks_where_the_run_is() -> None:
    log = (await both(lambda log: two_steps_with(log, events=True))).log
    in_order(
        log,
        *("on_start", "RUN_STARTED", "wrap_run in"),
        *("STEP_STARTED", "on_step 0", "before_model_call", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"),
        *("after_model_call", "before_tool_call", "after_tool_call", "TOOL_CALL_RESULT", "on_tool_phase_complete"),
        *("on_should_continue", "STEP_STARTED", "on_step 1"),
        *("TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "on_should_continue"),
        *("wrap_run out", "RUN_FINISHED", "on_finish"),
    )


async def test_the_step_begins_before_its_hook_and_the_run_before_its_wrap() -> None:
    log = (await both(lambda log: two_steps_with(log, events=True))).log
    assert log.index("RUN_STARTED") < log.index("wrap_run in")
    assert log.index("STEP_STARTED") < log.index("on_step 0")


async def test_wrap_run_is_an_onion_round_the_result() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Stamps(Middleware):
            def __init__(self, name: str) -> None:
                self.name = name

            async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
                result = await call_next()
                return result.replace(text=f"{self.name}({result.text})")

        return agent(hello(), middleware=[Stamps("a"), Stamps("b")])

    log: list[Any] = []
    one = make(log)
    assert (await one.run("Go")).text == "a(b(Hello))"


async def test_wrap_run_sees_a_failure_pass_through() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        class Watches(Middleware):
            async def wrap_run(self, ctx: Any, call_next: Any) -> Any:
                try:
                    return await call_next()
                except ValueError as error:
                    log.append(repr(error))
                    raise

        def explode(request: Any) -> Any:
            raise ValueError("no")

        return agent(explode, middleware=[Watches()])

    played = await both(make)
    assert played.log == ["ValueError('no')"]
    assert isinstance(played.error, ValueError)


async def test_the_vote_has_the_phase_after_tools_also_where_no_tool_was_called() -> None:
    def make(log: list[Any]) -> Agent[Any]:
        return agent(hello(), middleware=[on_should_continue(lambda ctx, state: log.append(ctx.phase))])

    assert (await both(make)).log == ["after_tools"]
