"""The result as Markdown: a table with every hook that is measured overridden, and one with every hook there is."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.cases import Case
from bench.environments import Contestant

BEGIN, END = "<!-- results: written by the benchmark -->", "<!-- end of results -->"

TITLES = {
    "W1": "W1 one model call, µs a run",
    "W2": "W2 10 model calls, 9 tool calls, µs a run",
    "W3": "W3 5 parallel tool calls, then an answer, µs a run",
    "W4": "W4 10,000 text deltas, µs a chunk",
    "W5-prior": "W5 one step after earlier messages, µs a message",
    "W5-loop": "W5 200 steps, ms a run",
    "W7": "W7 runs waiting in the model, KiB a run",
}


@dataclass(frozen=True)
class Target:
    """What is to be reached: this share of the fastest peer; without peers, this multiple of the floor."""

    of_peer: float
    of_floor: float


TARGETS = {
    "W1-10-seam-0": Target(1 / 8, 14),
    "W2-10-seam-0": Target(1 / 8, 6.3),
    "W3-10-seam-0": Target(1 / 6, 3.3),
    "W4-0-seam-0": Target(1 / 8, 5),
    "W4-10-seam-def-0": Target(1 / 8, 2.2),
    "W4-10-seam-async-0": Target(1 / 6, 1.95),
    "W5-prior-10-seam-200": Target(1 / 20, 60),
    "W5-prior-10-seam-2000": Target(1 / 20, 60),
    "W5-prior-10-seam-20000": Target(1 / 20, 60),
    "W5-loop-10-seam-0": Target(1 / 16, 8.5),
    "W7-10-seam-0": Target(0.42, 3.2),
}
LATE_STEP = 1.15
FOOTPRINT = {"import_ms": 100.0, "distributions": 4, "mb": 8.0}


@dataclass
class Results:
    """All figures of one benchmark, by case and contestant; W6 apart."""

    contestants: list[Contestant]
    cases: list[tuple[Case, dict[str, dict[str, float]]]] = field(default_factory=list)
    footprints: dict[str, dict[str, Any]] = field(default_factory=dict)
    about: str = ""


def markdown(results: Results) -> str:
    """Return the tables."""
    parts = [results.about] if results.about else []
    for hooks, heading in (
        ("seam", "N middlewares that override the seam that is measured"),
        ("all", "N middlewares that override every hook there is"),
    ):
        chosen = [(case, figures) for case, figures in results.cases if case.hooks == hooks]
        if chosen:
            parts.append(f"### {heading}\n\n{_table(results, chosen)}")
    if results.footprints:
        parts.append(f"### W6 installed and imported\n\n{_footprints(results)}")
    return "\n\n".join(parts) + "\n"


def _table(results: Results, chosen: list[tuple[Case, dict[str, dict[str, float]]]]) -> str:
    names = [contestant.name for contestant in results.contestants]
    peers = [name for name in names if name not in ("floor", "interpose")]
    shown = [name for name in names if any(name in figures for _, figures in chosen)]
    labels = [contestant.label for contestant in results.contestants if contestant.name in shown]
    against = (["of floor"] if "floor" in shown else []) + (["of fastest peer"] if peers else [])
    rows = [["workload", "N", *labels, *against, "to reach", ""]]
    for case, figures in chosen:
        rows.append(
            [*title(case), *[_figure(figures.get(name)) for name in shown], *_row_end(case, figures, shown, peers)]
        )
        if case.workload == "W5-loop":
            rows.append(_late_step(case, figures, shown, len(against)))
    return _rows(rows)


def title(case: Case) -> list[str]:
    """Return what was measured and the number of middlewares, with the form of their hooks."""
    what = TITLES[case.workload]
    if case.prior:
        what = what.replace("earlier", f"{case.prior:,}")
    form = f" `{'async def' if case.form == 'async' else case.form}`" if case.form else ""
    return [what, f"{case.n}{form}"]


def _row_end(case: Case, figures: dict[str, dict[str, float]], shown: list[str], peers: list[str]) -> list[str]:
    ours = figures.get("interpose", {}).get("value")
    floor = figures.get("floor", {}).get("value")
    fastest = min([figures[name]["value"] for name in peers if name in figures], default=None)
    cells = []
    if "floor" in shown:
        cells.append(f"{ours / floor:.1f} x" if ours is not None and floor else "")
    if peers:
        cells.append(f"{ours / fastest:.3f}" if ours is not None and fastest else "")
    target = TARGETS.get(case.key)
    if target is None:
        return [*cells, "", ""]
    reach = target.of_peer * fastest if fastest else target.of_floor * floor if floor else None
    return [*cells, _number(reach), _verdict(ours, reach)]


def _late_step(case: Case, figures: dict[str, dict[str, float]], shown: list[str], blank: int) -> list[str]:
    cells = [f"{figures[name]['ratio']:.2f}" if name in figures else "" for name in shown]
    ours = figures.get("interpose", {}).get("ratio")
    end = [_number(LATE_STEP), _verdict(ours, LATE_STEP)] if case.hooks == "seam" else ["", ""]
    return ["W5 200 steps, last step / early step", str(case.n), *cells, *[""] * blank, *end]


def _footprints(results: Results) -> str:
    chosen = [contestant for contestant in results.contestants if contestant.name in results.footprints]
    rows = [["", *[contestant.label for contestant in chosen], "to reach", ""]]
    titles = (("import_ms", "import, ms"), ("distributions", "distributions installed"), ("mb", "installed, MB"))
    for key, line in titles:
        figures = [results.footprints[contestant.name][key] for contestant in chosen]
        ours = results.footprints.get("interpose", {}).get(key)
        rows.append(
            [line, *[_number(figure) for figure in figures], _number(FOOTPRINT[key]), _verdict(ours, FOOTPRINT[key])]
        )
    return _rows(rows)


def _verdict(ours: float | None, reach: float | None) -> str:
    if ours is None or reach is None:
        return ""
    return "reached" if ours <= reach else "not reached"


def _figure(figures: dict[str, float] | None) -> str:
    return _number(figures["value"]) if figures else "-"


def _number(value: float | None) -> str:
    """Return *value* with about three digits that count."""
    if value is None:
        return ""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def _rows(rows: Iterable[list[str]]) -> str:
    lines = ["| " + " | ".join(cells) + " |" for cells in rows]
    columns = lines[0].count("|") - 1
    return "\n".join([lines[0], "|---|" + "--:|" * (columns - 1), *lines[1:]])


def replace_results(page: str, tables: str) -> str:
    """Return *page* with *tables* between its two marks."""
    head, found, rest = page.partition(BEGIN)
    if not found or END not in rest:
        raise ValueError(f"the page has no place for results: {BEGIN} … {END}")
    return f"{head}{BEGIN}\n\n{tables}\n{END}{rest.partition(END)[2]}"
