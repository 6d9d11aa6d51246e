"""What each address answers, and to whom."""

from pathlib import Path
from urllib.parse import quote

import pytest
from tests.flow.client import ask
from tests.flow.nodes import Told, tell_guide, tell_long_run

from interpose.flow import Flow

STATIC = Path(__file__).parents[2] / "src" / "interpose" / "flow" / "static"


def told_by(flow: Flow, run_id: str = "run_1") -> Told:
    return Told(lambda node: flow.on_node(None, node), run_id)  # type: ignore[arg-type]  # the node says all


async def test_page_and_its_parts_are_served_with_a_strict_policy(flow: Flow) -> None:
    answer = await ask(flow.port)
    assert (answer.status, answer.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
    assert "unsafe" not in policy
    for path in STATIC.iterdir():
        part = await ask(flow.port, f"/static/{path.name}")
        assert (part.status, part.body) == (200, path.read_bytes())


def test_page_asks_nothing_of_other_places_and_writes_no_markup() -> None:
    for path in STATIC.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not [word for word in ("http://", "https://", "//cdn", "@import") if word in text], path.name
        assert not [
            word for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(") if word in text
        ]
        assert " style=" not in text, f"{path.name}: the policy forbids it"


async def test_runs_are_listed_newest_first(flow: Flow) -> None:
    for name in ("a", "b"):
        tell_guide(told_by(flow, name))
    runs = (await ask(flow.port, "/api/runs")).json["runs"]
    assert [run["id"] for run in runs] == ["b", "a"]
    assert {"id", "name", "status", "started_at", "duration_ms"} <= set(runs[0])


async def test_events_of_a_run_are_numbered_from_0_and_hold_their_content(flow: Flow) -> None:
    tell_guide(told_by(flow))
    events = (await ask(flow.port, "/api/runs/run_1")).json["events"]
    assert [event["seq"] for event in events] == list(range(38))
    model = next(event for event in events if event["kind"] == "model" and event["phase"] == "end")
    assert [message["role"] for message in model["content"]["in"]["messages"]] == ["user"]


async def test_events_after_a_number_are_asked_for(flow: Flow) -> None:
    tell_long_run(told_by(flow), 500)
    for query in ("after=900", "after=900&light"):
        events = (await ask(flow.port, f"/api/runs/run_1?{query}")).json["events"]
        assert [event["seq"] for event in events] == list(range(901, 1000))


@pytest.mark.parametrize("run_id", ["a/b", "ü %?#", "..", "../../etc", "a b", "<script>", "x" * 150])
async def test_run_with_an_odd_id_is_found(flow: Flow, run_id: str) -> None:
    tell_guide(told_by(flow, run_id))
    answer = await ask(flow.port, f"/api/runs/{quote(run_id, safe='')}")
    assert (answer.status, len(answer.json["events"])) == (200, 38)


@pytest.mark.parametrize(
    "path",
    ["/api/runs/nobody", "/nowhere", "/static/../guard.py", "/static/nothing.js", "/static/%2e%2e%2fguard.py",
     "/api/event?run=nobody&seq=0", "/api/search?run=nobody&q=x", "/api"],
)  # fmt: skip
async def test_unknown_is_a_404_in_json(flow: Flow, path: str) -> None:
    answer = await ask(flow.port, path)
    assert (answer.status, answer.headers["content-type"]) == (404, "application/json")
    assert answer.json["error"]


@pytest.mark.parametrize("path", ["/api/event?run=run_1&seq=x", "/api/event?run=run_1", "/api/runs/run_1?after=x"])
async def test_what_is_no_number_is_a_400(flow: Flow, path: str) -> None:
    tell_guide(told_by(flow))
    assert (await ask(flow.port, path)).status == 400


@pytest.mark.parametrize("seq", [-1, 38, 10**30])
async def test_event_that_is_not_there_is_a_404(flow: Flow, seq: int) -> None:
    tell_guide(told_by(flow))
    assert (await ask(flow.port, f"/api/event?run=run_1&seq={seq}")).status == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "BREW"])
@pytest.mark.parametrize("path", ["/", "/api/runs", "/api/events", "/nowhere"])
async def test_other_methods_are_refused(flow: Flow, method: str, path: str) -> None:
    answer = await ask(flow.port, path, method=method)
    assert (answer.status, answer.headers["allow"]) == (405, "GET")


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:4100", "127.0.0.1.evil.example", "localhost.evil.example", "10.0.0.7", "", "[::2]:1",
     "127.0.0.1@evil.example", "0.0.0.0", "xn--lcalhost-8za"],
)  # fmt: skip
@pytest.mark.parametrize("path", ["/", "/api/runs", "/static/app.js", "/api/events"])
async def test_foreign_host_is_refused(flow: Flow, host: str, path: str) -> None:
    assert (await ask(flow.port, path, host=host)).status == 403


