"""The benchmark of the live page does the work that it measures, and a small one stays in its bounds."""

from collections import Counter

from bench.flow import LONG, NODES, filled, held_mb, record

from interpose.flow.history import History


def test_record_is_whole_and_of_the_size_that_is_said() -> None:
    events = list(record(500, 50))
    assert Counter(event.phase for event in events) == {"start": 500, "end": 500}
    history = History(20)
    filled(500, 50)(history)
    log = history.current()
    assert log is not None
    assert (log.nodes, log.status, len(log)) == (500, "ok", 1000)


def test_structure_of_a_long_run_takes_little() -> None:
    nodes = NODES // 10
    assert held_mb(filled(nodes, 20, to_end=False)) < 2.5


def test_large_contents_stay_within_the_bound() -> None:
    assert held_mb(filled(1000, LONG, to_end=False)) < 30
