"""The benchmark of the record does the work that it measures."""

from pathlib import Path

from bench.record import STEPS, measure, one_run, readers

from interpose.report import stored_runs


async def test_every_reader_of_the_benchmark_runs_it(tmp_path: Path) -> None:
    for make in readers(tmp_path).values():
        thread, process = await one_run(make())
        assert 0 < thread <= process * 1.5
    for name in ("contents", "structure"):
        (run,) = stored_runs(tmp_path / name)
        assert (run["steps"], run["nodes"]) == (STEPS, 3 * STEPS)


def test_nobody_listening_is_measured_against_itself() -> None:
    assert set(measure(rounds=1)) >= {"baseline", "quiet", "Report()"}
