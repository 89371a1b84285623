"""What unclear claims call for: one more experiment each, on the cause that is suspected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enlist.studies.bsfl.generalisation import spread
from enlist.studies.bsfl.plan import lines, match, matches, pictures, race_seconds, setting, size_of
from enlist.studies.bsfl.races import energy, growing, race
from enlist.studies.bsfl.settings import (
    FEW,
    IID,
    METHODS,
    NON_IID,
    OURS,
    PRINTED,
    REWARDS,
    RIVALS,
    SENSITIVITY,
    TRAINED,
    seeds_of,
)
from enlist.studies.bsfl.solving import ONE_SIDED
from enlist.studies.bsfl.training import PLENTY, linear_config
from enlist.studies.study import Experiment, Scale, over_seeds

SLOW_HOLD_MOST, PLENTY_OF_DATA, WEIGHTED = "slow-hold-most", "plenty", "weighted"
COLD = 0.01
"""Part of the printed temperature at which the further race is run."""
HEAD_START = 2
"""Steps of SA in the time of one of ALSA's, which has to look at the neighbourhood first."""
SIGMAS = (0.25, 0.5, 1.0, 1.5)
"""Of lognormal sizes; the study's populations have 1."""
SMALL, LARGE = ((12, 3), (16, 4), (20, 5), (24, 6)), ((500, 25), (5_000, 250), (50_000, 2_500))
"""Sizes at which every set is tried, and at which only the exact solver is."""
LONGER = 4
"""How many times more rounds the longer match has."""
BONUSES = (0.1, 0.01)
"""Parts of the printed bonus."""
LITTLE = 0.01
FEW_SEEDS = 3


def spreads(scale: Scale) -> Sequence[Experiment]:
    """Further: populations whose sizes are less uneven, and more.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> spreads(SCALES["smoke"])[0].settings["sigmas"]
    [0.25, 0.5, 1.0, 1.5]
    """
    settings = {**scale.settings["targets"], "sigmas": list(SIGMAS)}
    return over_seeds("targets/spread", spread, settings, seeds_of(scale), 5e-4 * settings["populations"])


def growing_problems(scale: Scale) -> Sequence[Experiment]:
    """Further: how the time of trying every set grows, and how that of the sweep does.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> growing_problems(SCALES["smoke"])[0].settings["small"][0]
    [12, 3]
    """
    settings = {name: [list(size) for size in sizes] for name, sizes in (("small", SMALL), ("large", LARGE))}
    return over_seeds("exact/growth", growing, settings, seeds_of(scale), 0.2)


def fixed_gaps(scale: Scale) -> Sequence[Experiment]:
    """Further: BSFL as printed without g at the smallest size, so that no difference between two sets ever changes.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> fixed_gaps(SCALES["smoke"])[0].key
    'growth/20-5/alpha=0'
    """
    entry = scale.settings["regret"][0]
    alpha = {"alpha": 0.0}
    return match(
        f"growth/{size_of(entry)}/alpha=0",
        entry,
        seeds_of(scale, FEW_SEEDS),
        METHODS["bsfl-printed"].selector,
        alpha,
        {**REWARDS[PRINTED], **alpha},
    )


def longer_and_bolder(scale: Scale) -> Sequence[Experiment]:
    """Further: BSFL as printed with less of its bonus at the larger sizes, and for more rounds at the first of them.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> [each.key for each in longer_and_bolder(SCALES["smoke"])][::2]
    ['growth/60-6/longer', 'growth/60-6/bonus=0.1', 'growth/60-6/bonus=0.01']
    """
    seeds, selector = seeds_of(scale, FEW_SEEDS), METHODS["bsfl-printed"].selector
    sizes = scale.settings["regret"][1:]
    longer = [*sizes[0][:2], LONGER * sizes[0][2]]
    found = [*match(f"growth/{size_of(longer)}/longer", longer, seeds, selector, {}, REWARDS[PRINTED])]
    for entry in sizes:
        for bonus in BONUSES:
            key, options = f"growth/{size_of(entry)}/bonus={bonus:g}", {"bonus_scale": bonus}
            found += match(key, entry, seeds, selector, options, REWARDS[PRINTED])
    return found


def bold_cs_ucb(scale: Scale) -> Sequence[Experiment]:
    """Further: CS-UCB with little of its bonus, at the smallest size.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> bold_cs_ucb(SCALES["smoke"])[0].key
    'fastest/bonus=0.01'
    """
    entry, seeds = scale.settings["regret"][0], seeds_of(scale, FEW_SEEDS)
    options = {"bonus_scale": LITTLE}
    return match(f"fastest/bonus={LITTLE:g}", entry, seeds, METHODS["cs-ucb"].selector, options, REWARDS[PRINTED])


