"""Claims on regret: whether it is logarithmic, that of the rivals, Theorem 1's bound, and Eq. 7 as printed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from enlist.studies.bsfl.fits import at, best_fit, bound, doubling, exponent, width
from enlist.studies.bsfl.further import BONUSES, LONGER, fixed_gaps, genies, longer_and_bolder
from enlist.studies.bsfl.growth import (
    DECIDES,
    NOTED,
    PRESETS,
    bsfl,
    larger,
    linear,
    logarithmic,
    noticeable,
    read,
    sizes,
    slower,
)
from enlist.studies.bsfl.plan import regret_key
from enlist.studies.bsfl.regret import NOTICEABLE
from enlist.studies.bsfl.settings import DEFAULT, IID, METHODS, NON_IID, PRINTED, REGRET_RIVALS
from enlist.studies.claims import NOT, PARTLY, REPRODUCED, Claim, Further, Verdict, as_printed, shown, together
from enlist.studies.further import nothing
from enlist.studies.results import Group, Results


def limits(group: Group, least: float | None = None, rounds: int | None = None) -> tuple[float, float]:
    """Theorem 1's bound with the least loss seen (or another), and n·Δmax, which no policy can exceed.

    Both after all rounds, or after so many.

    >>> from enlist.studies.bsfl.example import example_results
    >>> limit, trivial = limits(bsfl(example_results(), "20-5", IID, PRINTED))
    >>> limit > trivial, round(trivial)
    (True, 290)
    """
    own, largest = group.settings, float(group.column("largest_gap").max())
    least = float(np.nanmin(group.column("least_gap"))) if least is None else least
    rounds = own["rounds"] if rounds is None else rounds
    return bound(own["clients"], own["k"], rounds, largest, least), rounds * largest


def _in(scenario: str) -> Callable[[Results], Verdict]:
    def rule(results: Results) -> Verdict:
        size = sizes(results)[0]
        found = {said: doubling(bsfl(results, size, scenario, reward)) for reward, said in PRESETS.items()}
        return as_printed({said: logarithmic(growth) for said, growth in found.items()})

    return rule


def _large(results: Results) -> Verdict:
    return as_printed(
        {
            said: together(
                {
                    f"{read(size)} {scenario}": logarithmic(doubling(bsfl(results, size, scenario, reward)))
                    for size in larger(results)
                    for scenario in (IID, NON_IID)
                }
            )
            for reward, said in PRESETS.items()
        }
    )


def _by_rounds(group: Group) -> str:
    """Doublings up to a quarter, half and all of the rounds."""
    rounds = int(group.column("rounds")[0, -1])
    parts = {rounds // 4: 0.25, rounds // 2: 0.5, rounds: 1.0}
    return ", ".join(f"{shown(doubling(group, until=part), 2)} up to round {n:,}" for n, part in parts.items())


def _gaps(scenario: str) -> Callable[[Results], str]:
    def reading(results: Results) -> str:
        size = sizes(results)[0]
        own, fixed = bsfl(results, size, scenario, PRINTED), results[f"growth/{size}/alpha=0"]
        fits = best_fit(own)
        least, held = (float(np.nanmin(group.column("least_gap"))) for group in (own, fixed))
        compared = slower(doubling(fixed), doubling(own))
        best = max(fits, key=fits.__getitem__)
        return (
            "shares c/t, and with them g and the gaps between sets, change in every round; without g (alpha = 0) gaps "
            f"stay. Doubling as printed without g ({len(fixed.seeds)} seeds): {_by_rounds(fixed)}, least loss "
            f"{held:.1g}; with g: {_by_rounds(own)}, least loss {least:.1g}: without g it grows {compared}. Computed "
            f"from the claim's own runs: exponent {shown(exponent(own), 2)}, best fit {best}; "
            f"of rounds that lost {NOTED[PRINTED]:g} or more, doubling "
            f"{shown(noticeable(results, size, scenario, PRINTED), 2)}."
        )

    return reading


def _horizon(results: Results) -> str:
    longer = results[f"growth/{larger(results)[0]}/longer"]
    said = []
    for size in larger(results):
        groups = {1.0: bsfl(results, size, IID, PRINTED)}
        groups |= {bonus: results[f"growth/{size}/bonus={bonus:g}"] for bonus in BONUSES}
        growths = {bonus: doubling(group) for bonus, group in groups.items()}
        compared = slower(growths[BONUSES[0]], growths[1.0])
        cells = []
        for bonus, group in groups.items():
            much = "the full" if bonus == 1.0 else f"{bonus:g} of the"
            lost, noted = at(group, "pseudo", 1.0).mean(), doubling(group, f"noticeable/{NOTED[PRINTED]:g}").mean
            cells.append(
                f"{shown(growths[bonus], 2)} with {much} bonus (regret {lost:.0f}, {noted:.2f} of large losses)"
            )
        width_now = width(*(groups[1.0].settings[name] for name in ("clients", "k", "rounds")))
        said.append(
            f"{read(size)} iid, where the bonus is {width_now:.1f} in the last round: {', '.join(cells)}: with "
            f"{BONUSES[0]:g} of it {compared}"
        )
    return (
        "speeds lie in [0, 1]; the bonus shrinks as √(ln n/n), so that a tenth of it is that of a hundred times the "
        f"rounds. Doubling as printed ({len(longer.seeds)} seeds), and that of losses of {NOTED[PRINTED]:g} or more: "
        f"{'; '.join(said)}. "
        f"With {LONGER} times the rounds, {read(larger(results)[0])} iid: {_by_rounds(longer)}."
    )


def _rivals(results: Results) -> Verdict:
    first, *others = sizes(results)
    found = {
        read(first): _linear(results, first, PRINTED),
        f"{read(first)}, reward of our default": _linear(results, first, DEFAULT),
    }
    return as_printed(found | {read(size): _linear(results, size, PRINTED) for size in others})


def _linear(results: Results, size: str, reward: str) -> Verdict:
    return together(
        {
            f"{METHODS[rival].label} ({scenario})": linear(doubling(results[regret_key(size, scenario, reward, rival)]))
            for scenario in (IID, NON_IID)
            for rival in REGRET_RIVALS[scenario, reward]
        }
    )


def _settling(results: Results) -> str:
    size, said = sizes(results)[0], []
    for (scenario, reward), rivals in REGRET_RIVALS.items():
        ours = at(bsfl(results, size, scenario, reward), "pseudo", 1.0).mean()
        for rival in rivals:
            group = results[regret_key(size, scenario, reward, rival)]
            times = at(group, "pseudo", 1.0).mean() / max(ours, 1e-9)
            said.append(
                f"{METHODS[rival].label} ({scenario}, reward {PRESETS[reward]}): {_by_rounds(group)}, regret "
                f"{times:.1f} times BSFL's"
            )
    return f"doublings up to a quarter, half and all of the rounds of the same matches: {'; '.join(said)}."


def _bound(results: Results) -> Verdict:
    return as_printed({said: _bounded(results, reward) for reward, said in PRESETS.items()})


def _bounded(results: Results, reward: str) -> Verdict:
    first = (sizes(results)[0], IID)
    held, idle, ours = True, True, ""
    for where in ((size, scenario) for size in sizes(results) for scenario in (IID, NON_IID)):
        group = bsfl(results, *where, reward)
        regret, (limit, trivial) = at(group, "pseudo", 1.0), limits(group)
        held &= bool((regret <= limit).all())
        idle &= limit > trivial
        if where == first:
            ours = f"{read(first[0])} iid: regret {regret.mean():.0f}, bound {limit:.1g}, n·Δmax {trivial:.1g}"
    if not held:
        return Verdict(NOT, ours, "a regret lies above its bound")
    if idle:
        return Verdict(PARTLY, ours, "it holds, but says nothing: every bound exceeds n·Δmax, which no policy can")
    return Verdict(REPRODUCED, ours, "it holds, and says more than n·Δmax somewhere")


def _useful_bound(results: Results) -> str:
    size, least = sizes(results)[0], NOTICEABLE[-1]
    own, fixed = bsfl(results, size, IID, PRINTED), results[f"growth/{size}/alpha=0"]
    lost = own.column(f"noticeable/{least:g}")[:, -1].mean()
    smallest, (limit, trivial) = float(np.nanmin(fixed.column("least_gap"))), limits(fixed)
    return (
        f"without g (alpha = 0), where gaps do not shrink, {read(size)} iid as printed: least loss {smallest:.1g}, "
        f"regret {at(fixed, 'pseudo', 1.0).mean():.0f}, bound {limit:.1g}, n·Δmax {trivial:.1g}. Computed from the "
        f"claim's own runs, if only losses of {least:g} and more counted: {lost:.0f} lost, bound "
        f"{limits(own, least)[0]:.1g}."
    )


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
HORIZON = "the bonus is so wide at these sizes that all rounds go into exploring"

REGRET = (
    Claim(
        key="logarithmic-iid",
        title="BSFL's regret is logarithmic (iid)",
        text="With 5 of 20 clients and iid data BSFL's regret grows logarithmically.",
        source="Theorem 1, Fig. 5 left",
        paper="O(ln n)",
        margin=f"{RULE}. {DECIDES}",
        rule=_in(IID),
        further=Further(SHRINKING, fixed_gaps, _gaps(IID)),
    ),
    Claim(
        key="logarithmic-non-iid",
        title="BSFL's regret is logarithmic (non-iid)",
        text="With 5 of 20 clients and data of uneven size BSFL's regret grows logarithmically.",
        source="Theorem 1, Fig. 8 left",
        paper="O(ln n)",
        margin=f"{RULE}. {DECIDES}",
        rule=_in(NON_IID),
        further=Further(SHRINKING, fixed_gaps, _gaps(NON_IID)),
    ),
    Claim(
        key="logarithmic-large",
        title="BSFL's regret is logarithmic at any size",
        text="Theorem 1 holds for any number of clients; the paper could measure regret only at 5 of 20.",
        source="Theorem 1",
        paper="O(ln n), not measured",
        margin=f"{RULE}; the parts are sizes, iid and non-iid. {DECIDES}",
        rule=_large,
        further=Further(HORIZON, longer_and_bolder, _horizon),
    ),
    Claim(
        key="rivals-linear",
        title="The rivals' regret is linear (5 of 20)",
        text="CS-UCB, CS-UCB-Q and random selection have linear regret; shown for 5 of 20 clients.",
        source="Figs. 5 and 8 left",
        paper="O(n)",
        margin="doubling of each rival, as printed and by the printed reward, at the paper's size: interval above 1.8; "
        "not below it, partly if it contains 1.8. The reward of our default and other sizes are shown beside",
        rule=_rivals,
        further=Further("they have not settled yet, so that regret still slows down", nothing, _settling),
    ),
    Claim(
        key="bound",
        title="Theorem 1's bound holds",
        text="The regret stays below Δmax·K·(4(m+1) ln n/Δmin² + 1 + π²/3).",
        source="Theorem 1, Eq. 15",
        paper="an upper bound",
        margin="the regret of every seed, size and scenario lies below the bound with Δmin the least loss seen; partly "
        f"if no bound is below n·Δmax, which nobody can exceed. {DECIDES}",
        rule=_bound,
        further=Further("the least difference enters squared, and shrinks", fixed_gaps, _useful_bound),
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
