"""Settings: data, training, every rule and what is varied in it, and the scales.

The thesis prints neither widths, learning rate, batch size nor how alike its workers are. They were chosen on seeds
3000 to 3002, which no verdict rests on, so that curves rise as its Figure 8 has them (the best pair from about 0.63 to
0.72 within 15 rounds), the best pair gains from the first rounds on (Figure 9), and the target alone is ahead when it
has ten times the data.
"""

from __future__ import annotations

from typing import Any

from enlist.studies.rules import Arm
from enlist.studies.study import Scale

LIKENESS = [0.5, 1.0, 0.7, -0.3]
"""Cosine between what is right for each worker and for worker 2, the target."""
TELECOM = {"name": "telecom", "difficulty": 0.3, "likeness": LIKENESS}
MODEL = {"name": "thesis", "hidden": [32, 16, 8], "deviation": 0.2}
TRAINING = {"lr": 0.05, "momentum": 0.9, "batch": 20}
TARGET, EPOCHS = "2", 6
FIRST_SEED = 2_000
"""Nothing was chosen on the seeds from here on; verdicts of before had others."""
ONE_DATA_SET = 1
"""Data seed of what the thesis ran on one data set: of seeds 1 to 4 the first on which 0110 is the best pair."""

CODES = ("0110", "1100", "0101", "0100", "1111")
"""Combinations held fixed: the pairs with the target, the target alone, and all (federated averaging)."""
PAIRS, BEST, SECOND, ALONE, ALL = ("1100", "0110", "0101"), "0110", "1100", "0100", "1111"
LABELS = {BEST: "0110 fixed", SECOND: "1100 fixed", "0101": "0101 fixed", ALONE: "target alone", ALL: "FedAvg"}

EPSILONS, BONUSES, THRESHOLDS, DISCOUNTS = (0.1, 0.2, 0.5), (0.01, 0.05, 0.1), (0.01, 0.025, 0.05), (0.5, 0.75, 1.0)
STEPS: tuple[float | None, ...] = (0.25, 0.5, 0.75, None)
"""Weight α of the latest reward; None for plain means (stationary rewards)."""
RECENT = (0.25, 0.5, 0.75)
AMOUNTS = (0.5, 1, 2, 5, 10, 20)
"""Training data of the sweep, as multiples of the scale's share."""
MOST_SHARE = 0.4
RESIDUALS = {BEST: (0.018, 0.020), SECOND: (0.023, 0.019), "0101": (0.020, 0.013)} | {
    ALONE: (0.013, 0.013),
    ALL: (0.020, 0.014),
}
"""Table 2 of the thesis: standard deviation of residuals with 4 and 6 epochs per round."""


def fixed(code: str, epochs: int = EPOCHS, data: str = "drawn") -> Arm:
    """A combination held fixed, on data drawn anew for each seed (`drawn`) or on one data set (`one`).

    >>> fixed("0110"), fixed("1111", 4, "one").key
    (Arm(key='drawn/0110-6', name='0110 fixed', more=()), 'one/1111-4')
    """
    return Arm(f"{data}/{code}-{epochs}", LABELS[code] if epochs == EPOCHS else f"{LABELS[code]}, {epochs} epochs")


def step_name(step: float | None) -> str:
    """How the mean of rewards is taken.

    >>> step_name(0.75), step_name(None)
    ('α = 0.75', 'stationary')
    """
    return "stationary" if step is None else f"α = {step:g}"


def greedy(epsilon: float, step: float | None) -> Arm:
    """ε-greedy.

    >>> greedy(0.2, None)
    Arm(key='grid/greedy-e0.2-stationary', name='ε = 0.2, stationary', more=())
    """
    return Arm(f"grid/greedy-e{epsilon:g}-{_step_key(step)}", f"ε = {epsilon:g}, {step_name(step)}")


def ucb(c: float, step: float | None) -> Arm:
    """UCB with continuous rewards.

    >>> ucb(0.05, 0.75).key
    'grid/ucb-c0.05-a0.75'
    """
    return Arm(f"grid/ucb-c{c:g}-{_step_key(step)}", f"c = {c:g}, {step_name(step)}")


def thompson(threshold: float, gamma: float) -> Arm:
    """Thompson sampling (γ = 1), and discounted.

    >>> thompson(0.025, 1.0).key
    'grid/thompson-t0.025-g1'
    """
    return Arm(f"grid/thompson-t{threshold:g}-g{gamma:g}", f"threshold {threshold:g}, γ = {gamma:g}")


