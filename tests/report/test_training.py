"""Charts of runs: the rows they show, by hand, and that they can be drawn."""

from __future__ import annotations

import dataclasses
import json
import math

import numpy as np
import pytest
import vl_convert

from enlist.errors import InputError
from enlist.report.charts import save, styled
from enlist.report.devices import (
    availability_chart,
    availability_rows,
    device_chart,
    device_rows,
    latency_chart,
    latency_rows,
    log_ticks,
)
from enlist.report.participation import (
    activity_chart,
    evenness_rows,
    lorenz_chart,
    outcome_chart,
    outcome_rows,
    selection_chart,
    selection_rows,
)
from enlist.report.training import curve_chart, curve_rows, reach_chart, reach_rows
from enlist.runs.example import example_run


@pytest.fixture(scope="module")
def runs():
    names = ("oort", "fedcs", "random")
    return [example_run(name, seed, clients=100, rounds=60, k=10) for name in names for seed in range(3)]


def with_rounds(run, **columns):
    rounds = {**run.rounds, **{name: np.asarray(values, dtype=float) for name, values in columns.items()}}
    return dataclasses.replace(run, rounds=rounds)


def short(accuracy, end, **settings):
    """A run with these evaluations at these times."""
    run = example_run(rounds=len(accuracy), **settings)
    return with_rounds(run, accuracy=accuracy, end=end, start=[0.0, *end[:-1]])


def drawn(chart):
    """The chart as SVG: everything that Vega would complain about comes up."""
    return vl_convert.vegalite_to_svg(styled(chart).to_dict())


# Learning curves


def test_curves_hold_the_last_value_and_stay_within_what_all_seeds_know():
    runs = [
        short([0.2, np.nan, 0.6], [10.0, 20.0, 30.0], seed=0),
        short([np.nan, 0.4, 0.8], [10.0, 20.0, 50.0], seed=1),
    ]
    rows = curve_rows(runs)
    assert (rows[0]["at"], rows[-1]["at"]) == (20.0, 30.0)
    means = {row["at"]: row["mean"] for row in rows}
    assert means[20.0] == pytest.approx(0.3)
    assert means[30.0] == pytest.approx(0.5)
    assert {round(value, 9) for value in means.values()} == {0.3, 0.5}
    assert all(0 <= row["low"] <= row["mean"] <= row["high"] <= 1 for row in rows)


def test_a_single_run_shows_its_evaluations():
    rows = curve_rows([short([0.2, np.nan, 0.6], [10.0, 20.0, 30.0])])
    assert [(row["at"], row["mean"], row["low"], row["high"]) for row in rows] == [
        (10.0, 0.2, 0.2, 0.2),
        (30.0, 0.6, 0.6, 0.6),
    ]


def test_curves_over_rounds_have_a_point_per_evaluation(runs):
    rows = curve_rows(runs, "rounds")
    assert [row["at"] for row in rows if row["selector"] == "oort"] == [float(number) for number in range(2, 61, 2)]


def test_curves_of_long_runs_are_thinned():
    accuracy = np.linspace(0.1, 0.9, 3000)
    run = with_rounds(
        example_run(), **dict.fromkeys(("accuracy",), accuracy), start=np.arange(3000.0), end=np.arange(1.0, 3001.0)
    )
    for along in ("time", "rounds"):
        rows = curve_rows([run], along)
        assert 200 < len(rows) < 260
        assert rows[-1]["mean"] == 0.9


def test_a_selector_that_was_never_evaluated_has_no_curve(runs):
    blind = with_rounds(runs[0], accuracy=np.full(60, np.nan))
    assert {row["selector"] for row in curve_rows([blind, *runs[3:]])} == {"fedcs", "random"}


def test_times_to_target(runs):
    rows = reach_rows(runs, 0.8)
    assert [row["selector"] for row in rows] == ["oort"] * 3 + ["fedcs"] * 3 + ["random"] * 3
    assert all(row["reached"] for row in rows)
    never = reach_rows(runs[:1], 0.999)[0]
    assert (never["reached"], never["rounds"], never["seconds"]) == (False, 60, runs[0].rounds["end"][-1])


