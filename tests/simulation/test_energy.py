"""Energy in the simulator: joules of a participation, batteries that run out, totals and energy to a target."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.devices import BatteryLevels, Energy, Latency, Power
from enlist.errors import InputError
from enlist.runs.printing import comparison_table
from enlist.simulation import Config, Simulation, compare, simulate
from tests.simulation.simulation_helpers import Remembering, config, run, scripted

SMALL = {
    "data": {"clients": 8},
    "model": {"name": "logistic"},
    "rounds": {"rounds": 4, "k": 3},
    "evaluation": {"every": 1},
}


def test_joules_by_hand():
    # 2 s at 1 W, 10 s at 3 W, 1 s at 2 W: 2 + 30 + 2.
    power, client = Power(np.array([3.0]), np.array([1.0]), np.array([2.0])), np.array([0])
    latency = Latency(np.array([2.0]), np.array([10.0]), np.array([1.0]))
    for until, joules in ((1.0, 1.0), (2.0, 2.0), (5.0, 11.0), (12.5, 33.0), (99.0, 34.0)):
        assert power.joules(client, latency, np.array([until]))[0] == pytest.approx(joules)
        if joules < 34:
            assert power.lasts(client, latency, np.array([joules]))[0] == pytest.approx(until)
    assert np.isinf(power.lasts(client, latency, np.array([34.0])))[0]


def test_batteries_charge_up_to_full():
    batteries = BatteryLevels(100.0, 2.0, np.array([50.0]), np.zeros(1))
    assert batteries.at(10.0)[0] == 70.0
    batteries.spend(np.array([0]), np.array([60.0]), now=10.0)
    assert batteries.at(10.0)[0] == 10.0
    assert batteries.at(1000.0)[0] == 100.0


def test_watts_follow_the_kind_of_device_unless_they_are_given():
    assert Energy().watts("tiers")[0] > Energy().watts("phones")[0]
    assert Energy(compute_watts=7.0).watts("tiers") == (7.0, *Energy().watts("tiers")[1:])


def test_rows_sum_up_to_what_was_spent():
    config = Config(**SMALL, energy={"spread": 0.0, "compute_watts": 3, "download_watts": 1, "upload_watts": 2})
    with Simulation(config) as simulation:
        record = simulation.step()
    rows = record.participations
    for row in rows:
        assert row["energy"] == pytest.approx(row["download"] + 3 * row["compute"] + 2 * row["upload"])
    assert record.row["energy"] == pytest.approx(sum(row["energy"] for row in rows))


def test_a_run_without_energy_is_as_before(tmp_path):
    runs = {name: simulate(Config(**SMALL, **more), folder=tmp_path / name) for name, more in
            (("with", {"energy": {}}), ("without", {}))}  # fmt: skip
    plain, counted = ((tmp_path / name / "rounds.csv").read_text().splitlines() for name in ("without", "with"))
    assert "energy" not in plain[0]
    assert counted[0] == plain[0] + ",energy"
    assert [line.rpartition(",")[0] for line in counted] == plain
    assert "energy" not in (tmp_path / "without" / "config.json").read_text()
    assert "energy" not in runs["without"].summary
    assert runs["with"].summary["energy"] > 0


def test_who_runs_out_of_power_drops_out():
    config = Config(**SMALL, energy={"battery": 1.0, "charge_watts": 0.0, "charged": 1.0})
    with Simulation(config) as simulation:
        record = simulation.step()
        assert record.row["dropped"] == 3
        assert record.row["energy"] == pytest.approx(3.0)
        assert simulation.state.batteries.at(simulation.now)[record.selection.clients].tolist() == [0.0, 0.0, 0.0]


def test_energy_to_the_target_stands_beside_the_time_to_it():
    config = Config(**SMALL | {"evaluation": {"every": 1, "target": 0.1}}, energy={})
    rows = compare(config, "random, oort", seeds=2).rows
    for row in rows:
        assert 0 < row["energy_to"] <= row["energy"]
    header = comparison_table(rows)[0]
    assert header[3] == "energy to 10 %"
    assert "energy" in header
    run = simulate(config)
    found = run.summary
    assert found["energy_to_target"] <= found["energy"]
    assert found["energy"] == pytest.approx(run.rounds["energy"].sum())


@pytest.mark.parametrize("workers", [0, 2])
def test_it_is_the_same_after_a_stop(tmp_path, workers):
    config = Config(**SMALL, energy={"battery": 60.0, "charge_watts": 0.5}, failures={"crash": 0.2})
    simulate(config, "oort", folder=tmp_path / "whole")
    for stop in (2, 4):
        shorter = config.replace(f"rounds.rounds={stop}")
        simulate(shorter, "oort", folder=tmp_path / "cut", workers=workers, resume=stop > 2)
    for name in ("rounds.csv", "participations.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()


class Contextual(Remembering):
    """Goes by everything that a simulation can tell with an ask."""

    name = "contextual"
    needs = frozenset({"context.battery", "context.charging", "context.bandwidth"})


@pytest.mark.parametrize("protocol", ["synchronous", "buffered"])
def test_battery_charging_and_bandwidth_come_with_every_ask(monkeypatch, protocol):
    Contextual.register(monkeypatch)
    rounds = {"rounds": 3, "k": 2, "protocol": protocol}
    energy = {"battery": 100.0, "charged": 1.0, "charge_watts": 0.01}
    slower = [{"kind": "speed", "share": 1.0, "factor": 0.25, "from_round": 3}]
    chosen = config(data={"clients": 4}, selector="contextual", rounds=rounds, energy=energy, drift=slower)
    simulation, _ = run(chosen)
    first, *_, last = [each.context for each in Contextual.asked]
    assert first["battery"].tolist() == [100.0] * 4
    assert first["charging"].tolist() == [0.0] * 4
    np.testing.assert_allclose(first["bandwidth"], 1000 / 8 * simulation.population.devices.bandwidth)
    assert last["charging"].tolist() == (last["battery"] < 100).astype(float).tolist()
    assert last["charging"].any()
    np.testing.assert_allclose(last["bandwidth"], first["bandwidth"] / 4)


@pytest.mark.parametrize(
    ("needs", "message"),
    [
        ({"context.battery"}, "needs context.battery, and clients have no batteries; set energy.battery"),
        ({"context.charging"}, "needs context.charging, and clients have no batteries; set energy.battery"),
        ({"context.mood"}, "needs context.mood; a simulation knows context.battery, context.charging, context.bandw"),
    ],
)
def test_context_that_nobody_knows_is_refused_at_once(monkeypatch, needs, message):
    Contextual.register(monkeypatch)
    monkeypatch.setattr(Contextual, "needs", frozenset(needs))
    with pytest.raises(InputError, match=message):
        Simulation(config(data={"clients": 4}, selector="contextual"))


def asynchronous(**energy):
    """Clients of 2, 3 and 50 s at 3 W, so 6, 9 and 150 J a time; two at work, a buffer of two, the first is asked."""
    rounds = {"protocol": "buffered", "concurrency": 2, "buffer": 2, "rounds": 6}
    watts = {"spread": 0.0, "compute_watts": 3.0, "download_watts": 0.0, "upload_watts": 0.0}
    chosen = config(data={"clients": 3}, selector="remembering", rounds=rounds, energy={**watts, **energy})
    return run(chosen, population=scripted(chosen, compute=[2.0, 3.0, 50.0]))


def test_joules_of_an_asynchronous_run_by_hand(monkeypatch):
    # The schedule is that of test_a_schedule_of_twelve_events: in the third step client 0 ends twice, in the others
    # 0 and 1 end once each. Client 0 was asked eight times in all, 1 five times: one of each is still at work.
    Remembering.register(monkeypatch)
    simulation, found = asynchronous(battery=100.0, charged=1.0, charge_watts=0.0)
    assert [row["energy"] for row in found.rounds] == [15.0, 15.0, 12.0, 15.0, 15.0, 15.0]
    assert [row["energy"] for row in found.participations] == [6.0 if row["client"] == 0 else 9.0 for row in
                                                               found.participations]  # fmt: skip
    assert simulation.state.batteries.at(simulation.now).tolist() == [100.0 - 8 * 6.0, 100.0 - 5 * 9.0, 100.0]


def test_batteries_charge_and_run_out_in_an_asynchronous_run(monkeypatch):
    # 20 J, and nothing is charged: client 0 spends 6 J at 0, 2 and 4 s, has 2 J left at 6 s, and is gone after 2/3 s.
    # Client 1 spends 9 J at 0 and 3 s and has 2 J left at 6 s, too.
    Remembering.register(monkeypatch)
    _, found = asynchronous(battery=20.0, charged=1.0, charge_watts=0.0)
    dropped = [row for row in found.participations if row["outcome"] == "dropped"]
    assert [(row["client"], row["energy"]) for row in dropped[:2]] == [(0, pytest.approx(2.0)), (1, pytest.approx(2.0))]
    assert found.rounds[2]["dropped"] >= 2
    # Charged at 3 W while it works, client 0 never has less than 14 J when it is asked; client 1 neither.
    _, found = asynchronous(battery=20.0, charged=1.0, charge_watts=3.0)
    assert not any(row["dropped"] for row in found.rounds)


def test_a_selector_is_told_of_energy_and_batteries_in_an_asynchronous_run():
    rounds = {"protocol": "buffered", "concurrency": 4, "buffer": 2, "rounds": 6}
    chosen = config(data={"clients": 8}, selector="eafl", rounds=rounds, energy={"battery": 400.0})
    simulation, found = run(chosen)
    done = {row["client"]: row["energy"] for row in found.participations if row["outcome"] == "completed"}
    for client, energy in done.items():
        assert simulation.selector.state.spent[client] == energy
    plain, found = run(chosen.replace({"energy": None}))  # told of phones on the mains, and not written down
    assert "energy" not in found.rounds[0]
    assert np.isfinite(plain.selector.state.spent).any()