def explore_binary(threshold: float) -> Arm:
    """Extreme Explore with binary rewards.

    >>> explore_binary(0.05).key
    'grid/explore-binary-t0.05'
    """
    return Arm(f"grid/explore-binary-t{threshold:g}", f"Extreme Explore, threshold {threshold:g}")


def _step_key(step: float | None) -> str:
    return "stationary" if step is None else f"a{step:g}"


def together(name: str, *arms: Arm) -> Arm:
    """Arms that are looked at together: a measure takes the mean over them, or says what it makes of them.

    >>> together("UCB", ucb(0.01, None), ucb(0.05, None)).more
    ('grid/ucb-c0.05-stationary',)
    """
    keys = [key for arm in arms for key in arm.keys]
    return Arm(keys[0], name, tuple(keys[1:]))


EXPLORE, EXPLORE_BINARY = Arm("grid/explore", "Extreme Explore"), explore_binary(0.05)
UCB = Arm(ucb(0.05, 0.75).key, "UCB")
UCB_BINARY, UCB_BINARY_STATIONARY = (Arm(f"grid/ucb-binary-{_step_key(step)}", "UCB, binary") for step in (0.75, None))
GREEDY, THOMPSON = Arm(greedy(0.2, 0.75).key, "ε-greedy"), Arm(thompson(0.025, 0.75).key, "Thompson sampling")
FINAL = (EXPLORE, Arm(EXPLORE_BINARY.key, "Extreme Explore, binary"), UCB_BINARY, UCB, GREEDY, THOMPSON)
"""The rules of Figure 19, with the settings that the thesis found best."""
DELAYED = Arm("more/explore-delayed", "Extreme Explore, delayed")
RELATIVE, PREVIOUS = (Arm(f"more/ucb-{name}", f"UCB, {name}") for name in ("relative", "previous"))
POISONED = {rule: Arm(f"more/poison-{rule}", name) for rule, name in (("ucb", "UCB"), ("explore", "Extreme Explore"))}


def held(code: str) -> dict[str, Any]:
    """The rule that always plays this combination.

    >>> held("0100"), held("0110")
    ({'kind': 'fixed', 'combination': 'alone'}, {'kind': 'fixed', 'combination': ['2', '3']})
    """
    members = [str(place + 1) for place, flag in enumerate(code) if flag == "1"]
    return {"kind": "fixed", "combination": {ALONE: "alone", ALL: "all"}.get(code) or members}


def _mean(step: float | None) -> dict[str, Any]:
    return {"stationary": True} if step is None else {"step": step}


def _binary(threshold: float) -> dict[str, Any]:
    return {"kind": "binary", "threshold": threshold}


def _discounted(gamma: float) -> dict[str, Any]:
    return {"kind": "discounted-thompson", "gamma": gamma} if gamma < 1 else {"kind": "thompson"}


