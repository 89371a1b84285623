"""The benchmarks measure what they say: same decisions in the plain-Python Oort, every byte counted."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import enlist
import enlist.testing
from benchmarks import chaos, engines
from benchmarks.oort_reference import PlainOort
from benchmarks.pages import between
from benchmarks.scaling import MANY, PARTS, Cost, Kind, Machine, _schedule, cost, line, needed, spread, trained
from benchmarks.selectors import footprint, measure, posterior_error
from enlist.simulation import Config


def test_plain_oort_scores_as_ours() -> None:
    count, rng = 40, np.random.default_rng(3)
    sizes, latency, loss = rng.integers(10, 500, count), rng.uniform(1, 9, count), rng.uniform(0.1, 3, count)
    ours = enlist.create("oort", enlist.Clients(num_examples=sizes), seed=1, cut_off=0.0)
    plain = PlainOort(sizes.astype(float).tolist(), seed=1)
    ours.tell(ours.ask(k=count, deadline=10.0), enlist.Feedback(latency=latency, loss_rms=loss))
    plain.ask(list(range(count)), 5)
    plain.tell(list(range(count)), latency.tolist(), loss.tolist())
    picked = ours.ask(k=count - 1, deadline=10.0)
    plain.round += 1
    preferred = sorted(latency)[int(0.3 * count)]
    expected = plain._scores(list(range(count)), preferred)
    assert picked.terms["score"] == pytest.approx([expected[i] for i in picked.clients.tolist()])


def test_plain_oort_chooses_k_distinct() -> None:
    plain = PlainOort([10.0] * 30, seed=1)
    for _ in range(20):
        chosen = plain.ask(list(range(30)), 7)
        assert len(set(chosen)) == 7
        plain.tell(chosen, [1.0 + i for i in chosen], [1.0 + i for i in chosen])


def test_footprint_counts_caches() -> None:
    clients = enlist.testing.population(50)
    selector = enlist.create("cu-cs", clients)
    assert footprint(selector) >= selector.rows.nbytes + selector.counts.nbytes + selector.state.nbytes


def test_measure_and_errors_give_numbers() -> None:
    median, largest, held = measure("random", 1000, rounds=2)
    assert 0 < median <= largest
    assert held == 16.0
    rows = posterior_error(count=300, batches=5, size=10)
    assert rows[0][0] == 0
    assert rows[-1][1] < 0.2 * rows[0][1]


@pytest.mark.parametrize("name", [name for name in chaos.TRIALS if not name.startswith("kill of")])
def test_trials_of_chaos_find_nothing(name: str) -> None:
    assert [chaos.attempt(name, number).violation for number in (11, 12, 13)] == ["", "", ""]


def test_a_trial_of_chaos_can_find_something(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enlist, "load", lambda folder: 1 / 0)
    assert chaos.attempt("damaged selector state", 11).violation.endswith("ZeroDivisionError: division by zero")


def test_trials_of_a_record_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[int] = []

    def trial(luck: random.Random, place: Path) -> str:
        tried.append(1)
        chaos._count_kill(hit=True)
        return "it differs" if len(tried) == 2 else ""

    monkeypatch.setattr(chaos, "TRIALS", {"kill of it": (trial, 4)})
    record = tmp_path / "record.jsonl"
    assert chaos.table(1, 1.0, None, chaos.Record(record), minutes=0.0)[0][4:] == []
    for share, count, wrong in ((0.25, 1, 0), (1.0, 4, 1), (0.5, 4, 1)):
        rows, holds = chaos.table(1, share, "kill", chaos.Record(record))
        assert rows[4:] == [f"| kill of it | {count} | {wrong} |", "", f"Processes killed: {count} in 'kill of it'."]
        assert holds is not bool(wrong)
    assert len(tried) == 4


def test_what_is_computed_goes_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- sums -->\nold\n<!-- /sums -->\nafter\n")
    between(page, "sums", ["new", "lines"])
    assert page.read_text() == "before\n<!-- sums -->\nnew\nlines\n<!-- /sums -->\nafter\n"
    with pytest.raises(ValueError, match="must hold the marks <!-- engines -->"):
        between(page, "engines", [])


def test_sums_of_scaling_by_hand() -> None:
    assert _schedule([5.0, 4.0, 3.0, 3.0], 2) == 8.0
    assert _schedule([5.0, 1.0], 64) == 5.0
    assert line([MANY[0], MANY[1]]) == 10**7
    machine = Machine(cores=2, memory=1e9, network=1e6)
    rows = list(spread(machine, "run", 4, 3.0, Cost(0.1, model=10**6, workspace=0, adding=0.5), 4, 0.25))
    one, eight, _ = (row.strip("| ").split(" | ") for row in rows)
    assert one == ["run", "1", "2", "6.000", "0.000", "0.000", "2.000", "0.250", "8.250", PARTS[0]]
    # Four workers on four of eight nodes: the model goes to three, and three of four updates come from there.
    assert eight == ["run", "8", "4", "3.000", "3.000", "3.000", "2.000", "0.250", "11.250", PARTS[0]]


def test_nodes_for_a_comparison_by_hand() -> None:
    machine = Machine(cores=2, memory=1e9, network=1e6)
    kind = Kind("a study", "cifar10", "resnet18", 10, rounds=36, k=10, clients=500, samples=100, runs=1, settings={})
    # 36 * 10 * 100 samples of a second are ten hours, two runs a day for each of two processors.
    rows = list(needed(machine, [(kind, Cost(1.0, model=1, workspace=1, adding=0.0))], server=0.0))
    assert rows[-1] == "| a study | 10 | 7 | 25 | 125 |"
    rows = list(needed(machine, [(kind, Cost(3.0, model=1, workspace=1, adding=0.0))], server=0.0))
    assert rows[-1] == "| a study | 30 | – | – | – |"
    # The server's ten seconds for each of 36 rounds are another tenth of an hour.
    rows = list(needed(machine, [(kind, Cost(1.0, model=1, workspace=1, adding=0.0))], server=10.0))
    assert rows[-1].startswith("| a study | 10.1 |")


def test_what_a_run_trains_by_hand() -> None:
    data = {"dataset": {"name": "cifar10", "limit": 10_000}, "clients": 100}
    config = Config(data=data, model="resnet18", training={"batch": 16, "epochs": 2}, rounds={"rounds": 5, "k": 3})
    found = trained("a study", config)
    assert (found.rounds, found.k, found.clients, found.samples) == (5, 3, 100, 2 * 10_000 / 100)
    steps = config.model_copy(update={"training": config.training.model_copy(update={"steps": 30})})
    assert trained("a study", steps).samples == 30 * 16


def test_the_cost_of_a_model_is_measured() -> None:
    found = cost({"name": "mlp", "hidden": [8]}, (5,), 3, batch=4)
    assert found.model == 4 * (5 * 8 + 8 + 8 * 3 + 3)
    assert found.sample > 0
    assert found.adding > 0
    assert found.workspace > 0


def test_what_a_process_spends_that_nobody_waits_for_is_counted() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as in a raylet: the system forgets whoever ends
    try:
        with engines.watched() as spent:
            command = "import time\nwhile time.process_time() < 1.0: pass"
            child = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", command])
            while Path(f"/proc/{child}").exists():
                time.sleep(0.05)
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert spent[1] > 0.5
