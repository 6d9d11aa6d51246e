"""Run the benchmark: `python bench/run.py` for this library and a floor, `--peers` for other libraries beside them."""

import argparse
import asyncio
import cProfile
import json
import os
import platform
import pstats
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

if __package__ in (None, ""):
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from bench.cases import Case, all_cases
from bench.environments import FLOOR, OURS, PEERS, ROOT, ensure, footprint
from bench.measure import QUICK, Bench, Effort
from bench.report import Results, markdown, replace_results, title

PAGE = ROOT / "docs" / "benchmarks.md"
RESULTS = ROOT / "bench" / ".results"


def main() -> None:
    """Read the command line and do what it says."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--peers", action="store_true", help="measure other libraries too")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, no W6")
    parser.add_argument("--only", metavar="CASES", default="", help="cases that begin so, such as W4 or W1-10,W2")
    parser.add_argument("--rounds", type=int, help="rounds a case")
    parser.add_argument("--profile", metavar="CASE", help="show where time goes, such as W1 or W4-10-seam-def")
    parser.add_argument("--write", action="store_true", help="write docs/benchmarks.md and its plot")
    options = parser.parse_args()
    if options.profile:
        profile(options.profile)
        return
    results = measure(options)
    report(results, write=options.write)


def measure(options: argparse.Namespace) -> Results:
    """Measure what *options* ask for, telling each case as it is done."""
    contestants = [FLOOR, OURS, *(PEERS if options.peers else ())]
    for contestant in contestants:
        if contestant.requirement:
            ensure(contestant.name, contestant.requirement)
    effort = QUICK if options.quick else Effort()
    if options.rounds:
        effort = Effort(options.rounds, effort.round_s, effort.memory_rounds, effort.waiting)
    results = Results(contestants)
    bench = Bench(contestants, effort)
    try:
        for case in [case for case in all_cases() if chosen(case, options.only)]:
            figures = bench.measure(case)
            results.cases.append((case, figures))
            told = "  ".join([f"{name} {values['value']:.4g}" for name, values in figures.items()])
            print(f"{case.key:28} {told}", file=sys.stderr, flush=True)
    finally:
        bench.close()
    if not options.quick and chosen_w6(options.only):
        results.footprints = {one.name: footprint(one) for one in contestants if one.imports}
    results.about = about(results, effort)
    return results


def chosen(case: Case, only: str) -> bool:
    """Whether *case* begins with one of the comma-separated names in *only*, or nothing is named."""
    return not only or any([case.key.startswith(name.strip()) for name in only.split(",")])


def chosen_w6(only: str) -> bool:
    """Whether W6 is asked for."""
    return not only or "W6" in [name.strip() for name in only.split(",")]


def about(results: Results, effort: Effort) -> str:
    """Return in which circumstances this was measured."""
    versions = [
        f"{one.requirement} {results.footprints[one.name]['versions'].get(one.requirement, '')}".strip()
        for one in results.contestants
        if one.requirement and one.name in results.footprints
    ]
    beside = f" Beside it: {', '.join(versions)}." if versions else ""
    return (
        f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, {os.cpu_count()} cores, "
        f"{time.strftime('%Y-%m-%d')}; best of {effort.rounds} rounds.{beside}"
    )


def report(results: Results, *, write: bool) -> None:
    """Print the tables, keep them with the plot, and with *write* put both into the documentation."""
    tables = markdown(results)
    print(tables)
    RESULTS.mkdir(exist_ok=True)
    kept = {
        "labels": {one.name: one.label for one in results.contestants},
        "cases": [
            {
                "case": asdict(case),
                "title": title(case)[0] + (f", {case.form}" if case.form else ""),
                "figures": figures,
            }
            for case, figures in results.cases
        ],
        "footprints": results.footprints,
    }
    (RESULTS / "latest.json").write_text(json.dumps(kept, indent=1))
    (RESULTS / "latest.md").write_text(tables)
    drawn = any([case.hooks == "seam" and case.n == 10 for case, _ in results.cases])
    picture = draw(RESULTS / "latest.json", RESULTS / "latest.png") if drawn else None
    print(f"kept in {RESULTS.relative_to(ROOT)}/latest.md, .json" + (" and .png" if picture else ""), file=sys.stderr)
    if write:
        PAGE.write_text(replace_results(PAGE.read_text(), tables))
        if picture:
            PAGE.with_suffix(".png").write_bytes(picture.read_bytes())


def draw(source: Path, target: Path) -> Path | None:
    """Draw the plot; None without matplotlib, which can't be installed for instance without a network."""
    try:
        python = ensure("plot", "matplotlib")
        subprocess.run([str(python), str(ROOT / "bench" / "plot.py"), str(source), str(target)], check=True)
    except subprocess.CalledProcessError as error:
        print(f"no plot: {error}", file=sys.stderr)
        return None
    return target


def profile(name: str) -> None:
    """Print where this library spends its time on the case that *name* begins, with 10 middlewares if not said."""
    from bench import ours

    found = [case for case in all_cases() if case.key.startswith(name) and case.workload != "W7"]
    if not found:
        raise SystemExit(f"no case begins with {name!r}; there are: {', '.join(case.key for case in all_cases())}")
    case = next((case for case in found if case.n == 10), found[0])

    async def runs(seconds: float) -> float:
        run = ours.build(case)
        await run()
        count, started = 0, time.process_time()
        while time.process_time() - started < seconds:
            await run()
            count += 1
        return (time.process_time() - started) / count * 1e6

    print(f"{case.key}: {min([asyncio.run(runs(0.5)) for _ in range(3)]):.1f} µs a run without the profiler")
    profiler = cProfile.Profile()
    profiler.runcall(asyncio.run, runs(2.0))
    pstats.Stats(profiler).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    main()
