"""Claims on simulated annealing: degrees, edges, energies over steps, the 98.3 %, and Theorem 2."""

from __future__ import annotations

import math

import numpy as np

from enlist.statistics import Summary, bootstrap, share
from enlist.studies.bsfl.further import COLD, HEAD_START, cold_races, longer_energies
from enlist.studies.bsfl.solving import ALSA, SA
from enlist.studies.claims import (
    NOT,
    PARTLY,
    REPRODUCED,
    Claim,
    Further,
    Verdict,
    counted,
    greater,
    shown,
    together,
)
from enlist.studies.further import nothing
from enlist.studies.results import Group, Results
from enlist.typing import FloatArray

WINS = 0.983
TIE = 1e-12
CLOSED = 0.1
NEAR = 0.05


def wins(group: Group) -> Summary:
    """The share of instances in which ALSA met a higher energy than SA.

    >>> from enlist.studies.bsfl.example import example_results
    >>> 0 <= wins(example_results()["race"]).mean <= 1
    True
    """
    higher = group.column("runner") > group.column("sa") + TIE
    return share(int(higher.sum()), higher.size)


def missed(group: Group, name: str) -> Summary:
    """How far below the optimum the best state met was, in percent of the optimum, mean over instances and sizes.

    >>> from enlist.studies.bsfl.example import example_results
    >>> missed(example_results()["race"], "sa").mean > 0
    True
    """
    optimum = group.column("optimum")
    lost = 100.0 * (optimum - group.column(name)) / np.abs(optimum)
    return Summary.of(lost.mean(axis=(1, 2)).tolist())


