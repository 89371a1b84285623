"""The study of FedCor: its federations are the authors', and its claims come out as curves are made."""

from __future__ import annotations

import numpy as np
import pytest

from enlist.selectors import method
from enlist.selectors.fedcor import FedCorSettings
from enlist.simulation import Config
from enlist.simulation.population import build
from enlist.studies import fedcor
from enlist.studies.claims import NOT, REPRODUCED
from enlist.studies.fedcor import STUDY
from enlist.studies.results import Output, Replicates, Results

SPEEDS = {"random": 1.0, "afl": 1.05, "pow-d": 1.1, "fedcor": 1.6}


def results(speeds: dict[str, float], rounds: int = 200) -> Results:
    """Straight lines to 0.7 and a bit more for each seed, each with a speed of its own."""
    groups = {}
    for place in fedcor.PARTITIONS:
        for name, speed in speeds.items():
            outputs = {}
            for seed in range(4):
                steps = np.arange(1, rounds + 1) * (speed + 0.001 * seed) / rounds
                accuracy = (0.7 + 0.001 * seed) * np.minimum(steps, 1.0)
                arrays = {"accuracy": accuracy, "loss": 1 - accuracy, "end": np.arange(1.0, rounds + 1)}
                outputs[seed] = Output({}, arrays | {"selected": np.ones(100)}, 1.0)
            groups[f"{place}/{name}"] = Replicates(f"{place}/{name}", {}, outputs)
    return Results(groups)


@pytest.mark.parametrize(("place", "classes"), [("2spc", 2), ("1spc", 1)])
def test_clients_are_equal_and_hold_as_many_shards_as_the_authors_give_them(place: str, classes: int) -> None:
    [experiment, *_] = [each for each in STUDY.experiments(STUDY.scale("smoke")) if each.key == f"{place}/fedcor"]
    population = build(Config(**experiment.settings["config"], seed=experiment.seed))
    assert len(population) == 100
    assert np.ptp(population.sizes) <= classes
    assert experiment.settings["config"]["data"]["client_test"] == 0.2
    assert method(experiment.settings["selector"]).settings == method("fedcor:paper").settings
    rounds, training = (experiment.settings["config"][part] for part in ("rounds", "training"))
    assert (rounds["k"], training["batch"], training["epochs"], training["weight_decay"]) == (5, 64, 3, 1e-4)
    assert experiment.settings["config"]["model"] == {"name": "mlp", "hidden": [64, 30], "dropout": 0.5}


def test_the_page_says_what_the_authors_ran() -> None:
    own = FedCorSettings(**method("fedcor:paper").settings)
    assert f"discount {own.discount}, memory {own.memory}" in STUDY.paper["methods"]
    assert f"with {own.warm_up} random rounds, a fit every {own.interval} rounds" in STUDY.paper["methods"]
    assert f"weight_decay {fedcor.WEIGHT_DECAY:.4f}" in STUDY.paper["local training"]


def test_claims_by_curves_that_are_as_the_paper_says() -> None:
    kinds = {claim.key: claim.rule(results(SPEEDS)).kind for claim in STUDY.claims}
    assert kinds == dict.fromkeys(("fastest", "random", "marginal", "accuracy"), REPRODUCED)


def test_claims_by_curves_that_are_not() -> None:
    kinds = {claim.key: claim.rule(results(SPEEDS | {"fedcor": 0.9, "pow-d": 1.5})).kind for claim in STUDY.claims}
    assert kinds["fastest"] == kinds["random"] == NOT
    assert kinds["marginal"] != REPRODUCED


def test_rules_say_what_they_ask() -> None:
    words = {claim.key: claim.rule.words() for claim in STUDY.claims}
    assert words["fastest"].count("FedCor against the best of random and AFL and Pow-d: first") == 3
    assert words["random"].count("random over FedCor, geometric mean: interval above 1, mean at least 1.272") == 3
    assert {each.seed for each in STUDY.experiments(STUDY.scale("laptop"))} == set(range(1200, 1208))


def test_figures_and_tables_of_what_there_is() -> None:
    assert [figure.name for figure in STUDY.figures(results(SPEEDS))] == ["accuracy", "loss"]
    [table] = STUDY.tables(results(SPEEDS))
    assert len(table.rows) == 12
