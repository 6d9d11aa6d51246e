"""Records of runs as an agent would tell them, made by hand, so that a test says exactly what was seen when."""

import itertools
from collections.abc import Mapping
from typing import Any

from interpose import Usage
from interpose.info import Change, Node

_numbers = itertools.count()
T0 = 1_790_000_000.0


class Told:
    """Tells *listen* of nodes. A node is known by its id; times are milliseconds since `T0`."""

    def __init__(self, listen: Any, run_id: str = "", at_ms: float = 0.0) -> None:
        self.listen = listen
        self.run_id = run_id or f"run_{next(_numbers)}"
        self.now_ms = at_ms
        self.started: dict[str, Node] = {}

    def start(self, kind: Any, name: str, parent: str | None = None, **fields: Any) -> str:
        given = {"run_id": self.run_id, "thread_id": "thread_1", "started_at": T0 + self.now_ms / 1000, **fields}
        content = given.pop("given", None)
        node = Node(phase="start", kind=kind, name=name, id=f"{kind}_{next(_numbers)}", parent_id=parent, **given)
        self.started[node.id] = node
        self.listen(node.replace(content={"in": content} if content is not None else None))
        return node.id

    def end(self, node_id: str, out: Any = None, *, given: Any = None, error: str | None = None, **fields: Any) -> None:
        node = self.started.pop(node_id)
        took = fields.pop("duration_ms", (T0 * 1000 + self.now_ms) - node.started_at * 1000)
        content = {"in": given, "out": out} if given is not None or out is not None else None
        status = "ok" if error is None else "error"
        outcome = "finished" if error is None else "failed"
        fields = {
            "status": status,
            "error": error,
            "duration_ms": took,
            "content": content,
            "outcome": outcome,
        } | fields
        self.listen(node.replace(phase="end", **fields))

    def whole(self, kind: Any, name: str, parent: str | None, took_ms: float = 1.0, **fields: Any) -> str:
        """Tell start and end of a node."""
        node_id = self.start(kind, name, parent, given=fields.get("given"))
        self.now_ms += took_ms
        self.end(node_id, fields.pop("out", None), **fields)
        return node_id


def request_of(*said: tuple[str, str], tools: tuple[str, ...] = ()) -> Mapping[str, Any]:
    """What went into a model call."""
    messages = [{"role": role, "text": text, "id": f"msg_{n}"} for n, (role, text) in enumerate(said)]
    return {"model": "gpt-5.5", "instructions": "Be brief.", "messages": messages, "tools": list(tools)}


