"""The report of personalised learning: its words are true of the tables, its charts hold what they should."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from enlist.errors import InputError
from enlist.report.personal import lead, learned, personal_table, verdict, write_personal_report
from enlist.report.personal_charts import (
    estimate_rows,
    increase_chart,
    possible,
    score_rows,
    series_chart,
    series_colours,
)
from enlist.report.personal_choices import OTHERS, action_rows, arm_colours, journey_chart, partner_chart, shown_arms
from enlist.runs.personal import gain_scores
from enlist.runs.personal_example import example_personal


def runs(seeds=3, **changes):
    return [dataclasses.replace(example_personal(seed), **changes) for seed in range(seeds)]


def ending(run, test):
    """The same run with another test score in the end."""
    return dataclasses.replace(run, result={**run.result, "personalised": {"test": test}})


def many_arms(run, count=20):
    """The same run with further arms that were never played."""
    more = {name: np.concatenate([column, column[:count]]) for name, column in run.arms.items()}
    more["arm"] = np.concatenate([run.arms["arm"], [f"2+x{number}" for number in range(count)]])
    more["increase"][-count:], more["credited"][-count:] = np.nan, 0
    return dataclasses.replace(run, arms=more)


def test_the_verdict_says_what_the_numbers_say():
    some = runs()
    text, scores = verdict(some), gain_scores(some)
    assert "combination 2+3 was learned, by 3 of 3 seeds" in text
    assert f"test AUC of {scores['personalised'].mean:.3f}" in text
    assert f"{scores['local_gain'].mean:.3f} better than local only" in text
    assert f"[{scores['fedavg_gain'].low:+.3f}, {scores['fedavg_gain'].high:+.3f}]" in text
    assert "95 messages, 79 % of the 120" in text


def test_a_difference_that_is_none_is_called_none():
    some = runs()
    assert "not distinguishable from local only" in verdict(
        [ending(run, run.result["local"]["test"] + 0.01 * (-1) ** run.seed) for run in some]
    )
    worse = [ending(run, 0.3) for run in some]
    assert "worse than local only" in verdict(worse)


def test_one_seed_has_intervals_over_test_samples(tmp_path):
    text = verdict(runs(1))
    assert "by 1 of 1" not in text
    gain = gain_scores(runs(1))["local_gain"]
    assert gain.high - gain.low == pytest.approx(0.04)
    assert f"[{gain.low:+.3f}, {gain.high:+.3f}]" in text
    assert "over the target&#x27;s test samples" in write_personal_report(runs(1), tmp_path).read_text()


def test_stages_that_the_model_was_chosen_from_are_listed(tmp_path):
    more = [
        dataclasses.replace(
            run, result={**run.result, "stages": [*run.result["stages"], "retrained"], "retrained": {"test": 0.74}}
        )
        for run in runs()
    ]
    text = write_personal_report(more, tmp_path).read_text()
    assert "retrained with the combination fixed" in text
    assert "0.740" in text
    assert "retrained" not in write_personal_report(runs(), tmp_path / "plain").read_text()


def test_doubt_is_said():
    run = example_personal(rounds=4)
    assert "others may be as good" in verdict([run])


def test_without_baselines_the_report_does_without(tmp_path):
    bare = [
        dataclasses.replace(
            run, baselines={}, result={k: v for k, v in run.result.items() if k not in ("local", "fedavg")}
        )
        for run in runs()
    ]
    assert {row["series"] for row in score_rows(bare)} == {"personalised"}
    header = personal_table(bare)[0]
    assert "over local only" not in header
    page = write_personal_report(bare, tmp_path)
    assert "federated averaging" not in page.read_text().split("<script>")[0]


def test_the_page_has_its_parts(tmp_path):
    page = write_personal_report(runs(), tmp_path, "Mine")
    text = page.read_text()
    for words in ("What was learned", "Which combination, and how certain", "Learning curves", "Combinations kept"):
        assert f"<h2>{words}</h2>" in text
    assert "2+4 (poisonous)" in text
    assert "4 in 40 % and 0 %" in text
    names = {path.name for path in (tmp_path / "charts").iterdir()}
    stems = ("increases", "estimates", "rounds", "messages", "actions", "journey", "partners")
    assert names == {f"{stem}{suffix}" for stem in stems for suffix in (".png", ".svg")} | {"overview.png"}
    scores = json.loads((tmp_path / "scores.json").read_text())
    assert scores["2"]["combination"] == "2+3"
    assert len(scores["2"]["scores"]["local_gain"]) == 3
    assert "http:" not in text.split("<script")[0]  # nothing is fetched
    assert "https:" not in text.split("<script")[0]


def test_several_targets_are_told_apart(tmp_path):
    other = [dataclasses.replace(run, target="3", config={**run.config, "target": "3"}) for run in runs()]
    both = [*runs(), *other]
    page = write_personal_report(both, tmp_path)
    text = page.read_text()
    assert "<h2>All targets</h2>" in text
    assert "Worker 3: what was learned" in text
    assert (tmp_path / "charts" / "0001-3-rounds.png").exists()
    assert [row[0] for row in personal_table(both)] == ["target", "2", "3"]
    assert "for each of 2 workers" in lead(both)


def test_nothing_to_report_is_said(tmp_path):
    run = example_personal()
    empty = dataclasses.replace(run, rounds={name: column[:0] for name, column in run.rounds.items()})
    with pytest.raises(InputError, match="no run has finished a round"):
        write_personal_report([empty], tmp_path)


def test_curves_are_means_over_seeds_and_held_where_the_target_was_away():
    some = runs()
    rows = [row for row in score_rows(some) if row["series"] == "personalised"]
    assert rows[4]["mean"] == pytest.approx(np.mean([run.rounds["test"][4] for run in some]))
    assert rows[4]["low"] < rows[4]["mean"] < rows[4]["high"]
    test = some[0].rounds["test"].copy()
    test[4] = np.nan
    away = dataclasses.replace(some[0], rounds={**some[0].rounds, "test": test})
    rows = [row for row in score_rows([away]) if row["series"] == "personalised"]
    assert rows[4]["mean"] == rows[3]["mean"]


def test_curves_over_messages_leave_out_who_sends_none():
    rows = score_rows(runs(), "messages")
    assert {row["series"] for row in rows} == {"personalised", "federated averaging"}
    assert [row["at"] for row in rows if row["series"] == "federated averaging"] == [8.0 * n for n in range(1, 16)]


def test_of_many_arms_the_ones_kept_have_colours():
    run = many_arms(example_personal())
    shown = shown_arms([run])
    assert len(shown) <= 8
    assert {"1+2", "2+3", "2+4"} <= set(shown)
    assert arm_colours([run]).domain[-1] == OTHERS
    assert {row["series"] for row in estimate_rows([run])} <= set(shown)
    assert {row["arm"] for row in action_rows([run])} == {"1+2", "2+3", "2+4"}
    assert learned([run])["arm"] == "2+3"


def test_poisonous_workers_are_marked():
    assert "4 (label-flip)" in json.dumps(partner_chart(runs(), "Partners").to_dict())
    arms = json.dumps(increase_chart(runs(), "Increases").to_dict())
    assert "with a poisonous worker" in arms
    clean = [dataclasses.replace(run, workers={**run.workers, "poison": np.array([""] * 4)}) for run in runs()]
    assert "with a poisonous worker" not in json.dumps(increase_chart(clean, "Increases").to_dict())


def test_axes_of_auc_and_their_bands_show_nothing_impossible() -> None:
    rows = [{"series": "personalised", "at": float(at), "mean": 0.98, "low": 0.0, "high": 1.0} for at in range(3)]
    chart = series_chart(rows, "Over rounds", "round", "test AUC", series_colours(rows), limits=(0.0, 1.0)).to_dict()
    assert _domain(chart) == [0.0, 1.0]
    assert _domain(series_chart(rows, "Gain", "round", "increase", series_colours(rows)).to_dict()) == [-0.05, 1.05]
    path = [{"round": 1, "test": value, "arm": "2", "seed": "0", "mean": value} for value in (0.5, 1.0)]
    assert _domain(journey_chart(path, "Scores", "AUC", series_colours(rows), (0.0, 1.0)).to_dict())[1] == 1.0
    runs = [example_personal(seed) for seed in range(2)]
    for run, scores in zip(runs, (0.1, 0.99), strict=True):
        run.rounds["test"][:] = scores
    assert possible(runs) == (0.0, 1.0)
    spans = [(row["low"], row["high"]) for row in score_rows(runs) if row["series"] == "personalised"]
    assert set(spans) == {(0.0, 1.0)}, "two seeds give an interval far beyond"


def _domain(chart):
    """The domain of the vertical axis."""
    scale = chart.get("encoding", {}).get("y", {}).get("scale", {})
    return scale.get("domain") or next(filter(None, map(_domain, chart.get("layer", []))), None)
