"""Claims on the problem itself: the generalisation function, and whether Eq. 13 can be solved."""

from __future__ import annotations

import numpy as np

from enlist.statistics import share
from enlist.studies.bsfl.further import growing_problems, spreads
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, Claim, Further, Verdict, shown
from enlist.studies.results import Results


def _generalisation(results: Results) -> Verdict:
    group = results["targets"]
    steepest, falling = max(group.each("steepest")), all(group.each("falling"))
    tried = len(group.seeds) * group.settings["populations"]
    above, largest = tried * group.column("above").mean(axis=0), float(group.column("largest").max())
    said = ", ".join(
        f"{shown(share(round(above[row]), tried), 2)} of populations with {k} of {clients}"
        for row, (clients, k) in enumerate(group.each("sizes")[0].tolist())
    )
    rising = "never rising" if falling else "rising somewhere"
    ours = f"Eq. 3: |g| up to {steepest:.2f}, {rising}; Eq. 4: g above 1 in {said}, up to {largest:.1f}"
    if not falling or steepest > 1.0:
        return Verdict(NOT, ours, "Eq. 3 itself leaves [−1, 1] or rises")
    if largest > 1.0:
        return Verdict(
            PARTLY, ours, "Eq. 3 is as said, Eq. 4 is not: whoever holds more than 1/m of the data is owed more"
        )
    return Verdict(REPRODUCED, ours, "both equations are as said")


def _spread(results: Results) -> str:
    group = results["targets/spread"]
    above, most = group.column("above").mean(axis=0), float(group.column("capped").max())
    said = []
    for row, (clients, k) in zip(above, group.settings["sizes"], strict=True):
        cells = [f"{one:.2f} at σ = {sigma:g}" for one, sigma in zip(row, group.settings["sigmas"], strict=True)]
        said.append(f"{k} of {clients} {', '.join(cells)}")
    return (
        "share of populations in which Eq. 4 exceeds 1, by how uneven the sizes are (σ of their logarithm): "
        f"{'; '.join(said)}. With targets min(1, c·d) that sum to m (water-filling, our selector's default) the "
        f"largest of all of them is {most:.2f}."
    )


def solver_milliseconds(results: Results) -> float:
    """How long the exact solver takes at the first size, 25 of 500 clients.

    >>> from enlist.studies.bsfl.example import example_results
    >>> 0 < solver_milliseconds(example_results()) < 1000
    True
    """
    return 1e3 * float(np.median(results["exact"].column("seconds")[:, 0]))


def _infeasible(results: Results) -> Verdict:
    group = results["exact"]
    wrong, tried = sum(group.each("wrong")), sum(group.each("instances"))
    clients, k = group.each("sizes")[0][0]
    taken = solver_milliseconds(results)
    ours = f"{k} of {clients}: the optimum in {taken:.1f} ms; {wrong} of {tried} small ones differ from brute force"
    if wrong:
        return Verdict(PARTLY, ours, "a sweep over sorted clients is quick, but was wrong somewhere")
    if taken < 1000.0:
        return Verdict(NOT, ours, "one sort and one sweep solve it exactly: no annealing is needed")
    return Verdict(REPRODUCED, ours, "it takes more than a second")


def _growth(results: Results) -> str:
    group = results["exact/growth"]
    every, sweep, far = (1e3 * np.median(group.column(name), axis=0) for name in ("every", "sweep", "far"))
    said = ", ".join(
        f"{k} of {n} {one:.1f} ms against {other:.2f} ms"
        for one, other, (n, k) in zip(every, sweep, group.settings["small"], strict=True)
    )
    more = ", ".join(f"{k:,} of {n:,} {one:.1f} ms" for one, (n, k) in zip(far, group.settings["large"], strict=True))
    return (
        f"trying every set against the sweep: {said}; the sweep where nobody can try every set: {more}. It grows as "
        "n log n, not as the number of sets."
    )


PROBLEM = (
    Claim(
        key="generalisation",
        title="g lies in [−1, 1] and falls with every selection",
        text="The generalisation function maps to [−1, 1], is positive below a client's share, zero at it and "
        "negative above, and never rises.",
        source="Section III-B, Eqs. 3 and 4, Fig. 2",
        paper="g in [−1, 1]",
        margin="Eq. 3 for beta 1 to 5, and Eq. 4 in populations with lognormal sizes, never leave [−1, 1]; partly if "
        "Eq. 4 does",
        rule=_generalisation,
        further=Further("a client with more than 1/m of the data", spreads, _spread),
    ),
    Claim(
        key="infeasible",
        title="Solving Eq. 13 directly is infeasible",
        text="Finding the best set costs C(K, m) by deterministic methods, for 25 of 500 clients about 2^139: a "
        "heuristic is needed.",
        source="Sections IV-B and V, Fig. 4",
        paper="about 2^139 sets",
        margin="not, if a method that agrees with brute force on every small instance takes less than a second",
        rule=_infeasible,
        further=Further("a minimum plus a sum is solved by a sweep over sorted clients", growing_problems, _growth),
    ),
)
