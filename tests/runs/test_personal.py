"""Tables of personalised learning read back, and scores of them by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from enlist._internal.statistics import Summary
from enlist.errors import InputError
from enlist.runs.personal import arm_scores, find_personal, gain_scores, partner_scores, read_personal
from enlist.runs.personal_example import example_personal, write_personal


def test_what_is_written_is_read_back(tmp_path):
    run = example_personal(seed=3)
    again = read_personal(write_personal(run, tmp_path / "run"))
    assert (again.target, again.seed, again.metric) == ("2", 3, "auc")
    assert again.rounds["code"].tolist() == run.rounds["code"].tolist()  # "0110" stays text
    assert again.workers["worker"].tolist() == ["1", "2", "3", "4"]
    assert again.arms["increase"] == pytest.approx(run.arms["increase"], nan_ok=True)
    assert again.result == run.result
    assert set(again.baselines) == {"local", "fedavg"}
    assert arm_scores([again])[1]["increase"] == pytest.approx(arm_scores([run])[1]["increase"])


def test_a_run_that_is_still_going_has_no_result_and_only_whole_rounds(tmp_path):
    folder = write_personal(dataclasses.replace(example_personal(), result=None, baselines={}), tmp_path / "run")
    lines = (folder / "rounds.csv").read_text().splitlines(keepends=True)
    (folder / "rounds.csv").write_text("".join(lines[:6]) + lines[6][:5])  # killed in round 6
    run = read_personal(folder)
    assert len(run.rounds["round"]) == 5
    assert run.arms["round"].max() == 5
    assert run.result is None
    assert gain_scores([run]) == {}
    assert arm_scores([run])[0]["named"] == 0


def test_other_folders_are_not_taken_for_it(tmp_path):
    assert find_personal([tmp_path]) == []
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "rounds.csv").write_text("round,start\n1,0\n")
    assert find_personal([tmp_path]) == []
    folder = write_personal(example_personal(), tmp_path / "mine")
    assert find_personal([tmp_path, folder]) == [folder]
    (tmp_path / "other" / "arms.csv").write_text("round\n1\n")
    with pytest.raises(InputError, match="has no column 'arm'"):
        read_personal(tmp_path / "other")
    (folder / "config.json").unlink()
    with pytest.raises(InputError, match=r"config\.json is missing"):
        read_personal(folder)


def test_gains_are_paired_by_seed():
    runs = [example_personal(seed) for seed in range(4)]
    scores = gain_scores(runs)
    pairs = [run.result["personalised"]["test"] - run.result["local"]["test"] for run in runs]
    assert scores["local_gain"] == Summary.of(pairs)
    assert scores["fedavg"].mean == pytest.approx(np.mean([run.result["fedavg"]["test"] for run in runs]))
    assert scores["communication"].mean == 5 + 6 * 15
    assert scores["fedavg_communication"].mean == 8 * 15


def test_of_a_loss_less_is_a_gain():
    run = example_personal()
    within = {"mean": 0.1, "low": 0.06, "high": 0.13}
    ends = {"personalised": {"test": 0.4}, "local": {"test": 0.5}}
    result = {**run.result, **ends, "metric": "loss", "gain_over_local": within}
    scores = gain_scores([dataclasses.replace(run, result=result)])
    assert scores["local_gain"] == Summary(pytest.approx(0.1), 0.06, 0.13)  # of one seed, over test samples
    assert math.isnan(scores["personalised"].low)


def test_a_baseline_that_some_seed_lacks_is_left_out():
    runs = [example_personal(seed) for seed in range(2)]
    short = {name: value for name, value in runs[1].result.items() if name != "local"}
    scores = gain_scores([runs[0], dataclasses.replace(runs[1], result=short)])
    assert "local_gain" not in scores
    assert "fedavg_gain" in scores


def test_arms_by_hand():
    run = example_personal()
    rows = {row["arm"]: row for row in arm_scores([run])}
    kept = run.rounds["arm"]
    for label, row in rows.items():
        mask = (run.arms["arm"] == label) & (run.arms["credited"] == 1)
        increases = run.arms["increase"][mask]
        assert row["increase"] == pytest.approx(increases.mean())
        assert row["played"] == pytest.approx((kept == label).mean())
    assert sum(row["probability"] for row in rows.values()) == pytest.approx(1.0)
    assert math.isinf(rows["2+4"]["low"])  # played twice only
    assert rows["2+3"]["named"] == 1


def test_over_seeds_the_interval_is_one_of_their_means():
    runs = [example_personal(seed) for seed in range(3)]
    row = next(row for row in arm_scores(runs) if row["arm"] == "2+3")
    means = [next(one for one in arm_scores([run]) if one["arm"] == "2+3")["increase"] for run in runs]
    assert (row["low"], row["high"]) == (Summary.of(means).low, Summary.of(means).high)


def test_partners_early_and_late_by_hand():
    run = example_personal(rounds=15)  # kept: 1+2, 2+3, 2+4, 2+3, 2+4 | ... | ..., 1+2 in round 12
    rows = {row["worker"]: row for row in partner_scores([run])}
    assert set(rows) == {"1", "3", "4"}
    assert rows["4"] == {"worker": "4", "poison": "label-flip", "early": 0.4, "late": 0.0}
    assert rows["1"]["late"] == pytest.approx(0.2)
    assert rows["3"] == {"worker": "3", "poison": "", "early": 0.4, "late": pytest.approx(0.8)}


def test_rounds_without_the_target_count_for_nobody():
    run = example_personal(rounds=6)
    skipped = run.rounds["skipped"].astype("<U12")
    skipped[:3] = "target away"
    arms = run.rounds["arm"].copy()
    arms[:3] = ""
    changed = dataclasses.replace(run, rounds={**run.rounds, "skipped": skipped, "arm": arms})
    rows = {row["worker"]: row for row in partner_scores([changed])}
    assert rows["3"]["early"] == 1.0  # of rounds 4, 5 and 6 the first
    assert sum(row["played"] for row in arm_scores([changed])) == pytest.approx(1.0)


def test_an_arm_of_one_seed_only_is_no_certainty():
    first, second = example_personal(0), example_personal(1)
    renamed = np.array([label.replace("3", "9") for label in second.arms["arm"].tolist()])
    kept = np.array([label.replace("3", "9") for label in second.rounds["arm"].tolist()])
    other = dataclasses.replace(second, arms={**second.arms, "arm": renamed}, rounds={**second.rounds, "arm": kept})
    rows = {row["arm"]: row for row in arm_scores([first, other])}
    assert rows["2+3"]["probability"] < 0.51
    assert rows["2+9"]["probability"] < 0.51
    assert sum(row["probability"] for row in rows.values()) == pytest.approx(1.0)
