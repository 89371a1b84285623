"""A constructed task with a known best combination: rules find it, and stay away from poisonous workers."""

from __future__ import annotations

from typing import Any

import pytest

from enlist.personal import Personalisation
from tests.personal.personal_helpers import config, task

SEEDS = 20
EIGHT_PAIRS = [1.0, 0.3, 0.0, -0.3, 0.95, 0.5, 0.2, -0.5, 0.4]
"""Likeness of nine workers to the target w0: w4 is its best partner."""
RULES = {"ucb": 25, "extreme-explore": 10}
"""Rule -> rounds."""


def learned(seed: int, rule: str, likeness: list[float], **sections: Any) -> str:
    rounds = {"rounds": RULES[rule], "epochs": 6, "pretrain": 6}
    settings = config(seed=seed, rule=rule, rounds=rounds, **sections)
    workers = task(likeness, seed, poison=settings.poison, test=50)
    return str(Personalisation(settings, workers=workers).run()["combination"])


@pytest.mark.verify
@pytest.mark.parametrize("rule", RULES)
def test_the_best_of_eight_pairs_is_named_in_at_least_18_of_20_seeds(rule: str) -> None:
    named = [learned(seed, rule, EIGHT_PAIRS, model={"name": "logistic"}) for seed in range(SEEDS)]
    assert sum(name == "w0+w4" for name in named) >= 18, named


@pytest.mark.verify
@pytest.mark.parametrize("rule", RULES)
def test_poisonous_workers_are_in_the_final_combination_of_no_seed(rule: str) -> None:
    """w1 and w4 are like the target and would be good partners; poison, five seeds of each kind, spoils that."""
    likeness = [1.0, 0.9, 0.3, 0.95, 0.9, 0.5, 0.2, 0.4]
    kinds = [
        {"kind": "label-flip"},
        {"kind": "noise-features", "scale": 5.0},
        {"kind": "sign-flip"},
        {"kind": "scaled", "factor": 20.0},
    ]
    for seed in range(SEEDS):
        poison = {**kinds[seed % len(kinds)], "workers": ["w1", "w4"]}
        name = learned(seed, rule, likeness, poison=[poison])
        assert not {"w1", "w4"} & set(name.split("+")), (seed, poison, name)


def test_without_the_poison_they_would_be_chosen() -> None:
    likeness = [1.0, 0.95, 0.3, 0.4, 0.95, 0.5, 0.2, 0.4]
    named = [learned(seed, "extreme-explore", likeness, model={"name": "logistic"}) for seed in range(5)]
    assert all({"w1", "w4"} & set(name.split("+")) for name in named), named
