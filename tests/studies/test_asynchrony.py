"""The study of asynchrony: equal numbers of updates, one clock, claims that say what they ask."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.simulation import Config
from enlist.studies import asynchrony
from enlist.studies.asynchrony import KEYS, PER_STEP, STUDY
from enlist.studies.claims import NOT, REPRODUCED
from enlist.studies.results import Output, Replicates, Results

SPEED = {"synchronous": 1.0, "over-committed": 1.2, "buffered": 2.5, "async": 1.0}


def results(selection=1.8, rounds=40):
    """Curves that rise to the same end, faster under some protocols and, by `selection`, with learned selectors."""
    groups = {}
    for protocol, name in KEYS:
        outputs = {}
        for seed in range(4):
            speed = SPEED[protocol] * (1.0 if name == "random" else selection) * (1 + 0.01 * seed)
            accuracy = 0.7 * np.minimum(np.arange(1, rounds + 1) / rounds, 1.0)
            end = np.arange(1.0, rounds + 1) * 100.0 / speed
            outputs[seed] = Output({}, {"accuracy": accuracy, "end": end}, 1.0)
        groups[f"{protocol}/{name}"] = Replicates(f"{protocol}/{name}", {}, outputs)
    return Results(groups)


@pytest.mark.parametrize("scale", ["smoke", "laptop", "paper"])
def test_every_protocol_merges_as_many_updates(scale):
    own = dict(STUDY.scale(scale).settings)
    found = {name: Config(**asynchrony.config(name, own)) for name in PER_STEP}
    updates = {config.rounds.rounds * PER_STEP[name] for name, config in found.items()}
    between = {config.evaluation.every * PER_STEP[name] for name, config in found.items()}
    assert updates == {own["rounds"] * asynchrony.K}
    assert between == {asynchrony.K}
    assert {config.rounds.at_work for config in found.values()} == {asynchrony.K}
    assert {name: config.rounds.asked for name, config in found.items() if name != "over-committed"} == {
        "synchronous": 20,
        "buffered": 20,
        "async": 20,
    }
    assert found["over-committed"].rounds.asked == 26
    assert found["buffered"].rounds.per_step == asynchrony.BUFFER


def test_claims_by_curves_that_are_as_the_papers_say():
    kinds = {claim.key: claim.rule(results()).kind for claim in STUDY.claims}
    assert kinds == dict.fromkeys(kinds, REPRODUCED)
    assert len(kinds) == 6
    kinds = {claim.key: claim.rule(results(selection=0.9)).kind for claim in STUDY.claims}
    assert (kinds["selection"], kinds["pisces"]) == (NOT, NOT)


def test_rules_say_what_they_ask():
    words = {claim.key: claim.rule.words() for claim in STUDY.claims}
    assert (
        "async random over buffered random, geometric mean: interval above 1, mean at least 2 times"
        in words["fedasync"]
    )
    assert "mean at least 1.52 times" in words["pisces"], "four fifths of the paper's 1.9"
    assert "mean at least 1.1 times" in words["selection"]
    assert "buffered oort" in words["over-commitment"]
    assert "over-committed oort" in words["over-commitment"]
    assert "interval above -1 point" in words["accuracy"]
    assert "-1 points" not in words["accuracy"]


def test_seeds_are_not_those_on_which_anything_is_chosen():
    assert {each.seed for each in STUDY.experiments(STUDY.scale("laptop"))} == set(range(1200, 1210))


def test_figures_and_tables_of_what_there_is():
    assert [figure.name for figure in STUDY.figures(results())] == ["accuracy"]
    [table] = STUDY.tables(results())
    assert len(table.rows) == len(KEYS)
    hours = {(row["protocol"], row["selector"]): row["hours to the target"] for row in table.rows}
    assert hours["synchronous", "random"] / hours["buffered", "random"] == pytest.approx(2.5)
