"""Rules that judge what the paper says of the selection process, and its theorems."""

from __future__ import annotations

import math

import numpy as np

from enlist import selectors
from enlist._internal.statistics import Summary, paired_difference
from enlist._internal.statistics import share as share_of
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, Verdict, counted, leads, shown, together
from enlist.studies.fedsuv.measures import (
    CLEAN,
    covered_runs,
    eliminated_share,
    gone,
    growth,
    leaving,
    misjudged,
    objective,
    selected_mean,
    staying,
    wrongly,
)
from enlist.studies.fedsuv.methods import PRINTED, title
from enlist.studies.fedsuv.paper import DELTA
from enlist.studies.fedsuv.theory import DIAGONAL, regret_bound, width_bound
from enlist.studies.fedsuv.training_rules import VALUED, readings
from enlist.studies.results import Group, Results

THIRTY, AROUND = 0.3, 0.1
"""The paper's 30 of 100 rounds, and how far around it still counts."""
HIGH = 0.75
"""Mean validity and utility that put a selection into the upper right corner."""
SUBLINEAR = 0.9
"""Exponent below which regret is called sublinear."""


def leave_early(results: Results) -> Verdict:
    """Clients with validity below 0.4 leave the candidate set after about 30 of 100 rounds.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> leave_early(example_results()).kind
    'reproduced'
    """
    group = _printed(results)
    rounds = group.settings["rounds"]
    low, others = leaving(group), staying(group)
    ours = f"{shown(low, 1)} of {rounds} rounds; all others {shown(others, 1)}"
    early, late = (THIRTY - AROUND) * rounds, (THIRTY + AROUND) * rounds
    if low.mean > late or others.mean < 1.5 * low.mean:
        return Verdict(NOT, ours, f"they stay more than {late:g} rounds, or nearly as long as the others")
    if not early <= low.low <= low.high <= late:
        where = (
            f"before round {early:g}" if low.mean < early else f"not certainly between {early:g} and {late:g} rounds"
        )
        return Verdict(PARTLY, ours, f"they leave, but {where}")
    return Verdict(REPRODUCED, ours, f"it is between {early:g} and {late:g} rounds, and the others stay longer")


def low_are_excluded(results: Results) -> Verdict:
    """Clients with low validity are systematically excluded: 95 % of them are gone in the end.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> low_are_excluded(example_results()).kind
    'reproduced'
    """
    return counted(gone(_printed(results)), 0.95, "of those with validity below 0.4")


def upper_right(results: Results) -> Verdict:
    """Those selected have high validity and high utility.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> upper_right(example_results()).kind in (REPRODUCED, PARTLY)
    True
    """
    group = _printed(results)
    found = together({of: counted(selected_mean(group, of), HIGH) for of in ("validity", "utility")})
    return found._replace(why=found.why.replace("the share", "the mean"))


def most_valid_utility(results: Results) -> Verdict:
    """FedSUV collects more valid utility than any other selector.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> most_valid_utility(example_results()).kind in (REPRODUCED, PARTLY, NOT)
    True
    """

    def worth(name: str) -> dict[int, float]:
        group = results[f"{CLEAN}{name}"]
        return dict(zip(group.seeds, objective(group).tolist(), strict=True))

    others = {name: worth(name) for name in selectors.BUILT_IN if f"{CLEAN}{name}" in results and name != "fedsuv"}

    def judge(name: str) -> Verdict:
        own = worth(name)
        seeds = sorted(set(own).intersection(*others.values()))
        values = {rival: [known[seed] for seed in seeds] for rival, known in others.items()}
        mine = [own[seed] for seed in seeds]
        gaps = {rival: paired_difference(mine, theirs) for rival, theirs in values.items()}
        means = {rival: float(np.mean(theirs)) for rival, theirs in values.items()}
        return leads(title(name), {**means, title(name): float(np.mean(mine))}, gaps, VALUED)

    found = readings(judge)
    seeds = set(worth(PRINTED)).intersection(*others.values())
    idle = sum(results[f"{CLEAN}{name}"].column("selected").max() <= 1 for name in others)
    note = f"{len(seeds)} seeds that all share; {idle} of the {len(others)} others never ask anybody twice"
    return found._replace(ours=f"{found.ours} ({note})", brief=f"{found.brief} ({note})")


def eliminated(results: Results) -> Verdict:
    """Theorem 5.1: who is certainly less valid, by the margin of the theorem, is eliminated.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> eliminated(example_results()).kind
    'not'
    """
    found = eliminated_share(_printed(results))
    if math.isnan(found.mean):
        return Verdict(REPRODUCED, "nobody meets the condition", "the theorem asks for nothing here")
    return counted(found, 1.0 - DELTA / 2, "of those who meet the condition, in the round in which they do", digits=3)


