"""Keys of the study's experiments, and the rule and reward behind each: the grid of Table 3, and what is beyond it."""

from __future__ import annotations

from typing import Any

CODES = ("0110", "1100", "0101", "0100", "1111")
"""Fixed combinations: the pairs with the target (worker 2), the target alone, and all (federated averaging)."""
PAIRS = ("1100", "0110", "0101")
BEST, SECOND, ALONE, ALL = "0110", "1100", "0100", "1111"

EPSILONS = (0.1, 0.2, 0.5)
BONUSES = (0.01, 0.05, 0.1)
THRESHOLDS = (0.01, 0.025, 0.05)
DISCOUNTS = (0.5, 0.75, 1.0)
STEPS: tuple[float | None, ...] = (0.25, 0.5, 0.75, None)
"""Weight of the latest reward; None for plain means (stationary rewards)."""


def fixed(code: str, epochs: int = 6, group: str = "drawn") -> str:
    """Key of a combination held fixed: `drawn` for data drawn anew for each seed, `one` for one data set.

    >>> fixed("0110"), fixed("1111", 4, "one")
    ('drawn/0110-6', 'one/1111-4')
    """
    return f"{group}/{code}-{epochs}"


def _step(step: float | None) -> str:
    return "stationary" if step is None else f"a{step:g}"


def greedy(epsilon: float, step: float | None) -> str:
    """Key of ε-greedy.

    >>> greedy(0.2, 0.75), greedy(0.5, None)
    ('grid/greedy-e0.2-a0.75', 'grid/greedy-e0.5-stationary')
    """
    return f"grid/greedy-e{epsilon:g}-{_step(step)}"


def ucb(c: float, step: float | None) -> str:
    """Key of UCB with continuous rewards.

    >>> ucb(0.05, 0.75)
    'grid/ucb-c0.05-a0.75'
    """
    return f"grid/ucb-c{c:g}-{_step(step)}"


def thompson(threshold: float, gamma: float) -> str:
    """Key of Thompson sampling (gamma 1) and of discounted Thompson sampling.

    >>> thompson(0.025, 1.0)
    'grid/thompson-t0.025-g1'
    """
    return f"grid/thompson-t{threshold:g}-g{gamma:g}"


UCB_BINARY, UCB_BINARY_STATIONARY = "grid/ucb-binary-a0.75", "grid/ucb-binary-stationary"
EXPLORE, EXPLORE_BINARY = "grid/explore", "grid/explore-binary-t0.05"
FINAL = {
    "Extreme Explore": EXPLORE,
    "Extreme Explore, binary": EXPLORE_BINARY,
    "UCB, binary": UCB_BINARY,
    "UCB": ucb(0.05, 0.75),
    "ε-greedy": greedy(0.2, 0.75),
    "Thompson": thompson(0.025, 0.75),
}
"""The rules of the thesis's Figure 19, with the settings that it found best."""
BASELINES = {"best pair fixed": fixed(BEST), "FedAvg": fixed(ALL), "local only": fixed(ALONE)}


def grid() -> dict[str, dict[str, Any]]:
    """Key -> rule and reward, for every setting of Table 3.

    >>> len(grid()), grid()["grid/ucb-c0.05-stationary"]["rule"]
    (39, {'kind': 'ucb', 'c': 0.05, 'stationary': True})
    """
    found: dict[str, dict[str, Any]] = {}
    for step in STEPS:
        for epsilon in EPSILONS:
            found[greedy(epsilon, step)] = {"rule": {"kind": "epsilon-greedy", "epsilon": epsilon, **_mean(step)}}
        for c in BONUSES:
            found[ucb(c, step)] = {"rule": {"kind": "ucb", "c": c, **_mean(step)}}
    for threshold in THRESHOLDS:
        reward = {"kind": "binary", "threshold": threshold}
        for gamma in DISCOUNTS:
            discounted = {"kind": "discounted-thompson", "gamma": gamma}
            found[thompson(threshold, gamma)] = {
                "rule": discounted if gamma < 1 else {"kind": "thompson"},
                "reward": reward,
            }
        found[f"grid/explore-binary-t{threshold:g}"] = {"rule": {"kind": "extreme-explore"}, "reward": reward}
    binary = {"kind": "binary", "threshold": 0.025}
    for key, step in ((UCB_BINARY, 0.75), (UCB_BINARY_STATIONARY, None)):
        found[key] = {"rule": {"kind": "ucb", "c": 0.05, **_mean(step)}, "reward": binary}
    found[EXPLORE] = {"rule": {"kind": "extreme-explore"}}
    return found


def others() -> dict[str, dict[str, Any]]:
    """Key -> configuration of what the thesis argues about beyond its grid.

    >>> others()["more/pair-70-30"]["weights"]
    {'kind': 'target', 'share': 0.7}
    """
    best_ucb = {"kind": "ucb", "c": 0.05, "step": 0.75}
    poison = [{"kind": "label-flip", "share": 1.0, "workers": ["3"]}]
    return {
        "more/explore-delayed": {"rule": {"kind": "extreme-explore", "delayed": True}},
        "more/explore-bayesian": {
            "rule": {"kind": "bayesian-extreme-explore"},
            "reward": {"kind": "binary", "threshold": 0.05},
        },
        "more/ucb-relative": {"rule": best_ucb, "reward": {"kind": "relative"}},
        "more/ucb-previous": {"rule": best_ucb, "reward": {"kind": "increment", "against": "previous"}},
        "more/pair-70-30": {"rule": held(BEST), "weights": {"kind": "target", "share": 0.7}},
        "more/poison-ucb": {"rule": best_ucb, "poison": poison},
        "more/poison-explore": {"rule": {"kind": "extreme-explore"}, "poison": poison},
        **{
            f"more/target-3-{code}": {"rule": {"kind": "fixed", "combination": members(code)}, "target": "3"}
            for code in ("0110", "1010", "0011")
        },
    }


def members(code: str) -> list[str]:
    """Names of the workers of a combination.

    >>> members("0110")
    ['2', '3']
    """
    return [str(place + 1) for place, flag in enumerate(code) if flag == "1"]


def held(code: str) -> dict[str, Any]:
    """The rule that always plays this combination.

    >>> held("0100"), held("0110")
    ({'kind': 'fixed', 'combination': 'alone'}, {'kind': 'fixed', 'combination': ['2', '3']})
    """
    combination: str | list[str] = {ALONE: "alone", ALL: "all"}.get(code) or members(code)
    return {"kind": "fixed", "combination": combination}


def _mean(step: float | None) -> dict[str, Any]:
    return {"stationary": True} if step is None else {"step": step}
