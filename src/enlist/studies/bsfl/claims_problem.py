"""Claims on the problem itself: the generalisation function, and whether Eq. 13 can be solved."""

from __future__ import annotations

import numpy as np

from enlist.statistics import share
from enlist.studies.bsfl.further import nothing
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


def _capped(results: Results) -> str:
    most = float(results["targets"].column("capped").max())
    return f"with targets min(1, c·d) that sum to m (water-filling, as our selector has it) the largest is {most:.2f}."


def _infeasible(results: Results) -> Verdict:
    group = results["exact"]
    wrong, tried = sum(group.each("wrong")), sum(group.each("instances"))
    clients, k = group.each("sizes")[0][0]
    taken = 1e3 * float(np.median(group.column("seconds")[:, 0]))
    ours = f"{k} of {clients}: the optimum in {taken:.1f} ms; {wrong} of {tried} small ones differ from brute force"
    if wrong:
        return Verdict(PARTLY, ours, "a sweep over sorted clients is quick, but was wrong somewhere")
    if taken < 1000.0:
        return Verdict(NOT, ours, "one sort and one sweep solve it exactly: no annealing is needed")
    return Verdict(REPRODUCED, ours, "it takes more than a second")


def _larger(results: Results) -> str:
    group = results["exact"]
    taken = zip(1e3 * np.median(group.column("seconds"), axis=0), group.each("sizes")[0].tolist(), strict=True)
    said = ", ".join(f"{k:,} of {n:,} in {one:.1f} ms" for one, (n, k) in taken)
    return f"the exact solver at larger sizes: {said}; it grows as n log n, not as the number of sets."


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
        further=Further("a client with more than 1/m of the data", nothing, _capped),
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
        further=Further("a minimum plus a sum is solved by a sweep over sorted clients", nothing, _larger),
    ),
)