@pytest.mark.parametrize(
    "host", ["127.0.0.1:9", "localhost", "LOCALHOST:4100", "localhost.:1", "[::1]:4100", "127.0.0.7"]
)
async def test_loopback_names_are_known(flow: Flow, host: str) -> None:
    assert (await ask(flow.port, host=host)).status == 200


async def test_host_that_was_given_is_known_in_any_case() -> None:
    flow = Flow(port=0, host="LocalHost")
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    assert (await ask(flow.port, host="localhost:4100")).status == 200
    assert (await ask(flow.port, host="other")).status == 403
    await flow.close()


async def test_bare_addresses_are_known_where_all_are_listened_at() -> None:
    flow = Flow(port=0, host="0.0.0.0", token="secret")
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    headers = {"authorization": "Bearer secret"}
    assert (await ask(flow.port, host="10.0.0.7:4100", **headers)).status == 200
    assert (await ask(flow.port, host="evil.example", **headers)).status == 403
    await flow.close()


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.example",
        "null",
        "http://localhost:3000",
        "file://",
        "127.0.0.1:{port}",
        "http://[::1",
        "http://127.0.0.1:{port}@evil.example",
    ],
)
async def test_page_of_another_origin_is_refused(flow: Flow, origin: str) -> None:
    answer = await ask(flow.port, "/api/runs", origin=origin.format(port=flow.port))
    assert (answer.status, "access-control-allow-origin" in answer.headers) == (403, False)


async def test_page_of_the_same_origin_is_let_in(flow: Flow) -> None:
    assert (await ask(flow.port, "/api/runs", origin=f"http://127.0.0.1:{flow.port}")).status == 200


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_what_a_page_of_another_site_embeds_is_refused(flow: Flow, site: str) -> None:
    assert (await ask(flow.port, "/api/runs", sec_fetch_site=site)).status == 403
    assert (await ask(flow.port, "/", sec_fetch_site=site)).status == 200, "a link to the page may be followed"


async def guarded() -> Flow:
    flow = Flow(port=0, token="open sesame")
    await flow.open(None)  # type: ignore[arg-type]  # the page is the same for all agents
    return flow


async def test_token_is_asked_for_everywhere() -> None:
    flow = await guarded()
    for path in ("/", "/api/runs", "/static/app.js", "/api/events", "/?token=wrong", "/?token="):
        assert (await ask(flow.port, path)).status == 401
    assert (await ask(flow.port, authorization="Bearer wrong")).status == 401
    assert (await ask(flow.port, cookie="interpose_flow=open sesame")).status == 401
    assert (await ask(flow.port, "/api/runs", authorization="Bearer open sesame")).status == 200
    await flow.close()


async def test_who_brings_the_token_is_given_a_cookie_that_holds_it_not() -> None:
    flow = await guarded()
    answer = await ask(flow.port, "/?token=open%20sesame")
    cookie = answer.headers["set-cookie"]
    assert (answer.status, answer.headers["location"]) == (303, "./")
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert "sesame" not in cookie
    assert (await ask(flow.port, "/api/runs", cookie=cookie.partition(";")[0])).status == 200
    await flow.close()


async def test_cookies_of_others_that_cannot_be_read_do_no_harm() -> None:
    flow = await guarded()
    assert (await ask(flow.port, cookie='{"a": "é"}; ;=;')).status == 401
    await flow.close()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("carnival", ["research", "researcher", "gpt-5.5", "city guide"]),
        ("CARNIVAL AND", ["research", "researcher"]),
        ("Festival of lights", ["search"]),
        ("HideBrokenTools", ["gpt-5.5"]),
        ("weekend in February", ["city guide", "gpt-5.5"]),
        ("not there at all", []),
        ("", []),
    ],
)
async def test_text_is_found_where_it_came_up(flow: Flow, text: str, names: list[str]) -> None:
    tell_guide(told_by(flow))
    seqs = (await ask(flow.port, f"/api/search?run=run_1&q={quote(text)}")).json["seqs"]
    events = (await ask(flow.port, "/api/runs/run_1")).json["events"]
    assert {events[seq]["name"] for seq in seqs} == set(names)


async def test_search_finds_what_json_writes_differently(flow: Flow) -> None:
    told = told_by(flow)
    text = 'say "hi"\nto C:\\temp, naïve ☂'
    told.whole("tool", "look", None, out=text)
    for part in ('"hi"', "\nto", "C:\\temp", "NAÏVE ☂"):
        assert (await ask(flow.port, f"/api/search?run=run_1&q={quote(part)}")).json["seqs"] == [1]
