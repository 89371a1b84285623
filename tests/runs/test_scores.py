"""Scores of runs, by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from enlist._internal.statistics import Summary, geometric_mean
from enlist.errors import EnlistError, InputError
from enlist.runs.comparing import comparison_rows, configured_target, default_target
from enlist.runs.example import example_run
from enlist.runs.printing import comparison_table, duration, level, percent, speed_up, time_unit
from enlist.runs.scores import (
    Reached,
    check_target,
    evaluations,
    first_rows,
    jain,
    measure,
    run_scores,
    time_to,
    times_completed,
    times_selected,
    total,
)
from enlist.runs.tables import RunTables

NAN = math.nan


def made(selector="random", seed=0, accuracy=(NAN, 0.5, NAN, 0.8), step=10.0, loss=None, config=None, told=()):
    """A run of rounds that take `step` seconds and one more second between them; 4 clients, 2 asked each time."""
    count = len(accuracy)
    start = np.arange(count) * (step + 1.0)
    rounds = {
        "round": np.arange(1.0, count + 1.0),
        "start": start,
        "end": start + step,
        "available": np.full(count, 4.0),
        "selected": np.full(count, 2.0),
        "completed": np.full(count, 1.0),
        "late": np.full(count, 0.5),
        "dropped": np.full(count, 0.25),
        "failed": np.full(count, 0.25),
        "arrived": np.zeros(count),
        "accuracy": np.array(accuracy, dtype=float),
        "loss": np.array(loss if loss is not None else [NAN] * count, dtype=float),
        "bytes_down": np.full(count, 100.0),
        "bytes_up": np.full(count, 50.0),
    }
    rows = told or [(1, 1, 0, "completed"), (1, 1, 1, "late"), (2, 2, 0, "completed"), (3, 1, 1, "arrived")]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    participations = dict(zip(("round", "selected_in", "client", "outcome"), columns, strict=True))
    participations = {
        name: column if name == "outcome" else column.astype(float) for name, column in participations.items()
    }
    clients = {"client": np.arange(4.0), "num_examples": np.full(4, 10.0)}
    return RunTables(selector, seed, config or {}, rounds, participations, clients, {"status": "finished"})


# A run


def test_evaluations_are_the_rounds_with_a_value():
    seen = evaluations(made())
    assert seen.rounds.tolist() == [2, 4]
    assert seen.seconds.tolist() == [21.0, 43.0]
    assert seen.values.tolist() == [0.5, 0.8]


@pytest.mark.parametrize(
    ("target", "window", "wanted"),
    [
        (0.5, 1, Reached(2, 21.0)),
        (0.51, 1, Reached(4, 43.0)),
        (0.8, 1, Reached(4, 43.0)),
        (0.81, 1, None),
        (0.65, 2, Reached(4, 43.0)),
        (0.66, 2, None),
        (0.1, 3, None),
    ],
)
def test_time_to_target(target, window, wanted):
    assert time_to(made(), target, window) == wanted


def test_a_lucky_evaluation_does_not_count_in_a_window():
    run = made(accuracy=(0.1, 0.9, 0.2, 0.6, 0.7))
    assert time_to(run, 0.6) == Reached(2, 21.0)
    assert time_to(run, 0.6, window=2) == Reached(5, 54.0)
    with pytest.raises(InputError, match="window is 0"):
        time_to(run, 0.6, window=0)


def test_rounds_are_counted_even_if_numbered_from_zero():
    run = made()
    run.rounds["round"] -= 1.0
    assert time_to(run, 0.5) == Reached(2, 21.0)


def test_counts_of_participations():
    run = made()
    assert times_selected(run).tolist() == [2, 1, 0, 0]
    assert times_completed(run).tolist() == [2, 1, 0, 0]


def test_an_update_asked_once_and_told_once_late_is_one_selection():
    run = made(told=[(1, 1, 0, "completed"), (4, 2, 0, "arrived"), (4, 4, 3, "dropped")])
    assert times_selected(run).tolist() == [2, 0, 0, 1]
    assert times_completed(run).tolist() == [2, 0, 0, 0]


def test_scores_by_hand():
    found = run_scores(made(accuracy=(0.2, 0.9, 0.6, 0.75)))
    assert found == pytest.approx(
        {
            "rounds": 4.0,
            "time": 43.0,
            "final": 0.75,
            "last": 0.75,
            "best": 0.9,
            "round_time": 10.0,
            "selected": 8.0,
            "coverage": 0.5,
            "jain": 9 / (4 * 5),
            "jain_selected": 9 / (4 * 5),
            "completed": 0.5,
            "late": 0.25,
            "dropped": 0.125,
            "failed": 0.125,
            "arrived": 0.0,
            "bytes_down": 400.0,
            "bytes_up": 200.0,
        }
    )


def test_a_run_without_evaluations_or_requests():
    run = made(accuracy=(NAN, NAN))
    run.rounds["selected"][:] = 0.0
    found = run_scores(run)
    assert math.isnan(found["final"])
    assert math.isnan(found["late"])
    assert total(run) == Reached(2, 21.0)
    assert math.isnan(default_target([run]))


@given(st.lists(st.integers(0, 50), min_size=1, max_size=30))
def test_jain_lies_between_one_over_n_and_one(counts):
    assert 1.0 / len(counts) - 1e-12 <= jain(counts) <= 1.0 + 1e-12


def test_regression_is_measured_by_loss():
    runs = [
        made("random", seed, accuracy=(NAN,) * 4, loss=(4.0, 2.0, 1.0 + seed / 10, 1.0 + seed / 10)) for seed in (0, 1)
    ]
    assert measure(runs) == "loss"
    assert time_to(runs[0], 2.0, by="loss") == Reached(2, 21.0)
    assert run_scores(runs[0], "loss")["best"] == 1.0
    assert default_target(runs) == 1.4
    row = comparison_rows(runs)[0]
    assert (row["measure"], row["target"], row["reached"]) == ("loss", 1.4, 2)
    assert comparison_table([row])[0][1:4] == ["rounds to loss 1.4", "time to loss 1.4", "final loss"]


# Targets


def test_the_default_target_is_what_random_ends_with():
    runs = [made("oort", accuracy=(0.2, 0.3)), made(accuracy=(0.719, 0.859)), made(seed=1, accuracy=(0.85, 0.95))]
    assert default_target(runs) == 0.78
    assert default_target(runs[:1]) == 0.25


def test_a_configured_target_is_taken_if_all_agree():
    first = made(config={"evaluation": {"target": 0.7}})
    other = made(seed=1, config={"evaluation": {"target": 0.6}})
    assert configured_target([first, first]) == 0.7
    assert configured_target([first, other]) is None
    assert configured_target([made(config={"evaluation": None})]) is None
    assert comparison_rows([first])[0]["target"] == 0.7


@pytest.mark.parametrize(
    ("target", "problem"), [(80, "perhaps 0.8"), (-0.1, "from 0.0 to 1.0"), (NAN, "target is nan")]
)
def test_impossible_targets(target, problem):
    with pytest.raises(InputError, match=problem):
        check_target(target)
    with pytest.raises(InputError, match=problem):
        comparison_rows([made()], target)


# Comparisons


def rows_of(runs, target=0.8, **options):
    return {row["selector"]: row for row in comparison_rows(runs, target, **options)}


def test_speed_up_is_the_geometric_mean_of_paired_ratios():
    runs = [made("random", seed, step=step) for seed, step in enumerate((10.0, 20.0))]
    runs += [made("fast", seed, step=step) for seed, step in enumerate((4.0, 20.0))]
    row = rows_of(runs)["fast"]
    ratios = [43.0 / 19.0, 1.0]
    assert row["speed_up"] == pytest.approx(math.sqrt(ratios[0] * ratios[1]))
    mean, deviation = math.log(ratios[0]) / 2, math.log(ratios[0]) / math.sqrt(2)
    half = 12.706205 * deviation / math.sqrt(2)  # Student's t of 97.5 % with one degree of freedom
    assert row["speed_up_low"] == pytest.approx(math.exp(mean - half), rel=1e-5)
    assert row["speed_up_high"] == pytest.approx(math.exp(mean + half), rel=1e-5)
    assert (row["speed_up_bound"], row["pairs"], row["reached"], row["seeds"]) == ("", 2, 2, 2)
    assert row["time_to"] == (19.0 + 83.0) / 2
    assert row["time_to_low"] < row["time_to"] < row["time_to_high"]
    assert "speed_up" not in rows_of(runs)["random"]


def test_any_method_can_be_the_baseline():
    runs = [made("slow", seed, step=20.0) for seed in (0, 1)] + [made("fast", seed, step=4.0) for seed in (0, 1)]
    rows = rows_of(runs, baseline="slow")
    assert rows["fast"]["speed_up"] == pytest.approx(83.0 / 19.0)
    assert rows["fast"]["baseline"] == "slow"
    assert "speed_up" not in rows["slow"]
    with pytest.raises(EnlistError, match="no method called 'slov'"):
        rows_of(runs, baseline="slov")


def test_pairs_are_made_by_seed_not_by_position():
    runs = [made("random", seed, step=10.0 * (seed + 1)) for seed in (0, 1, 2)]
    runs += [made("same", seed, step=10.0 * (seed + 1)) for seed in (2, 0)]
    row = rows_of(runs)["same"]
    assert row["speed_up"] == pytest.approx(1.0)
    assert row["pairs"] == 2


@pytest.mark.parametrize(
    ("base", "own", "ratio", "bound", "pairs"),
    [
        ((True, True), (True, False), math.sqrt(1.0 * 43.0 / 43.0), "<=", 2),
        ((False, True), (True, True), 1.0, ">=", 2),
        ((False, True), (True, False), 1.0, "?", 2),
        ((False, True), (False, True), 1.0, "", 1),
        ((False, False), (False, False), NAN, "", 0),
    ],
)
def test_runs_that_never_got_there_give_bounds(base, own, ratio, bound, pairs):
    good, poor = (NAN, 0.5, NAN, 0.8), (NAN, 0.5, NAN, 0.7)
    runs = [made("random", seed, good if there else poor) for seed, there in enumerate(base)]
    runs += [made("other", seed, good if there else poor) for seed, there in enumerate(own)]
    row = rows_of(runs)["other"]
    assert row["speed_up"] == pytest.approx(ratio, nan_ok=True)
    assert (row["speed_up_bound"], row["pairs"], row["reached"]) == (bound, pairs, sum(own))


def test_a_bound_is_one():
    """The run that did not get there, had it gone on, could only have moved the figure to the side that is marked."""
    full = made("slow", accuracy=(0.1, 0.2, 0.3, 0.9))
    cut = made("slow", accuracy=(0.1, 0.2, 0.3))
    base = made("random", accuracy=(0.1, 0.9, 0.9, 0.9))
    true, bounded = rows_of([base, full])["slow"], rows_of([base, cut])["slow"]
    assert bounded["speed_up_bound"] == "<="
    assert true["speed_up"] <= bounded["speed_up"]
    assert true["time_to"] >= bounded["time_to"]


def test_a_selector_with_censored_seeds_has_a_lower_bound_and_no_interval():
    runs = [made("oort", 0), made("oort", 1, (0.1, 0.1, 0.1, 0.1, 0.1)), made("oort", 2)]
    row = rows_of(runs)["oort"]
    assert (row["reached"], row["seeds"]) == (2, 3)
    assert row["rounds_to"] == pytest.approx((4 + 5 + 4) / 3)
    assert math.isnan(row["rounds_to_low"])
    line = dict(zip(*comparison_table([row]), strict=True))
    assert line["rounds to 80 %"] == "≥ 4.3 (2/3)"
    assert line["time to 80 %"] == "≥ 46.7 s (2/3)"


def test_the_same_run_twice_is_refused():
    with pytest.raises(InputError, match="two runs are of selector 'random' with seed 0"):
        comparison_rows([made(), made()])


def test_tables_leave_out_what_nobody_knows():
    single = comparison_table(comparison_rows([made()], 0.8))
    assert "speed-up over random" not in single[0]
    both = comparison_table(comparison_rows([made("oort"), made()], 0.8))
    assert dict(zip(both[0], both[1], strict=True))["speed-up over random"] == "1.00"
    assert both[2][3] == "–"
    never = comparison_table(comparison_rows([made("oort")], 0.9))
    assert never[1][1:3] == ["never (0/1)", "never (0/1)"]
    line = dict(zip(*single, strict=True))
    assert line["late / dropped / failed"] == "25 / 12 / 12 %"
    assert line["final accuracy"] == "65.0 %"
    assert line["kB sent"] == "0.6"


def test_a_table_of_nothing_evaluated():
    header = comparison_table(comparison_rows([made(accuracy=(NAN, NAN))]))[0]
    assert header == ["selector", "round time", "late / dropped / failed", "seen", "Jain", "kB sent"]


def test_comparisons_of_made_up_runs_have_all_columns():
    runs = [example_run(name, seed) for name in ("oort", "random") for seed in range(3)]
    table = comparison_table(comparison_rows(runs))
    assert len(table) == 3
    assert {len(line) for line in table} == {10}


# Statistics


def test_the_interval_of_ratios_is_that_of_their_logarithms():
    # logs 0, 1, 2: mean 1, deviation 1, t(.975, 2) = 4.30265 / sqrt 3 = 2.48414
    found = geometric_mean(np.exp([0.0, 1.0, 2.0]).tolist())
    assert (found.mean, found.low, found.high) == pytest.approx(tuple(np.exp([1.0, -1.48414, 3.48414])), rel=1e-5)


def test_the_interval_of_a_speed_up_repeats_and_turns_with_the_ratio():
    steps = (10.0, 20.0, 15.0, 30.0, 12.0)
    runs = [made("random", seed, step=10.0) for seed in range(5)]
    runs += [made("other", seed, step=step) for seed, step in enumerate(steps)]
    first, again = rows_of(runs)["other"], rows_of(runs)["other"]
    swapped = [dataclasses.replace(run, selector={"random": "other", "other": "random"}[run.selector]) for run in runs]
    turned = rows_of(swapped)["other"]
    assert first == again
    assert first["speed_up_low"] < first["speed_up"] < first["speed_up_high"]
    assert turned["speed_up"] == pytest.approx(1.0 / first["speed_up"])
    assert turned["speed_up_low"] == pytest.approx(1.0 / first["speed_up_high"], rel=0.02)


def test_one_seed_has_no_interval():
    assert math.isnan(geometric_mean([2.0]).low)
    assert math.isnan(Summary.of([2.0]).high)


# Words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min"),
        (119.7, "2 min"),
        (3599.6, "1 h"),
        (3600.0, "1 h"),
        (11_520.0, "3 h 12 min"),
        (86_399.0, "1 d"),
        (100_000.0, "1 d 4 h"),
        (NAN, "–"),
        (math.inf, "–"),
    ],
)
def test_durations(seconds, words):
    assert duration(seconds) == words


@given(st.floats(60, 1e8))
def test_durations_are_right_to_half_their_smaller_unit(seconds):
    sizes = {"s": 1, "min": 60, "h": 3600, "d": 86400}
    parts = duration(seconds).split()
    read = sum(int(number) * sizes[unit] for number, unit in zip(parts[::2], parts[1::2], strict=True))
    assert abs(read - seconds) <= 0.5 * (1 if seconds < 3599.5 else 60 if seconds < 86_370 else 3600)


def test_small_words():
    assert [time_unit(seconds)[0] for seconds in (0, 100, 149, 151, 9_001, 216_001)] == [
        "seconds",
        "seconds",
        "seconds",
        "minutes",
        "hours",
        "days",
    ]
    assert [percent(share) for share in (0.0, 0.004, 0.006, 0.126, 1.0)] == ["0 %", "0.4 %", "1 %", "13 %", "100 %"]
    assert level(0.5) == "50 %"
    assert level(NAN) == "–"
    unclear = {"speed_up": 1.0, "speed_up_low": NAN, "speed_up_high": NAN, "speed_up_bound": "?"}
    assert speed_up(unclear) == "–"


def test_a_request_counts_once_when_the_server_had_given_it_up():
    told = [
        (1, 1, 0, "completed"),
        (1, 1, 0, "completed"),  # asked twice before the server stepped
        (2, 1, 1, "late"),  # given up
        (3, 1, 1, "arrived"),  # and came nevertheless
        (3, 2, 2, "late"),
        (4, 2, 2, "failed"),
        (4, 3, 3, "completed"),
    ]
    federation = made(told=told, config={"strategy": "FedAvg", "mode": "buffered"})
    assert federation.asynchronous
    assert first_rows(federation).tolist() == [True, True, True, False, True, False, True]
    assert times_selected(federation).tolist() == [2, 1, 1, 1]
    simulated = made(told=told[:3], config={"rounds": {"protocol": "async"}})
    assert times_selected(simulated).tolist() == [2, 1, 0, 0]
    assert not made(config={"strategy": "FedAvg", "mode": "synchronous"}).asynchronous