def remaining(group: Group, name: str) -> Summary:
    """What is left, in the last tenth of the steps, of the distance that first states have to the optimum.

    It is a ratio of means over seeds, because a single first state may happen to be a good one.

    >>> from enlist.studies.bsfl.example import example_results
    >>> 0 < remaining(example_results()["energy"], "SA").mean < 2
    True
    """
    optimum, trace = group.column("optimum"), group.column(name)
    last = trace[:, -max(trace.shape[1] // 10, 1) :].mean(axis=1)

    def ratio(after: FloatArray, before: FloatArray) -> float:
        return float(after.mean() / max(before.mean(), TIE))

    return bootstrap(ratio, optimum - last, optimum - trace[:, 0])


def _degrees(results: Results) -> Verdict:
    group = results["degrees"]
    sizes = group.each("sizes")[0]
    ratios = group.column("mean") / (4.0 * (sizes[:, 0] - sizes[:, 1]))
    found = {
        f"{k} of {n}": Summary.of(ratios[:, row].tolist()).within(0.0, math.inf)
        for row, (n, k) in enumerate(sizes.tolist())
    }
    ours = "mean degree / 4(K−m): " + ", ".join(f"{name} {shown(one, 2)}" for name, one in found.items())
    if all(one.mean <= 1.0 for one in found.values()):
        return Verdict(REPRODUCED, ours, "no mean lies above 1 (2(K−m) ways out of a state, and on average as many in)")
    if all(one.mean <= 1.0 or not one.low > 1.0 for one in found.values()):
        return Verdict(PARTLY, ours, "a mean lies above 1, but its interval contains it")
    return Verdict(NOT, ours, "an interval lies above 1")


def _largest_degrees(results: Results) -> str:
    group = results["degrees"]
    sizes = group.each("sizes")[0]
    most = group.column("largest").max(axis=0) / (4.0 * (sizes[:, 0] - sizes[:, 1]))
    said = ", ".join(f"{k} of {n} {one:.1f}" for one, (n, k) in zip(most, sizes.tolist(), strict=True))
    return (
        f"of the same states, the largest degree over 4(K−m), by size: {said}. Only the average is bounded: a state of "
        "high energy has few outsiders above it and many below, each of which may come in for anybody."
    )


def _share(group: Group, name: str) -> Summary:
    """A share of all edges, with an interval that leaves no room for the impossible."""
    return group.summary(name).within(0.0, 1.0)


def _edges(results: Results) -> Verdict:
    group = results["graph"]
    extra, kept = _share(group, "idle_extra"), _share(group, "idle_kept")
    excess = Summary.of((group.column("idle_extra") - group.column("idle_kept")).tolist())
    alone = "; ".join(
        f"{what} alone {shown(_share(group, f'{what}_extra'), 2)} and {group.summary(f'{what}_kept').mean:.2f}"
        for what in ("low", "similar")
    )
    ours = f"low or similar: {shown(extra, 2)} of the extra edges, {shown(kept, 2)} of those that ALSA keeps; {alone}"
    if extra.low > 0.5 and excess.low > 0:
        return Verdict(REPRODUCED, ours, "a certain majority, and certainly more than among the edges kept")
    if extra.mean > 0.5:
        return Verdict(PARTLY, ours, "a majority, but not certain, or not certainly more than among the edges kept")
    return Verdict(NOT, ours, "no majority")


def _edge_kinds(results: Results) -> str:
    group = results["graph"]
    said = [
        f"between states of {what} energy {shown(_share(group, f'{what}_extra'), 2)} of the extra edges against "
        f"{shown(_share(group, f'{what}_kept'), 2)} of those kept"
        for what in ("low", "similar")
    ]
    return f"a closer look at the same graphs: {'; '.join(said)}."


def _races(results: Results) -> Verdict:
    group = results["race"]
    tried, steps = group.column("sa").size, group.settings["steps"]
    verdict = counted(wins(group), WINS, f"of {tried:,} instances, {steps:,} steps each")
    return verdict._replace(ours=f"{verdict.ours}; a step of ALSA takes {slower(results):.1f} times as long as SA's")


def slower(results: Results) -> float:
    """How many times longer ALSA takes than SA over as many steps.

    >>> from enlist.studies.bsfl.example import example_results
    >>> slower(example_results()) > 0
    True
    """
    group = results["energy"]
    return float(np.median(group.column(f"{ALSA}_seconds") / group.column(f"{SA}_seconds")))


def _other_races(results: Results) -> str:
    def result(key: str) -> str:
        group = results[key]
        own, other = missed(group, "runner"), missed(group, "sa")
        return f"{shown(wins(group), 2)} and misses the optimum by {shown(own, 1)} % (SA {shown(other, 1)} %)"

    return (
        f"at {COLD:g} of the temperature ALSA beats SA in {result('race/cold')}, and its one-sided form, without the "
        f"edges that bring in a worse client, in {result('race/one-sided')}. At the printed temperature it does in "
        f"{result('race')}; on instances that BSFL met, in {result('race/met')}; in equal time, as SA takes about "
        f"{HEAD_START} steps while ALSA takes one, in {result('race/time')}."
    )


def _faster(results: Results) -> Verdict:
    group = results["energy"]
    optimum = group.column("optimum")[:, None]
    lost = {name: (optimum - group.column(name)).mean(axis=1) for name in (SA, ALSA)}
    verdict = greater(Summary.of((1.0 - lost[ALSA] / lost[SA]).tolist()), CLOSED)
    return verdict._replace(ours=f"{verdict.ours} of SA's distance to the optimum is saved")


def _theorem(results: Results) -> Verdict:
    connected = all(results["graph"].each("connected"))
    graph = Verdict(
        REPRODUCED if connected else NOT,
        f"{sum(results['graph'].each('connected'))} of {len(results['graph'].seeds)} graphs in one piece",
        "which the proof needs (the path in its appendix is wrong as written)" if connected else "the proof fails",
    )
    left = remaining(results["energy"], ALSA)
    steps = int(results["energy"].column("steps")[0, -1])
    ours = f"after {steps:,} steps {shown(left, 2)} of the first distance is left"
    if left.high < NEAR:
        limit = Verdict(REPRODUCED, ours, f"less than {NEAR:g}")
    elif left.mean < 0.5:
        limit = Verdict(PARTLY, ours, "closer than half-way, but not there")
    else:
        limit = Verdict(NOT, ours, "the temperature falls so slowly that it still wanders")
    return together({"connected": graph, "in the limit": limit})


def _small(results: Results) -> str:
    group = results["energy/small"]
    met = share(int((group.column("ALSA_best") >= group.column("optimum") - 1e-9).sum()), len(group.seeds))
    left = remaining(group, ALSA)
    return (
        f"on 4 of 8 clients (70 states) {int(group.column('steps')[0, -1]):,} steps pass through the optimum in "
        f"{100 * met.mean:.0f} % of runs, yet in the last tenth {shown(left, 2)} of the first distance is left: it "
        "does not stay there. What is of use is the best state seen, and that needs no theorem."
    )


HOT = "the printed temperature is so high that both walk at random"

ANNEALING = (
    Claim(
        key="degrees",
        title="ALSA's graph has at most 4(K−m) neighbours on average",
        text="SA has m(K−m) neighbours per state; ALSA at most 4(K−m) on average, whatever m.",
        source="Section V-B",
        paper="at most 4(K−m)",
        margin="mean degree of sampled states over 4(K−m): every mean at most 1; partly if one is above and its "
        "interval contains 1",
        rule=_degrees,
        further=Further("states differ widely in their degree", nothing, _largest_degrees),
    ),
    Claim(
        key="edges",
        title="Extra edges of SA join low or similar energies",
        text="Most of the edges that SA has beyond ALSA's are between states of low energy or of similar energy, and "
        "do not help to find the maximum.",
        source="Section V-C, Fig. 3",
        paper="the majority",
        margin="share of extra edges with both ends below the median energy, or energies within 10 % of the range, as "
        "the paper joins the two: interval above 0.5, and certainly more than among the edges that ALSA keeps; either "
        "kind alone is shown beside",
        rule=_edges,
        further=Further("the same holds of any edge", nothing, _edge_kinds),
    ),
    Claim(
        key="alsa-wins",
        title="ALSA beats SA in 98.3 % of runs",
        text="In nearly all of thousands of runs, of several sizes, ALSA found a higher energy than SA within the same "
        "time.",
        source="Section V-C",
        paper="98.3 % of runs",
        margin="the paper has thousands of runs and a fixed time, and does not say how long; here both have equally "
        "many steps, which favours ALSA if its steps take longer: share of instances in which its best energy is "
        "strictly higher at least 0.983; partly if its interval reaches that",
        rule=_races,
        further=Further(HOT, cold_races, _other_races),
    ),
    Claim(
        key="alsa-faster",
        title="ALSA converges faster than SA",
        text="ALSA rises to high energies at a significantly faster rate than SA, 25 of 500 clients.",
        source="Section V-C, Fig. 4",
        paper="a clearly higher curve",
        margin="share of SA's mean distance to the optimum that ALSA saves: interval above 0, mean at least 0.1",
        rule=_faster,
        further=Further(HOT, cold_races, _other_races),
    ),
    Claim(
        key="theorem-2",
        title="ALSA converges to the optimum",
        text="With temperature Δmax/log(i+1) the energy of ALSA's state tends to the maximum.",
        source="Theorem 2",
        paper="lim E(s_i) = E(s*)",
        margin="every small graph is in one piece; and in Fig. 4's setting less than 5 % of the first state's distance "
        "to the optimum is left in the last tenth of the steps (that part is partly below a half)",
        rule=_theorem,
        further=Further("the temperature falls too slowly for any run that ends", longer_energies, _small),
    ),
)
