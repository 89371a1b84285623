"""What is suspected where a claim about the selection process or a theorem does not come out as said."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.statistics import Summary
from enlist._internal.typing import FloatArray
from enlist.studies.claims import Further, shown
from enlist.studies.fedsuv.measures import (
    LOW,
    covered_runs,
    eliminated_share,
    gone,
    leaving,
    misjudged,
    objective,
    selected_mean,
    wrongly,
)
from enlist.studies.fedsuv.methods import OURS, PRINTED, ZERO, Method, title
from enlist.studies.fedsuv.paper import DELTA
from enlist.studies.fedsuv.plan import playing, seeds
from enlist.studies.fedsuv.process import HALF, player
from enlist.studies.fedsuv.settings import NOISES
from enlist.studies.fedsuv.square import Square
from enlist.studies.fedsuv.theory import DIAGONAL, complexity, information, regret_bound, smallest_gap, width_bound
from enlist.studies.further import nothing
from enlist.studies.results import Group, Results
from enlist.studies.study import Experiment, Scale, Settings, over_seeds

RHOS = (0.2, 0.6, 0.8, 0.95)
RIDGE = 0.05
SIZES = (5, 20, 100)


def _limits(scale: Scale) -> Sequence[Experiment]:
    wanted: list[Experiment] = []
    for rho in RHOS:
        method = Method(f"ρ = {rho:g}", "fedsuv:paper", {"rho": rho})
        wanted += playing(scale, f"further/rho-{rho:g}", method, 0.0)
    return wanted


def value(results: Results, key: str) -> Summary:
    """The objective over a whole run of the selection process, as a share of the best possible.

    >>> from enlist.studies.fedsuv.example import example_results
    >>> 0 < value(example_results(), "process/0/fedsuv-printed").mean < 1
    True
    """
    return Summary.of(objective(results[key]).tolist())


def _by_limit(results: Results) -> str:
    parts = [f"ρ = {rho:g}: {value(results, f'further/rho-{rho:g}').mean:.0%}" for rho in RHOS]
    known = {"0": "no-elimination", "0.4": PRINTED, "1": "unlimited"}
    parts += [f"ρ = {rho}: {value(results, f'process/0/{name}').mean:.0%}" for rho, name in known.items()]
    product = value(results, "process/0/multiplied").mean
    parts.sort(key=lambda part: float(part.split()[2].rstrip(":")))
    return (
        f"share of the best possible valid utility by how many may be eliminated, {', '.join(parts)}; one score of "
        f"both models gets {product:.0%}. After elimination FedSUV ranks by utility alone, whatever the validity."
    )


RANKING = Further("validity counts only through elimination, which is limited", _limits, _by_limit)


def _by_noise(measure: Callable[[Group], Summary], words: str, digits: int) -> Further:
    """What the other noises say of a number; nothing more is run."""

    def reading(results: Results) -> str:
        groups = {noise: results[f"process/{noise:g}/{PRINTED}"] for noise in NOISES}
        parts = [f"noise {noise:g}: {shown(measure(group), digits)}" for noise, group in groups.items()]
        return f"{words}, {'; '.join(parts)}."

    return Further("how well the features tell validity and utility", nothing, reading)


LEAVING = _by_noise(leaving, "rounds as a candidate of clients with validity below 0.4", 1)
WRONGLY = _by_noise(wrongly, "share of the eliminated that are more valid than the client they were compared with", 4)
ON_FRONT = _by_noise(misjudged, "share of those removed by the Pareto step that are Pareto-optimal", 4)


def _who_stays(results: Results) -> str:
    parts = [f"noise {noise:g}: {shown(gone(results[f'process/{noise:g}/{PRINTED}']), 2)}" for noise in NOISES]
    group = results[f"process/0/{PRINTED}"]
    left = (group.column("validity") < LOW) & (group.column("candidate") >= group.settings["rounds"])
    utility = group.column("utility")[left].mean() if left.any() else math.nan
    return (
        f"share of the clients with validity below {LOW:g} that are gone, {'; '.join(parts)}; without the limit (noise "
        f"0) {shown(gone(results['process/0/unlimited']), 2)}. Those who stay have a mean utility of {utility:.2f}."
    )


STAYING = Further("elimination stops when 40 % of the clients are gone", nothing, _who_stays)


def _corner(results: Results) -> str:
    parts = []
    for name in (PRINTED, "unlimited", ZERO, "multiplied", OURS):
        means = [selected_mean(results[f"process/0/{name}"], of).mean for of in ("validity", "utility")]
        parts.append(f"{title(name)} {means[0]:.2f} and {means[1]:.2f}")
    return f"mean validity and utility of those selected: {'; '.join(parts)}."


CORNER = Further("after elimination it ranks by optimistic utility alone", nothing, _corner)


def _without_limit(results: Results) -> str:
    limited, free = (eliminated_share(results[f"process/0/{name}"]) for name in (PRINTED, "unlimited"))
    unbound = "nobody is left of whom it would say so" if math.isnan(free.mean) else f"{free.mean:.1%} are"
    return (
        f"with the limit {limited.mean:.1%} of those of whom the theorem says so are gone at the end of the round; "
        f"without it {unbound}."
    )


CAPPED = Further("the limit of 40 %, of which the theorem knows nothing", nothing, _without_limit)


def _looser(scale: Scale) -> Sequence[Experiment]:
    method = Method(f"λ = {RIDGE:g}", "fedsuv:paper", {"ridge": RIDGE})
    wanted: list[Experiment] = []
    for noise in NOISES:
        wanted += playing(scale, f"further/ridge/{noise:g}", method, noise, scale.settings["process"]["more"])
    return wanted


def _with_ridge(results: Results) -> str:
    parts = [f"noise {noise:g}: {covered_runs(results[f'further/ridge/{noise:g}']).mean:.0%}" for noise in NOISES]
    return (
        f"with λ = {RIDGE:g} instead of 1, which makes the first intervals wide enough for weights larger than 1, the "
        f"share of runs with everybody covered throughout is, {', '.join(parts)}. With noise, validity is no longer "
        "linear in the features, so narrow intervals miss."
    )


PRIOR = Further("the first intervals are too narrow, and intersecting keeps the error for good", _looser, _with_ridge)


def bounds_alone(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """The bound of Theorem 5.4 over many more rounds than were played: nothing is selected.

    >>> found = bounds_alone({"clients": 30, "rounds": 4}, 1, Path())
    >>> found["bound"].shape
    (4,)
    """
    return {"bound": width_bound(_terms(Square(settings["clients"], settings["rounds"], seed, 0.0)))}


def _terms(world: Square) -> FloatArray:
    selector: Any = player("fedsuv:paper", world, world.seed, {})
    process, shape = selector.state.utility, selector.rows.shape
    gained = information(process.inputs, process.length, process.noise, world.rounds)
    return complexity(gained, shape[0], shape[1], process.noise, HALF, DELTA)


def _longer(scale: Scale) -> Sequence[Experiment]:
    own = scale.settings["process"]
    settings = {"clients": own["clients"], "rounds": 10 * own["rounds"]}
    return over_seeds("further/longer", bounds_alone, settings, seeds(scale)[:2], 5 * own["seconds"][1])


def _over_time(results: Results) -> str:
    bound = results["further/longer"].column("bound").mean(axis=0)
    below = np.flatnonzero(bound < DIAGONAL)
    when = f"from round {below[0] + 1} on" if len(below) else f"not within {len(bound):,} rounds"
    width = float(results[f"process/0/{PRINTED}"].column("width")[:, -1].mean())
    return (
        f"the bound falls below the diagonal of the unit square {when}; after {len(bound):,} rounds it is "
        f"{bound[-1]:.2f}. The widest rectangle is {width:.2f} after "
        f"{results[f'process/0/{PRINTED}'].settings['rounds']} rounds."
    )


LONGER = Further("100 rounds are too few for this bound to say anything", _longer, _over_time)


def gaps(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """The bound of Theorem 5.5 for populations of several sizes: nothing is selected.

    >>> gaps({"sizes": [5], "rounds": 3, "k": 2}, 1, Path())["bound"].shape
    (1,)
    """
    bounds = []
    for size in settings["sizes"]:
        world = Square(size, settings["rounds"], seed, 0.0)
        gap = smallest_gap(world.validity, world.truth(1).utility)
        bound = regret_bound(_terms(world), settings["k"], gap)[-1] if math.isfinite(gap) else math.nan
        bounds.append(float(bound))
    return {"bound": np.array(bounds)}


def _smaller(scale: Scale) -> Sequence[Experiment]:
    own = scale.settings["process"]
    settings = {"sizes": list(SIZES), "rounds": own["rounds"], "k": own["k"]}
    return over_seeds("further/gaps", gaps, settings, seeds(scale), 1.0)


def _by_size(results: Results) -> str:
    group = results["further/gaps"]
    medians = np.nanmedian(group.column("bound"), axis=0)
    parts = [f"{size} clients {bound:.1e}" for size, bound in zip(SIZES, medians, strict=True)]
    return (
        f"the bound after {group.settings['rounds']} rounds is in the median {', '.join(parts)}, while no policy can "
        f"lose more than {group.settings['rounds']}."
    )


GAP = Further("the smallest gap between two clients is squared in the denominator", _smaller, _by_size)

PROCESS_CAUSES = (RANKING, PRIOR, LONGER, GAP)
"""Those that run something."""