def answer_of(text: str, *calls: tuple[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """What came out of it."""
    asked = [{"id": f"call_{n}", "name": name, "args": dict(args)} for n, (name, args) in enumerate(calls)]
    return {"message": {"role": "assistant", "text": text, "tool_calls": asked}, "finish_reason": "stop"}


def tell_long_run(told: Told, nodes: int, content: Any = None) -> str:
    """Tell a run of *nodes* nodes, three steps in ten failing a tool; return the id of the run's node."""
    run = told.start("run", "long one", given={"messages": [{"role": "user", "text": "go"}]})
    count, step_number = 1, 0
    while count < nodes:
        step = told.start("step", f"step-{step_number}", run)
        told.whole("model", "gpt-5.5", step, 8, given=content, out=content, usage=Usage(900, 40))
        count += 2
        for tool in range(min(2, nodes - count)):
            failed = "OSError: no answer" if step_number % 10 < 3 and tool else None
            told.whole("tool", f"look_{tool}", step, 3, given=content, out=content, error=failed)
            count += 1
        told.end(step)
        step_number += 1
    told.end(run, finish_reason="stop", usage=Usage(900 * step_number, 40 * step_number))
    return run


QUESTION = "Compare Lyon and Nice for a weekend in February. Who lives there, how is the weather, what is there to see?"
ANSWER = "Lyon has 522,000 inhabitants, Nice 348,000.\n\nIn Nice the carnival is in February; the weather is unknown."


def tell_guide(told: Told, *, until: int = 99) -> None:
    """Tell a run as one meets them: parallel tools, one that fails, a nested run, a change by a middleware.

    *until* is after how many steps it is left going on.
    """
    run = told.start("run", "city guide", given={"messages": [{"role": "user", "text": QUESTION}]})
    tools = ("population", "weather", "research", "search")
    step = told.start("step", "step-0", run)
    asked = request_of(("user", QUESTION), tools=tools)
    calls: list[tuple[str, Mapping[str, Any]]] = [("population", {"city": "Lyon"}), ("population", {"city": "Nice"})]
    out = answer_of("Let me look that up.", *calls, ("weather", {"city": "Nice"}))
    told.whole(
        "model", "gpt-5.5", step, 640, given=asked, out=out, usage=Usage(950, 120, cost_usd=0.0029), attempts=2,
        failures=("RateLimited: try again in 1 s",), provider="openai", meta={"region": "eu-west-3"},
    )  # fmt: skip
    lyon, nice = (told.start("tool", "population", step, given={"args": {"city": c}}) for c in ("Lyon", "Nice"))
    weather = told.start("tool", "weather", step, given={"args": {"city": "Nice"}})
    told.now_ms += 120
    told.end(lyon, 522_000, given={"args": {"city": "Lyon"}})
    told.now_ms += 60
    told.end(nice, 348_000, given={"args": {"city": "Nice"}})
    told.now_ms += 300
    if until == 0:
        return
    told.end(weather, given={"args": {"city": "Nice"}}, error="OSError: weather.example did not answer within 2 s")
    told.end(step)
    step = told.start("step", "step-1", run)
    out = answer_of("", ("research", {"prompt": "What is there to see in Nice?"}), ("search", {"query": "Lyon lights"}))
    gone = Change("HideBrokenTools", "wrap_model_call", "tools", list(tools), ["population", "research", "search"])
    told.whole(
        "model", "gpt-5.5", step, 810, given=request_of(("user", QUESTION), tools=tools[2:]), out=out,
        usage=Usage(1710, 90, cost_usd=0.0041), provider="openai", changes=(gone,),
    )  # fmt: skip
    research = told.start("tool", "research", step, given={"args": {"prompt": "What is there to see in Nice?"}})
    search = told.start("tool", "search", step, given={"args": {"query": "Lyon lights"}})
    _tell_researcher(told, research)
    if until == 1:
        return
    told.end(
        research, "A carnival and the Matisse museum.", given={"args": {"prompt": "What is there to see in Nice?"}}
    )
    found = [{"title": "Festival of lights", "url": "https://lights.example", "score": 0.91}]
    told.end(search, found, given={"args": {"query": "Lyon lights"}})
    told.end(step)
    step = told.start("step", "step-2", run)
    asked = request_of(
        ("user", QUESTION), ("assistant", "Let me look that up."), ("tool", "522000"), ("tool", "348000")
    )
    told.whole(
        "model", "gpt-5.5", step, 930, given=asked, out=answer_of(ANSWER), usage=Usage(2650, 210, cost_usd=0.007)
    )
    told.end(step)
    given = {"messages": [{"role": "user", "text": QUESTION}]}
    told.end(run, {"text": ANSWER}, given=given, finish_reason="stop", usage=Usage(7552, 524, cost_usd=0.0193))


def _tell_researcher(told: Told, research: str) -> None:
    inner = Told(told.listen, at_ms=told.now_ms)
    run = inner.start("run", "researcher", research, given={"messages": [{"role": "user", "text": "Nice?"}]})
    step = inner.start("step", "step-0", run)
    inner.whole("model", "scout-mini", step, 310, usage=Usage(812, 60))
    for query in ("Nice festivals", "Nice museums"):
        inner.whole("tool", "search", step, 140, given={"args": {"query": query}}, out=["one", "two"])
    inner.end(step)
    step = inner.start("step", "step-1", run)
    inner.whole("model", "scout-mini", step, 260, usage=Usage(1430, 44))
    inner.end(step)
    inner.end(run, {"text": "A carnival and the Matisse museum."}, usage=Usage(2242, 104))
    told.now_ms = inner.now_ms
