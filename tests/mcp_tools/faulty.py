"""A tool server in bare JSON lines, whose tools go wrong in every way. Run as a script; the standard library alone.

Arguments: how it begins ("well", "silent", "exit", "banner", "pages", "endless", "odd", "invalid",
"once", "restless", "shuffled"),
and a file that each message it gets is appended to.
"""

import json
import os
import random
import sys
import threading
import time
from typing import Any

how = sys.argv[1] if len(sys.argv) > 1 else "well"
diary = sys.argv[2] if len(sys.argv) > 2 else os.devnull
lock = threading.Lock()
waiting: dict[Any, Any] = {}
ANY: dict[str, Any] = {"type": "object"}
READ = {"readOnlyHint": True}
tools: list[dict[str, Any]] = [
    {
        "name": "echo",
        "description": "Say it again.",
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        "annotations": READ,
    },
    {"name": "write", "inputSchema": ANY},
    {"name": "add", "inputSchema": ANY, "annotations": {"destructiveHint": False}},
    {"name": "put", "inputSchema": ANY, "annotations": {"idempotentHint": True}},
    {"name": "hang", "inputSchema": ANY, "annotations": READ},
    {"name": "crash", "inputSchema": ANY},
    {"name": "crash_once", "inputSchema": ANY, "annotations": READ},
    {"name": "garbage", "inputSchema": ANY},
    {"name": "huge", "inputSchema": {"type": "object", "properties": {"bytes": {"type": "integer"}}}},
    {"name": "wrong", "inputSchema": ANY},
    {"name": "error", "inputSchema": ANY},
    {"name": "refused", "inputSchema": ANY},
    {"name": "progress", "inputSchema": {"type": "object", "properties": {"times": {"type": "integer"}}}},
    {"name": "grow", "inputSchema": ANY},
    {"name": "shrink", "inputSchema": ANY},
    {"name": "ask", "inputSchema": {"type": "object", "properties": {"method": {"type": "string"}, "params": ANY}}},
    {"name": "whisper", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}},
    {"name": "mismatch", "inputSchema": ANY, "outputSchema": {"type": "object", "required": ["there"]}},
    {"name": "give", "inputSchema": ANY},
    {"name": "bare", "inputSchema": ANY},
]


def send(**message: Any) -> None:
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def whisper(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def babble(data: bytes) -> None:
    with lock:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def say(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


def listed(cursor: Any) -> dict[str, Any]:
    if how == "pages":
        at = int(cursor or 0)
        return {"tools": tools[at : at + 3], **({"nextCursor": str(at + 3)} if at + 3 < len(tools) else {})}
    if how == "endless":
        return {"tools": [{"name": f"t{time.monotonic_ns()}", "inputSchema": ANY}] * 100, "nextCursor": "more"}
    if how == "invalid":
        return {"tools": [*tools[:1], {"name": "no_object", "inputSchema": {"type": "string"}}]}
    if how == "odd":
        return {"tools": [*tools[:1], *tools[:1], *ODD]}
    if how == "shuffled":
        return {"tools": random.sample(tools, len(tools))}
    return {"tools": tools}


ODD: list[dict[str, Any]] = [
    {"name": "with spaces & more", "inputSchema": ANY},
    {"name": "with_spaces___more", "inputSchema": ANY},
    {"name": "x" * 300, "inputSchema": ANY},
    {"name": "x" * 301, "inputSchema": ANY},
    {"name": "", "inputSchema": ANY},
]


def call(number: Any, params: dict[str, Any]) -> dict[str, Any] | None:  # noqa: C901  # one case a tool
    name, given = params["name"], params.get("arguments") or {}
    match name:
        case "echo":
            return say(str(given["text"]))
        case "write" | "add" | "put":
            return say("written")
        case "hang":
            return None
        case "crash":
            whisper("Traceback: it crashed")
            os._exit(3)
        case "crash_once":
            if not os.path.exists(diary + ".crashed"):
                open(diary + ".crashed", "w").close()
                os._exit(4)
            return say("second life")
        case "garbage":
            babble(b"Hello, I am not JSON\n{]\n\n\xff\xfe\n")
            return say("after garbage")
        case "huge":
            return say("x" * int(given["bytes"]))
        case "wrong":
            return {"content": "a text instead of a list"}
        case "error":
            return {**say("disk full"), "isError": True}
        case "refused":
            send(id=number, error={"code": -32602, "message": "no such city"})
            return None
        case "progress":
            for step in range(int(given.get("times", 3))):
                token = params["_meta"]["progressToken"]
                said = {"progressToken": token, "progress": step, "total": 3, "message": f"part {step}"}
                send(method="notifications/progress", params=said)
            return say("done")
        case "grow":
            tools.append({"name": "grown", "description": "New here.", "inputSchema": ANY})
            send(method="notifications/tools/list_changed")
            return say("grown")
        case "grown":
            return say("fresh")
        case "shrink":
            tools[:] = [tool for tool in tools if tool["name"] not in ("write", "shrink")]
            send(method="notifications/tools/list_changed")
            return say("shrunk")
        case "ask":
            waiting["asked"] = number
            send(id="asked", method=given["method"], params=given.get("params") or {})
            return None
        case "whisper":
            whisper(given["text"])
            return say("whispered")
        case "mismatch":
            return {**say("x"), "structuredContent": {"here": 1}}
        case "bare":
            told = json.dumps(given["line"]).replace('"ID"', json.dumps(number)).replace("HALF", "\\ud83d")
            babble((told + "\n").encode() * int(given.get("times", 1)))
            return say("after it") if given.get("more") else None
        case "give":
            return given  # the whole result, as the test wants it
    send(id=number, error={"code": -32602, "message": f"no tool {name}"})
    return None


def answer(message: dict[str, Any]) -> None:
    number, method = message.get("id"), message.get("method")
    if method is None:
        asked = waiting.pop(number, None)
        if asked is not None:
            send(id=asked, result=say(json.dumps(message.get("result") or message.get("error"))))
    elif method == "initialize":
        send(
            id=number,
            result={
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {"listChanged": True}},
                "serverInfo": {"name": "faulty", "version": "1"},
            },
        )
    elif method == "tools/list":
        if how == "restless":
            send(method="notifications/tools/list_changed")
        send(id=number, result=listed((message.get("params") or {}).get("cursor")))
    elif method == "tools/call":
        result = call(number, message["params"])
        if result is not None:
            send(id=number, result=result)
    elif number is not None:
        send(id=number, error={"code": -32601, "message": "unknown"})


if how == "exit":
    whisper("error: GITHUB_TOKEN is not set")
    sys.exit(7)
if how == "once":
    if os.path.exists(diary + ".once"):
        whisper("error: the password hunter2 is wrong")
        sys.exit(7)
    open(diary + ".once", "w").close()
if how == "banner":
    babble(b"Welcome to the server!\n")
for line in sys.stdin:
    with open(diary, "a") as file:
        file.write(line)
    if how not in ("silent", "banner"):
        answer(json.loads(line))