def bold_alphas(scale: Scale) -> Sequence[Experiment]:
    """Further: BSFL as printed with no alpha and with much of it, with little of its bonus.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> [each.key for each in bold_alphas(SCALES["smoke"])]
    ['sensitivity/printed/bonus-scale=0.01+alpha=0', 'sensitivity/printed/bonus-scale=0.01+alpha=100']
    """
    return [each for options in bold_options() for each in setting(scale, PRINTED, options)]


def bold_options() -> list[dict[str, float]]:
    """What `bold_alphas` changes, no alpha first.

    >>> bold_options()[0]
    {'bonus_scale': 0.01, 'alpha': 0.0}
    """
    alphas = SENSITIVITY[PRINTED]["alpha"]
    return [{"bonus_scale": LITTLE, "alpha": alpha} for alpha in (alphas[0], alphas[-1])]


def genies(scale: Scale) -> Sequence[Experiment]:
    """Further: the genie itself at the smallest size, under the printed reward.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> genies(SCALES["smoke"])[0].key
    'regret/20-5/iid/printed/genie'
    """
    return matches(scale, scale.settings["regret"][0], IID, PRINTED, ["genie"])


def cold_races(scale: Scale) -> Sequence[Experiment]:
    """Further: ALSA against SA when it is colder (its one-sided form, too), on instances that BSFL met, in equal time.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> sorted({each.key for each in cold_races(SCALES["smoke"])})
    ['race/cold', 'race/met', 'race/one-sided', 'race/time']
    """
    own_settings = {**scale.settings["race"], "instances": max(scale.settings["race"]["instances"] // 4, 1)}
    changes: dict[str, dict[str, Any]] = {
        "race/cold": {"source": "drawn", "heat": COLD},
        "race/one-sided": {"source": "drawn", "heat": COLD, "runner": ONE_SIDED},
        "race/met": {"source": "met"},
        "race/time": {"source": "drawn", "head_start": HEAD_START},
    }
    return [
        each
        for key, change in changes.items()
        for each in over_seeds(key, race, {**own_settings, **change}, seeds_of(scale), race_seconds(own_settings, 3.0))
    ]


def longer_energies(scale: Scale) -> Sequence[Experiment]:
    """Further: 4 of 8 clients, where every state can be met, for as many steps.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> longer_energies(SCALES["smoke"])[0].settings
    {'clients': 8, 'k': 4, 'steps': 200}
    """
    small = {**scale.settings["energy"], "clients": 8, "k": 4}
    return over_seeds("energy/small", energy, small, seeds_of(scale), 4e-5 * small["steps"])


def without_g(scale: Scale) -> Sequence[Experiment]:
    """Further: BSFL without its generalisation term, iid pictures.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> without_g(SCALES["smoke"])[0].key
    'train/mlp/iid/alpha-0'
    """
    return pictures(scale, "mlp", IID, ["alpha-0"])


def by_loss(scale: Scale) -> Sequence[Experiment]:
    """Further: BSFL with targets by local loss, which the paper names as another form of g.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> sorted({each.key for each in by_loss(SCALES["smoke"])})
    ['train/mlp/iid/loss', 'train/mlp/non-iid/loss']
    """
    return [each for scenario in (IID, NON_IID) for each in pictures(scale, "mlp", scenario, ["loss"])]


def slow_hold_most(scale: Scale) -> Sequence[Experiment]:
    """Further: the slow clients are those with the most samples, so that leaving them out leaves out much.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> slow_hold_most(SCALES["smoke"])[0].key
    'train/mlp/slow-hold-most/bsfl-printed'
    """
    methods = [*OURS, *RIVALS[NON_IID], "cs-ucb-printed", "cs-ucb"]
    return pictures(scale, "mlp", SLOW_HOLD_MOST, methods, {"speed_correlation": -0.95})


def plenty(scale: Scale) -> Sequence[Experiment]:
    """Further: linear regression with twenty times the samples, so that a few clients suffice.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> plenty(SCALES["smoke"])[0].key
    'train/linear/plenty/bsfl-printed'
    """
    config = linear_config(IID, scale.settings["linear"]["rounds"], PLENTY)
    return lines(scale, PLENTY_OF_DATA, IID, TRAINED[IID][:5], config)


def weighted_linear(scale: Scale) -> Sequence[Experiment]:
    """Further: non-iid linear regression with updates weighted by samples.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> weighted_linear(SCALES["smoke"])[0].key
    'train/linear/weighted/bsfl-printed'
    """
    config = linear_config(NON_IID, scale.settings["linear"]["rounds"])
    config["server"] = {"aggregation": {"kind": "mean", "weights": "samples"}}
    return lines(scale, WEIGHTED, NON_IID, FEW[NON_IID][:4], config)
