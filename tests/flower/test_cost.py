"""The benchmark of the adapter measures what it says."""

from __future__ import annotations

from benchmarks.flower import Meter, measure


def test_the_benchmark_tells_flower_and_the_adapter_apart() -> None:
    found = measure(nodes=60, k=5, rounds=12, selector="bsfl")
    assert list(found) == ["plain FedAvg", "with bsfl", "with bsfl, folder"]
    for cost in found.values():
        assert 0 <= cost.adapter < cost.total
    assert found["plain FedAvg"].adapter < found["with bsfl"].adapter < found["with bsfl, folder"].adapter


def test_time_inside_flower_is_counted_once() -> None:
    meter = Meter()
    with meter.flower(), meter.flower():
        sum(range(100_000))
    once = meter.inside
    with meter.flower():
        sum(range(100_000))
    assert once > 0
    assert meter.inside > once
    assert meter.depth == 0