def rightly_eliminated(results: Results) -> Verdict:
    """The converse of Theorem 5.1: who is eliminated is less valid than the client it was compared with.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> rightly_eliminated(example_results()).kind
    'reproduced'
    """
    wrong = wrongly(_printed(results))
    right = Summary(1.0 - wrong.mean, 1.0 - wrong.high, 1.0 - wrong.low)
    return counted(right, 1.0 - DELTA / 2, "of the eliminated")._replace(ours=f"{_percent(wrong)} wrongly eliminated")


def rightly_pruned(results: Results) -> Verdict:
    """Theorem 5.2: who is removed by the Pareto step is dominated.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> rightly_pruned(example_results()).kind
    'reproduced'
    """
    wrong = misjudged(_printed(results))
    right = Summary(1.0 - wrong.mean, 1.0 - wrong.high, 1.0 - wrong.low)
    return counted(right, 1.0 - DELTA, "of the pruned")._replace(ours=f"{_percent(wrong)} of the pruned are optimal")


def covered(results: Results) -> Verdict:
    """Theorem 5.3: with probability 1 − δ all true pairs lie in their rectangles, in every round.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> covered(example_results()).kind
    'not'
    """
    group = _printed(results)
    inside = float(group.column("covered")[:, -1, 2].mean())
    verdict = counted(covered_runs(group), 1.0 - DELTA, "of the runs")
    return verdict._replace(ours=f"{verdict.ours}; in the last round {inside:.1%} of the clients are covered")


def narrow(results: Results) -> Verdict:
    """Theorem 5.4: the widest rectangle shrinks from round to round, and stays below the bound.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> narrow(example_results()).kind in (REPRODUCED, PARTLY)
    True
    """
    group = _printed(results)
    width = group.column("width")
    bound = np.array([width_bound(terms) for terms in group.column("terms")])
    falls = share_of(int((np.diff(width, axis=1) <= 1e-9).sum()), max(np.diff(width, axis=1).size, 1))
    ours = f"{width[:, -1].mean():.2f} in the last round, bound {bound[:, -1].mean():.2f}"
    if (width > bound).any():
        below = Verdict(NOT, ours, "the bound is exceeded")
    elif bound[:, -1].mean() >= DIAGONAL:
        below = Verdict(PARTLY, ours, f"it holds, but the bound exceeds {DIAGONAL:.2f}, which no rectangle can")
    else:
        below = Verdict(REPRODUCED, ours, f"it holds, and the bound is below {DIAGONAL:.2f}, the most possible")
    return together({"bound": below, "shrinks": counted(falls, 0.99, "of the rounds")})


def little_regret(results: Results) -> Verdict:
    """Theorem 5.5: regret stays below its bound, and grows sublinearly.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> little_regret(example_results()).kind in (REPRODUCED, PARTLY)
    True
    """
    group = _printed(results)
    lost, rounds, k = group.column("front").sum(axis=1), group.settings["rounds"], group.settings["k"]
    rows = zip(group.column("terms"), group.column("gap"), strict=True)
    bound = np.array([regret_bound(terms, k, float(gap))[-1] for terms, gap in rows])
    ours = f"{lost.mean():.2f} after {rounds} rounds, bound {np.median(bound):.1e}"
    if (lost > bound).any():
        below = Verdict(NOT, ours, "the bound is exceeded")
    elif (bound >= rounds).any():
        below = Verdict(PARTLY, ours, f"it holds, but no policy can lose more than {rounds}")
    else:
        below = Verdict(REPRODUCED, ours, "it holds, and it is below what any policy could lose")
    exponent = growth(group)
    high = exponent.mean if math.isnan(exponent.high) else exponent.high
    kind = REPRODUCED if high < SUBLINEAR else PARTLY if exponent.mean < SUBLINEAR else NOT
    sign = "lies" if kind == REPRODUCED else "does not lie"
    grows = Verdict(kind, f"exponent {shown(exponent, 2)}", f"the interval {sign} below {SUBLINEAR:g}")
    return together({"bound": below, "growth": grows})


def _percent(share: Summary) -> str:
    return f"{shown(Summary(100.0 * share.mean, 100.0 * share.low, 100.0 * share.high))} %"


def _printed(results: Results) -> Group:
    return results[f"{CLEAN}{PRINTED}"]