# Who took part


def test_cells_count_requests_by_hand():
    run = example_run(clients=4, rounds=2, k=1)
    told = {"round": [1, 2, 5], "selected_in": [1, 2, 2], "client": [0, 3, 3]}
    participations = {name: np.array(values, dtype=float) for name, values in told.items()}
    participations["outcome"] = np.array(["completed", "late", "arrived"])
    clients = {**run.clients, "expected_latency": np.array([4.0, 3.0, 2.0, 1.0]), "num_examples": np.arange(1.0, 5.0)}
    run = dataclasses.replace(run, participations=participations, clients=clients)
    cells = {(row["client"], row["round"]): row["share"] for row in selection_rows([run], "speed")}
    assert cells == {(i, j): float((i, j) in {(3, 0), (0, 1)}) for i in range(4) for j in range(2)}
    by_size = {(row["client"], row["round"]): row["share"] for row in selection_rows([run], "size")}
    assert by_size == {(i, j): float((i, j) in {(0, 0), (3, 1)}) for i in range(4) for j in range(2)}
    with pytest.raises(InputError, match="order is 'sped'"):
        selection_rows([run], "sped")


def test_cells_are_few_and_their_mean_is_the_share_that_was_asked(runs):
    rows = selection_rows(runs)
    for name in ("oort", "fedcs", "random"):
        own = [row for row in rows if row["selector"] == name]
        assert len(own) <= 48 * 48
        assert np.mean([row["share"] for row in own]) == pytest.approx(0.1, rel=0.08)


def test_cells_of_runs_of_different_length():
    long, brief = example_run("oort", rounds=40), example_run("random", rounds=10)
    rows = selection_rows([long, brief])
    last = {name: max(row["round"] for row in rows if row["selector"] == name) for name in ("oort", "random")}
    assert last["random"] < last["oort"]
    assert rows[-1]["rounds"].split(" – ")[-1] in {"10", "11", "12"}


def test_outcomes_add_up(runs):
    rows = outcome_rows(runs)
    for name in ("oort", "fedcs", "random"):
        own = [row for row in rows if row["selector"] == name]
        assert [row["outcome"] for row in own] == ["completed", "late", "dropped", "failed"]
        assert own[-1]["to"] == pytest.approx(1.0)
        assert sum(row["count"] for row in own) == sum(
            run.rounds["selected"].sum() for run in runs if run.selector == name
        )


def test_lorenz_by_hand():
    run = example_run(clients=4)
    participations = {
        "round": np.ones(4),
        "selected_in": np.ones(4),
        "client": np.array([1.0, 1.0, 1.0, 2.0]),
        "outcome": np.array(["completed", "arrived", "completed", "completed"]),
    }
    rows = evenness_rows([dataclasses.replace(run, participations=participations)])
    at = {row["rank"]: row for row in rows}
    assert [at[rank]["held"] for rank in (0.0, 0.5, 0.75, 1.0)] == pytest.approx([0.0, 0.0, 0.25, 1.0])
    assert [at[rank]["times"] for rank in (0.0, 0.24, 0.25, 0.5, 1.0)] == [3.0, 3.0, 1.0, 0.0, 0.0]


# Devices


def test_dots_are_drawn_by_lot_but_always_the_same():
    run = example_run(clients=3000)
    rows = device_rows(run)
    assert len(rows) == 2000
    assert rows == device_rows(run)
    assert len({row["client"] for row in rows}) == 2000


def test_devices_without_a_place_on_the_axes_are_left_out():
    run = example_run()
    run.clients["bandwidth_kbps"][:3] = [np.inf, 0.0, np.nan]
    assert [row["client"] for row in device_rows(run)] == list(range(3, 12))
    del run.clients["compute_ms"]
    assert device_rows(run) == []


def test_every_latency_is_in_a_bin():
    run = example_run(clients=500)
    rows = latency_rows(run)
    assert sum(row["clients"] for row in rows) == 500
    assert len(rows) == 36
    run.clients["expected_latency"][:] = 7.0
    assert [row["clients"] for row in latency_rows(run)] == [500]
    run.clients["expected_latency"][:] = np.nan
    assert latency_rows(run) == []


