"""The pages: one file each, with all that they need in it; no network, and no run's text is ever read as markup."""

from __future__ import annotations

import base64
import hashlib
import html
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

START = b'<script type="application/json" id="data">'
END = b"</script>"


def run_page(summary: Mapping[str, Any], data: bytes) -> bytes:
    """Return the page of one run; *data* is its document as JSON."""
    return _page("run", f"{summary['name']} · {summary['id']}", data)


def index_page(runs: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the page that lists *runs*."""
    from interpose.report.files import folder_name

    listed = [{**run, "folder": folder_name(run["id"])} for run in runs]
    return _page("index", "Runs", msgspec.json.encode({"runs": listed}))


def data_of(page: bytes) -> bytes:
    """Return the JSON in a page.

    Raises:
        ValueError: there is none.
    """
    start = page.index(START) + len(START)
    return page[start : page.index(END, start)]


def _page(kind: str, title: str, data: bytes) -> bytes:
    head, tail = _template(kind)
    named = html.escape(title.translate(CONTROLS)).encode("utf-8", "replace")
    # In JSON a "<" stands in texts alone, where it may be written as an escape; so nothing in them ends the script.
    return b"".join([head.replace(b"{title}", named), START, data.replace(b"<", b"\\u003c"), END, tail])


CONTROLS = {**{code: 0x2400 + code for code in range(0x20)}, 0x7F: 0x2421}
CONTROLS |= dict.fromkeys((*range(0x202A, 0x202F), *range(0x2066, 0x206A)), 0xFFFD)  # these turn a text around


@cache
def _template(kind: str) -> tuple[bytes, bytes]:
    """Return what stands before and after the data of a page; the scripts may run by their hashes, and no others."""
    static = files("interpose.report") / "static"
    common, script = [(static / name).read_text("utf-8") for name in ("common.js", f"{kind}.js")]
    style = (static / "report.css").read_text("utf-8")
    code = f"(function () {{\n'use strict';\n{common}\n{script}\n}})();"
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; base-uri 'none'"
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{{title}}</title>\n<style>\n{style}</style>\n</head>\n"
        f'<body class="{kind}">\n<main id="page"><noscript>This page shows its data with JavaScript; '
        "report.json beside it has the same.</noscript></main>\n"
    )
    return head.encode(), f"\n<script>{code}</script>\n</body>\n</html>\n".encode()
