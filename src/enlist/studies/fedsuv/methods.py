"""Who is compared: the paper's five methods, readings and ablations of FedSUV, and all our other selectors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from enlist.report.charts import PALETTE

GREY, DARK = "#8d99ae", "#2b2d42"


@dataclasses.dataclass(frozen=True)
class Method:
    """A way to select: what it is called, the selector (`name` or `name:preset`), its settings, and how rounds differ.

    >>> Method("Oort", "oort").selector
    'oort'
    """

    title: str
    selector: str
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    rounds: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    colour: str = GREY


def _printed(title: str, colour: str = GREY, **settings: Any) -> Method:
    return Method(title, "fedsuv:paper", settings, colour=colour)


RANDOM, PRINTED, ZERO, OURS = "fedavg", "fedsuv-printed", "fedsuv-zero", "fedsuv"
FORMER = "former"
"""What FedSUV's default was before this study: two criteria, and nothing learned from who is late."""

RIVALS = {
    RANDOM: Method("FedAvg (random)", "random", colour=GREY),
    "safa": Method("SAFA", "safa", colour=PALETTE[3]),
    "oort": Method("Oort", "oort", colour=PALETTE[1]),
    "refl": Method("REFL", "refl", rounds={"late": "use"}, colour=PALETTE[6]),
}
"""What the paper compares FedSUV with. SAFA chooses before training, as the paper describes it; REFL uses late updates,
weighted by its own rule."""

READINGS = {
    PRINTED: _printed("FedSUV, as printed", PALETTE[5]),
    ZERO: _printed("FedSUV, late counts 0", PALETTE[2], late_utility=0.0),
    OURS: Method("FedSUV, our default", "fedsuv", colour=PALETTE[0]),
}
"""Three readings of FedSUV. The paper does not say what a client that is not in time teaches the utility model: nothing
(as printed, since there is no utility to observe), or that its utility is 0."""

MAIN = {**RIVALS, "bsfl": Method("BSFL", "bsfl", colour=DARK), **READINGS}

ABLATIONS = {
    "no-elimination": _printed("no elimination", rho=0.0),
    "unlimited": _printed("elimination without limit", rho=1.0),
    "no-pareto": _printed("no Pareto step", pruning=False),
    "soft": _printed("soft elimination", elimination="soft", readmit_every=50),
    "added": _printed("validity + utility", coupling="add"),
    "multiplied": _printed("validity × utility", coupling="multiply"),
    "one-model": _printed("one model of the product", late_utility=0.0, rho=0.0, pruning=False),
    FORMER: Method("our former default, two criteria", "fedsuv", {"coupling": "none", "late_utility": None}),
}
"""Each differs from the printed rule in one respect, the last one from our default in two. 'One model of the product'
is a single Gaussian process of validity times utility: who is late has brought 0, and nobody is removed."""

OTHERS = {
    name.replace(":", "-"): Method(name, name)
    for name in (
        "size-proportional",
        "power-of-choice",
        "ucb-cs",
        "afl",
        "fedcs",
        "tifl",
        "e3cs",
        "rbcs-f",
        "cs-ucb",
        "cs-ucb-q",
        "cu-cs",
        "darts-ucb",
        "oort:paper",
        "bsfl:paper",
    )
}
"""Our other selectors, and the printed form of two of the rivals."""

SAFA_PROTOCOL = "safa-protocol"
PROTOCOLS = {SAFA_PROTOCOL: Method("SAFA, everybody trains", "safa", rounds={"protocol": "safa"})}

FORGETTING = "forgetting"
PROBES = {FORGETTING: _printed("late counts 0, and it forgets", late_utility=0.0, drift=0.02, memory=20)}
"""For further experiments only."""

EVERYBODY = {**MAIN, **ABLATIONS, **OTHERS, **PROTOCOLS, **PROBES}
"""All methods by the last part of their keys."""

FEDSUV = (PRINTED, ZERO, OURS)


def title(name: str) -> str:
    """What a method is called in tables and figures.

    >>> title("fedavg"), title("multiplied")
    ('FedAvg (random)', 'validity × utility')
    """
    return EVERYBODY[name].title


def palette(names: list[str] | tuple[str, ...]) -> dict[str, str]:
    """Colour of each method by its title: FedAvg is always grey, so the eye finds it.

    >>> palette(["fedavg"])
    {'FedAvg (random)': '#8d99ae'}
    """
    return {EVERYBODY[name].title: EVERYBODY[name].colour for name in names}