def test_availability_is_that_of_the_longest_run_of_a_seed(runs):
    rows = availability_rows(runs)
    assert [row["seed"] for row in rows] == [0] * 60 + [1] * 60 + [2] * 60
    longest = max((run for run in runs if run.seed == 1), key=lambda run: run.rounds["end"][-1])
    assert [row["start"] for row in rows if row["seed"] == 1] == longest.rounds["start"].tolist()


@pytest.mark.parametrize("span", [(1.0, 1.2), (0.003, 0.9), (1e-6, 1e9), (5.0, 5.0)])
def test_ticks_lie_on_the_axis_and_are_few(span):
    ticks = log_ticks(span)
    assert 1 <= len(ticks) <= 9
    assert all(span[0] <= tick <= span[1] for tick in ticks)


# Drawing


def test_every_chart_can_be_drawn(runs):
    curves = curve_rows(runs)
    even = evenness_rows(runs)
    words = {
        "Over time": curve_chart(curves, "Over time", target=0.8),
        "Over rounds": curve_chart(curve_rows(runs, "rounds"), "Over rounds", "rounds"),
        "To target": reach_chart(reach_rows(runs, 0.905), "To target"),
        "Asked": selection_chart(selection_rows(runs), "Asked"),
        "Outcomes": outcome_chart(outcome_rows(runs), "Outcomes"),
        "Sorted": activity_chart(even, "Sorted"),
        "Lorenz": lorenz_chart(even, "Lorenz"),
        "Devices": device_chart(device_rows(runs[0]), "Devices"),
        "Latency": latency_chart(latency_rows(runs[0]), "Latency"),
        "There": availability_chart(availability_rows(runs), "There"),
    }
    for title, chart in words.items():
        picture = drawn(chart)
        assert title in picture
        assert "NaN" not in picture
        assert "undefined" not in picture


def test_random_is_grey_and_the_target_dashed(runs):
    chart = curve_chart(curve_rows(runs), "Over time", target=0.8).to_dict()
    scale = chart["layer"][0]["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True))["random"] == "#8d99ae"
    picture = drawn(curve_chart(curve_rows(runs), "Over time", target=0.8))
    assert "target 80 %" in picture
    assert "stroke-dasharray" in picture
    assert "target" not in drawn(curve_chart(curve_rows(runs), "Over time", target=math.nan))


def test_all_heat_maps_share_one_scale(runs):
    chart = selection_chart(selection_rows(runs), "Asked", most=0.5).to_dict()
    assert chart["spec"]["encoding"]["color"]["scale"]["domain"] == [0, 0.5]
    assert "resolve" not in chart


def test_one_run_and_few_clients_can_be_drawn():
    run = example_run(clients=2, rounds=1, k=1)
    for chart in (
        selection_chart(selection_rows([run]), "One"),
        outcome_chart(outcome_rows([run]), "One"),
        lorenz_chart(evenness_rows([run]), "One"),
        curve_chart(curve_rows([run]), "One"),
        reach_chart(reach_rows([run], 0.99), "One"),
        availability_chart(availability_rows([run]), "One"),
        latency_chart(latency_rows(run), "One"),
    ):
        assert "<svg" in drawn(chart)


def test_pages_stay_small_with_many_clients_and_rounds():
    run = example_run(clients=10_000, rounds=300, k=100)
    for chart in (
        selection_chart(selection_rows([run]), "Large"),
        lorenz_chart(evenness_rows([run]), "Large"),
        device_chart(device_rows(run), "Large"),
        availability_chart(availability_rows([run]), "Large"),
    ):
        assert len(json.dumps(styled(chart).to_dict())) < 700_000


def test_only_the_wanted_files_are_saved(tmp_path, runs):
    chart = outcome_chart(outcome_rows(runs), "Outcomes")
    assert [path.name for path in save(chart, tmp_path / "some", (".svg",))] == ["some.svg"]
    assert [path.name for path in tmp_path.iterdir()] == ["some.svg"]
