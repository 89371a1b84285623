"""The study of Power-of-Choice: its federations are the paper's, its claims say what they ask, and it stays small."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.selectors import method
from enlist.simulation import Config
from enlist.simulation.population import build
from enlist.studies import power_of_choice
from enlist.studies.claims import NOT, REPRODUCED
from enlist.studies.power_of_choice import STUDY
from enlist.studies.results import Output, Replicates, Results


def results(strong=0.0, rounds=40):
    """Curves that rise with a speed and to an end of their own; larger d is faster, by `strong` more accurate."""
    speeds = {"random": 1.0, "pow-6": 2.0, "pow-9": 2.5, "pow-15": 3.0}
    groups = {}
    for skew in power_of_choice.SKEWS:
        for name, speed in speeds.items():
            outputs = {}
            for seed in range(4):
                ends = 0.7 + 0.001 * seed + (strong if name != "random" else 0.0)
                accuracy = ends * np.minimum(np.arange(1, rounds + 1) * speed / rounds, 1.0)
                arrays = {"accuracy": accuracy, "loss": 1 - accuracy, "end": np.arange(1.0, rounds + 1)}
                outputs[seed] = Output({}, arrays | {"selected": np.ones(100)}, 1.0)
            groups[f"{skew}/{name}"] = Replicates(f"{skew}/{name}", {}, outputs)
    return Results(groups)


def test_clients_are_equal_and_differ_in_their_labels_alone():
    experiment = STUDY.experiments(STUDY.scale("smoke"))[0]
    population = build(Config(**experiment.settings["config"], seed=experiment.seed))
    assert len(population) == 100
    assert np.ptp(population.sizes) <= 1
    assert [method(each).settings.get("d") for each in power_of_choice.METHODS.values()] == [None, 6, 9, 15]


def test_claims_by_curves_that_are_as_the_paper_says():
    kinds = {claim.key: claim.rule(results(strong=0.1)).kind for claim in STUDY.claims}
    assert kinds == dict.fromkeys(("faster", "accuracy", "candidates", "skew"), REPRODUCED)
    kinds = {claim.key: claim.rule(results(strong=-0.05)).kind for claim in STUDY.claims}
    assert (kinds["accuracy"], kinds["skew"]) == (NOT, NOT)


def test_rules_say_what_they_ask():
    words = {claim.key: claim.rule.words() for claim in STUDY.claims}
    assert words["accuracy"].count("d = 6 − random: interval above 0, mean at least 2 points") == 2
    assert "random's over d = 15's, geometric mean: interval above 1, mean at least 1.1 times" in words["faster"]


def test_figures_and_tables_of_what_there_is():
    assert [figure.name for figure in STUDY.figures(results())] == ["accuracy", "loss"]
    [table] = STUDY.tables(results())
    assert len(table.rows) == 8
    assert table.rows[0]["rounds to the target"] == pytest.approx(37.5, abs=1.0)