EXTREME, BEST_UCB = {"kind": "extreme-explore"}, {"kind": "ucb", "c": 0.05, "step": 0.75}
GRID: dict[str, dict[str, Any]] = {
    **{
        greedy(e, s).key: {"rule": {"kind": "epsilon-greedy", "epsilon": e, **_mean(s)}}
        for e in EPSILONS
        for s in STEPS
    },
    **{ucb(c, s).key: {"rule": {"kind": "ucb", "c": c, **_mean(s)}} for c in BONUSES for s in STEPS},
    **{thompson(t, g).key: {"rule": _discounted(g), "reward": _binary(t)} for t in THRESHOLDS for g in DISCOUNTS},
    **{explore_binary(t).key: {"rule": EXTREME, "reward": _binary(t)} for t in THRESHOLDS},
    UCB_BINARY.key: {"rule": BEST_UCB, "reward": _binary(0.025)},
    UCB_BINARY_STATIONARY.key: {"rule": {"kind": "ucb", "c": 0.05, **_mean(None)}, "reward": _binary(0.025)},
    EXPLORE.key: {"rule": EXTREME},
}
"""Key -> rule and reward: Table 3 of the thesis."""
_FLIPPED = [{"kind": "label-flip", "share": 1.0, "workers": ["3"]}]
MORE: dict[str, dict[str, Any]] = {
    DELAYED.key: {"rule": {**EXTREME, "delayed": True}},
    "more/explore-bayesian": {"rule": {"kind": "bayesian-extreme-explore"}, "reward": _binary(0.05)},
    RELATIVE.key: {"rule": BEST_UCB, "reward": {"kind": "relative"}},
    PREVIOUS.key: {"rule": BEST_UCB, "reward": {"kind": "increment", "against": "previous"}},
    POISONED["ucb"].key: {"rule": BEST_UCB, "poison": _FLIPPED},
    POISONED["explore"].key: {"rule": EXTREME, "poison": _FLIPPED},
}
"""What the thesis argues about beyond its grid."""
BEYOND = {
    DELAYED.key: DELAYED.name,
    "more/explore-bayesian": "Extreme Explore, Bayesian, binary",
    RELATIVE.key: RELATIVE.name,
    PREVIOUS.key: "UCB, against the last round",
    POISONED["ucb"].key: "UCB, labels of worker 3 flipped",
    POISONED["explore"].key: "Extreme Explore, labels of worker 3 flipped",
}
"""Key -> its name in a table."""
_STRANGER, _SLOW = {"likeness": [*LIKENESS[:3], 0.2]}, {"lr": 0.01}
FURTHER: dict[str, dict[str, Any]] = {
    **{f"further/stranger-{code}": {"rule": held(code), "dataset": _STRANGER} for code in (BEST, ALONE, ALL)},
    "further/closer-1100": {"rule": held(SECOND), "dataset": {"likeness": [0.7, *LIKENESS[1:]]}},
    "further/slow-recent": {"rule": BEST_UCB, "training": _SLOW},
    "further/slow-stationary": {"rule": {"kind": "ucb", "c": 0.05, **_mean(None)}, "training": _SLOW},
    "further/thompson-median": {"rule": _discounted(0.75), "reward": {"kind": "quantile", "q": 0.5, "minimum": 1}},
    **{f"further/ucb-binary-c{c:g}": {"rule": {**BEST_UCB, "c": c}, "reward": _binary(0.025)} for c in (0.2, 0.5, 1.0)},
    "further/delayed-binary": {"rule": {**EXTREME, "delayed": True}, "reward": _binary(0.05)},
    "further/optimistic": {"rule": {"kind": "epsilon-greedy", "epsilon": 0.2, "step": 0.75, "initial": 0.25}},
    "further/poison-sign-flip": {"rule": BEST_UCB, "poison": [{"kind": "sign-flip", "workers": ["1"]}]},
    "further/poison-noise": {"rule": BEST_UCB, "poison": [{"kind": "noise-features", "workers": ["1"]}]},
    "further/long-1100": {"rule": held(SECOND), "rounds": 2.0},
    **{
        f"further/one/{code}-{epochs}": {"rule": held(code), "epochs": epochs, "data_seed": ONE_DATA_SET}
        for epochs in (2, 12)
        for code in CODES
    },
    **{
        f"further/drawn/{code}-{epochs}": {"rule": held(code), "epochs": epochs} for epochs in (2, 12) for code in CODES
    },
}
"""What unclear claims call for; `rounds` is a factor."""

SCALES = {
    "smoke": Scale(
        "smoke",
        2,
        {"rows": 1200, "share": 0.06, "rounds": 3, "core": 1, "pictures": "digits"},
        "a check that it runs",
    ),
    "laptop": Scale(
        "laptop",
        20,
        {"rows": 40_000, "share": 0.01, "rounds": 20, "core": 2, "pictures": "digits"},
        "the thesis's grid with 20 experiments per setting, 40 of the rules that are compared in the end: half an hour "
        "on two cores",
    ),
    "paper": Scale(
        "paper",
        50,
        {"rows": 40_000, "share": 0.01, "rounds": 25, "core": 2, "pictures": "fashion-mnist"},
        "the same with 50 and 100 experiments, and Fashion-MNIST for the second data set",
    ),
}


def further_seeds(scale: Scale) -> range:
    """Seeds of what unclear claims call for; one where it is only to be seen that it runs.

    >>> further_seeds(SCALES["smoke"]), further_seeds(SCALES["laptop"])
    (range(2000, 2001), range(2000, 2020))
    """
    return seeds_of(scale)[:1] if scale.name == "smoke" else seeds_of(scale)


def seeds_of(scale: Scale, core: bool = False) -> range:
    """Seeds of a scale; the rules that are compared in the end (`core`) have more.

    >>> seeds_of(SCALES["laptop"]), seeds_of(SCALES["laptop"], core=True)
    (range(2000, 2020), range(2000, 2040))
    """
    return range(FIRST_SEED, FIRST_SEED + scale.seeds * (scale.settings["core"] if core else 1))
