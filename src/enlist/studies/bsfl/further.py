"""What unclear claims call for: one more experiment each, on the cause that is suspected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from enlist.studies.bsfl.plan import lines, matches, pictures, race_seconds
from enlist.studies.bsfl.races import energy, race
from enlist.studies.bsfl.settings import FEW, IID, NON_IID, PRINTED, TRAINED, seeds_of
from enlist.studies.bsfl.solving import ONE_SIDED
from enlist.studies.bsfl.training import PLENTY, linear_config
from enlist.studies.study import Experiment, Scale, over_seeds

SLOW_HOLD_MOST, PLENTY_OF_DATA, WEIGHTED = "slow-hold-most", "plenty", "weighted"
COLD = 0.01
"""Part of the printed temperature at which the further race is run."""


def nothing(scale: Scale) -> Sequence[Experiment]:
    """No more experiments: what was run already can tell.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> nothing(SCALES["smoke"])
    []
    """
    return []


def genies(scale: Scale) -> Sequence[Experiment]:
    """Further: the genie itself at the smallest size, under the printed reward.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> genies(SCALES["smoke"])[0].key
    'regret/20-5/iid/printed/genie'
    """
    return matches(scale, scale.settings["regret"][0], IID, PRINTED, ["genie"])


def cold_races(scale: Scale) -> Sequence[Experiment]:
    """Further: ALSA, and its one-sided form, against SA when it is colder, and on instances that BSFL met.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> sorted({each.key for each in cold_races(SCALES["smoke"])})
    ['race/cold', 'race/met', 'race/one-sided']
    """
    own_settings = {**scale.settings["race"], "instances": max(scale.settings["race"]["instances"] // 4, 1)}
    changes: dict[str, dict[str, Any]] = {
        "race/cold": {"source": "drawn", "heat": COLD},
        "race/one-sided": {"source": "drawn", "heat": COLD, "runner": ONE_SIDED},
        "race/met": {"source": "met"},
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
    methods = ["bsfl-printed", "bsfl-default", "cs-ucb-q", "size-proportional", "cs-ucb"]
    return pictures(scale, "mlp", SLOW_HOLD_MOST, methods, {"speed_correlation": -0.95})


def weighted(scale: Scale) -> Sequence[Experiment]:
    """Further: the CNN's comparison with updates weighted by samples, on the MLP.

    >>> from enlist.studies.bsfl.settings import SCALES
    >>> weighted(SCALES["smoke"])[0].key
    'train/mlp/weighted/bsfl-printed'
    """
    return pictures(scale, "mlp", WEIGHTED, FEW[NON_IID][:4], weights="samples")


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
