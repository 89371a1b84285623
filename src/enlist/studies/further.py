"""Further experiments that suit every claim: the same settings again with fresh seeds, or a closer look and no more."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from enlist.studies.claims import FollowUp, Verdict
from enlist.studies.results import Results
from enlist.studies.study import Experiment, Scale

AGAIN = "again/"
FRESH = 500
"""What a replication adds to seeds: no study has so many that they would meet."""


def nothing(scale: Scale) -> Sequence[Experiment]:
    """No more experiments: what was run already can tell.

    >>> from enlist.studies.example import COINS
    >>> nothing(COINS.scale("smoke"))
    ()
    """
    return ()


def replicated(
    experiments: Callable[[Scale], Sequence[Experiment]],
    keys: Sequence[str],
    rule: Callable[[Results], Verdict],
    cause: str = "the luck of these seeds",
) -> FollowUp:
    """The experiments of `keys` again with as many fresh seeds, judged by the same rule.

    >>> from enlist.studies.example import COINS
    >>> claim = COINS.claims[0]
    >>> further = replicated(COINS.experiments, ["fair", "bent"], claim.rule)
    >>> [(each.key, each.seed) for each in further.experiments(COINS.scale("smoke"))][::3]
    [('again/fair', 500), ('again/bent', 500)]
    """

    def wanted(scale: Scale) -> Sequence[Experiment]:
        return [
            dataclasses.replace(each, key=f"{AGAIN}{each.key}", seed=FRESH + each.seed)
            for each in experiments(scale)
            if each.key in keys
        ]

    def reading(results: Results) -> str:
        verdict = rule(results.below(AGAIN))
        return f"as many experiments with fresh seeds give {verdict.ours}, by the same rule: {verdict.kind}."

    return FollowUp(cause, wanted, reading)


def looked_at(
    cause: str,
    rules: Mapping[str, Callable[[Results], Verdict]],
    experiments: Callable[[Scale], Sequence[Experiment]] = nothing,
) -> FollowUp:
    """What other rules come to, on more experiments or on those that were run anyway; `rules` have names to be read.

    >>> from enlist.studies.example import COINS
    >>> further = looked_at("the coin", {"again, bent − fair": lambda results: Verdict("partly", "-3 heads", "")})
    >>> further.reading(Results({}))
    'again, bent − fair: -3 heads.'
    """

    def reading(results: Results) -> str:
        return "; ".join(f"{name}: {rule(results).ours}" for name, rule in rules.items()) + "."

    return FollowUp(cause, experiments, reading)
