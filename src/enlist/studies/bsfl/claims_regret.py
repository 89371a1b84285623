"""Claims on regret: whether it is logarithmic, that of the rivals, Theorem 1's bound, and Eq. 7 as printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from enlist.studies.bsfl.fits import at, best_fit, bound, doubling, exponent
from enlist.studies.bsfl.further import genies, nothing
from enlist.studies.bsfl.growth import NOTED, PRESETS, bsfl, larger, linear, logarithmic, noticeable, read, sizes
from enlist.studies.bsfl.plan import regret_key
from enlist.studies.bsfl.regret import NOTICEABLE
from enlist.studies.bsfl.settings import IID, METHODS, NON_IID, PRINTED, REGRET_RIVALS
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, Claim, Further, Verdict, shown, together
from enlist.studies.results import Group, Results


def limits(group: Group, least: float | None = None) -> tuple[float, float]:
    """Theorem 1's bound with the least loss seen (or another), and n·Δmax, which no policy can exceed.

    >>> from enlist.studies.bsfl.example import example_results
    >>> limit, trivial = limits(bsfl(example_results(), "20-5", IID, PRINTED))
    >>> limit > trivial, round(trivial)
    (True, 290)
    """
    own, largest = group.settings, float(group.column("largest_gap").max())
    least = float(np.nanmin(group.column("least_gap"))) if least is None else least
    return bound(own["clients"], own["k"], own["rounds"], largest, least), own["rounds"] * largest


def _in(scenario: str) -> Callable[[Results], Verdict]:
    def rule(results: Results) -> Verdict:
        size = sizes(results)[0]
        found = {said: doubling(bsfl(results, size, scenario, reward)) for reward, said in PRESETS.items()}
        return together({said: logarithmic(growth) for said, growth in found.items()})

    return rule


def _large(results: Results) -> Verdict:
    return together(
        {
            f"{read(size)} {scenario}, {said}": logarithmic(doubling(bsfl(results, size, scenario, reward)))
            for size in larger(results)
            for scenario in (IID, NON_IID)
            for reward, said in PRESETS.items()
        }
    )


def _gaps(results: Results, where: Sequence[tuple[str, str]]) -> str:
    said = []
    for size, scenario in where:
        for reward, name in PRESETS.items():
            group = bsfl(results, size, scenario, reward)
            fits = best_fit(group)
            said.append(
                f"{read(size)} {scenario}, {name}: exponent {shown(exponent(group), 2)}, best fit "
                f"{max(fits, key=fits.__getitem__)}, least loss {float(np.nanmin(group.column('least_gap'))):.1g}; "
                f"of rounds that lost {NOTED[reward]:g} or more, doubling "
                f"{shown(noticeable(results, size, scenario, reward), 2)}"
            )
    return (
        "Theorem 1 assumes a least difference Δmin between rewards, but shares c/t change a little in every round, and "
        f"gaps between sets get arbitrarily small. {'; '.join(said)}."
    )


def _small_gaps(scenario: str) -> Callable[[Results], str]:
    return lambda results: _gaps(results, [(sizes(results)[0], scenario)])


def _large_gaps(results: Results) -> str:
    return _gaps(results, [(size, scenario) for size in larger(results) for scenario in (IID, NON_IID)])


def _rivals(results: Results) -> Verdict:
    size = sizes(results)[0]
    return together(
        {
            f"{METHODS[rival].label} ({scenario}, {PRESETS[reward]})": linear(
                doubling(results[regret_key(size, scenario, reward, rival)])
            )
            for (scenario, reward), rivals in REGRET_RIVALS.items()
            for rival in rivals
        }
    )


def _times_ours(results: Results) -> str:
    size, said = sizes(results)[0], []
    for (scenario, reward), rivals in REGRET_RIVALS.items():
        ours = at(bsfl(results, size, scenario, reward), "pseudo", 1.0).mean()
        for rival in rivals:
            theirs = at(results[regret_key(size, scenario, reward, rival)], "pseudo", 1.0).mean()
            said.append(f"{METHODS[rival].label} ({scenario}, {PRESETS[reward]}) {theirs / max(ours, 1e-9):.1f}")
    return f"regret in units of BSFL's: {', '.join(said)}."


def _bound(results: Results) -> Verdict:
    first = (sizes(results)[0], IID)
    held, idle, said = True, True, []
    for where in ((size, scenario) for size in sizes(results) for scenario in (IID, NON_IID)):
        for reward, name in PRESETS.items():
            group = bsfl(results, *where, reward)
            regret, (limit, trivial) = at(group, "pseudo", 1.0), limits(group)
            held &= bool((regret <= limit).all())
            idle &= limit > trivial
            if where == first:
                said.append(f"{name}: regret {regret.mean():.0f}, bound {limit:.1g}, n·Δmax {trivial:.1g}")
    ours = f"{read(first[0])} iid, {'; '.join(said)}"
    if not held:
        return Verdict(NOT, ours, "a regret lies above its bound")
    if idle:
        return Verdict(PARTLY, ours, "it holds, but says nothing: every bound exceeds n·Δmax, which no policy can")
    return Verdict(REPRODUCED, ours, "it holds, and says more than n·Δmax somewhere")


def _useful_bound(results: Results) -> str:
    size, least, said = sizes(results)[0], NOTICEABLE[-1], []
    for reward, name in PRESETS.items():
        group = bsfl(results, size, IID, reward)
        lost = group.column(f"noticeable/{least:g}")[:, -1].mean()
        said.append(f"{name}: {lost:.0f} lost, bound {limits(group, least)[0]:.1g}")
    return f"if only losses of {least:g} and more counted ({read(size)} iid), {'; '.join(said)}."


def _printed(results: Results) -> Verdict:
    return logarithmic(doubling(bsfl(results, sizes(results)[0], IID, PRINTED), "printed"))


def _genie(results: Results) -> str:
    genie = results[regret_key(sizes(results)[0], IID, PRINTED, "genie")]
    lost = at(genie, "printed", 1.0).mean() / genie.settings["rounds"]
    return (
        f"the genie, who knows all means, has itself a regret of {lost:.2f} per round by Eq. 7, doubling "
        f"{shown(doubling(genie, 'printed'), 2)}: the mean of a minimum lies below the minimum of means."
    )


RULE = (
    "doubling [R(n)−R(n/2)]/[R(n/2)−R(n/4)], which is 1 for ln n, 1.41 for √n and 2 for n: interval below 1.2; partly "
    "if the mean stays below 1.8"
)
SHRINKING = "gaps between sets shrink, so that there is no least difference"

REGRET = (
    Claim(
        key="logarithmic-iid",
        title="BSFL's regret is logarithmic (iid)",
        text="With 5 of 20 clients and iid data BSFL's regret grows logarithmically.",
        source="Theorem 1, Fig. 5 left",
        paper="O(ln n)",
        margin=RULE,
        rule=_in(IID),
        further=Further(SHRINKING, nothing, _small_gaps(IID)),
    ),
    Claim(
        key="logarithmic-non-iid",
        title="BSFL's regret is logarithmic (non-iid)",
        text="With 5 of 20 clients and data of uneven size BSFL's regret grows logarithmically.",
        source="Theorem 1, Fig. 8 left",
        paper="O(ln n)",
        margin=RULE,
        rule=_in(NON_IID),
        further=Further(SHRINKING, nothing, _small_gaps(NON_IID)),
    ),
    Claim(
        key="logarithmic-large",
        title="BSFL's regret is logarithmic at any size",
        text="Theorem 1 holds for any number of clients; the paper could measure regret only at 5 of 20.",
        source="Theorem 1",
        paper="O(ln n), not measured",
        margin=RULE,
        rule=_large,
        further=Further(SHRINKING, nothing, _large_gaps),
    ),
    Claim(
        key="rivals-linear",
        title="The rivals' regret is linear",
        text="CS-UCB, CS-UCB-Q and random selection have linear regret.",
        source="Figs. 5 and 8 left",
        paper="O(n)",
        margin="doubling of each rival under each reward: interval above 1.8",
        rule=_rivals,
        further=Further("a rival that happens to suit the reward", nothing, _times_ours),
    ),
    Claim(
        key="bound",
        title="Theorem 1's bound holds",
        text="The regret stays below Δmax·K·(4(m+1) ln n/Δmin² + 1 + π²/3).",
        source="Theorem 1, Eq. 15",
        paper="an upper bound",
        margin="the regret of every seed, size, scenario and reward lies below the bound with Δmin the least loss "
        "seen; partly if no bound is below n·Δmax, which nobody can exceed",
        rule=_bound,
        further=Further("the least difference enters squared", nothing, _useful_bound),
    ),
    Claim(
        key="printed-regret",
        title="Regret as Eq. 7 prints it is logarithmic",
        text="Eq. 7 compares the genie's best mean with the reward that was realised; that is said to grow as O(ln n).",
        source="Eqs. 5 to 7, Theorem 1",
        paper="O(ln n)",
        margin=f"5 of 20 iid, as printed: {RULE}",
        rule=_printed,
        further=Further("Eq. 7 compares a mean of minima with a minimum of means", genies, _genie),
    ),
)
