"""Settings of the study: populations, methods, the data that is trained on, and the scales."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from enlist.data.idx import has_fashion_mnist
from enlist.studies.study import Scale

FIRST = 600
"""First seed. No default of ours, no rule and no setting of this study was chosen on these: earlier runs had others."""
IID, NON_IID = "iid", "non-iid"
SCENARIOS = {IID: "slow-minority", NON_IID: "slow-minority-by-size"}
PRINTED, DEFAULT = "printed", "default"
REWARDS = {PRINTED: {"alpha": 1.0, "normalised": False, "capped": False}, DEFAULT: {"alpha": 1.0, "normalised": True}}
"""The reward that each preset of BSFL maximises; the paper prints neither alpha nor beta, both are 1 here."""
BY_SIZE = {"generalisation": "size-quality"}
SCALE = 100.0
"""Virtual seconds of the longest latency, the deadline of every round."""
CIFAR = "cifar10"
EXTRA_SEEDS = 3


@dataclasses.dataclass(frozen=True)
class Method:
    """A selector as it is shown, with its settings in each scenario.

    >>> METHODS["bsfl-printed"].section(NON_IID)
    {'name': 'bsfl', 'preset': 'paper', 'settings': {'generalisation': 'size-quality'}}
    """

    label: str
    selector: str
    colour: str
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def settings(self, scenario: str) -> dict[str, Any]:
        """Settings of the selector: BSFL's targets follow the number of samples where that differs (Eq. 4)."""
        by_size = BY_SIZE if self.selector.startswith("bsfl") and scenario != IID else {}
        return {**by_size, **self.options}

    def section(self, scenario: str) -> dict[str, Any]:
        """The section [selector] of a configuration."""
        name, _, preset = self.selector.partition(":")
        return {"name": name, "preset": preset or None, "settings": self.settings(scenario)}


METHODS = {
    "bsfl-printed": Method("BSFL as printed", "bsfl:paper", "#0b6e99"),
    "bsfl-default": Method("BSFL, our default", "bsfl", "#e07a1f"),
    "cs-ucb-printed": Method("CS-UCB as printed", "cs-ucb:paper", "#6a4c93"),
    "cs-ucb": Method("CS-UCB, our default", "cs-ucb", "#c77dff"),
    "cs-ucb-q": Method("CS-UCB-Q as printed", "cs-ucb-q", "#2a9d5c"),
    "random": Method("random", "random", "#8d99ae"),
    "size-proportional": Method("size-proportional", "size-proportional", "#5c677d"),
    "oort": Method("Oort, our default", "oort", "#c8553d"),
    "fedsuv": Method("FedSUV, our default", "fedsuv", "#b5a642"),
    "genie": Method("genie", "genie", "#2b2d42"),
    "alpha-0": Method("BSFL without g (alpha = 0)", "bsfl", "#e07a1f", {"alpha": 0.0}),
    "loss": Method("BSFL, g by loss", "bsfl", "#e07a1f", {"generalisation": "loss"}),
}
"""Everybody who is compared. CS-UCB-Q's default is the printed formula, so that there is one of it only."""
COLOURS = {method.label: method.colour for key, method in METHODS.items() if key not in ("alpha-0", "loss")}
RIVALS = {IID: ("cs-ucb-printed", "random"), NON_IID: ("cs-ucb-q", "size-proportional")}
"""Those that the paper compares with, as printed: CS-UCB in the iid scenario, CS-UCB-Q in the other."""
OTHERS = {IID: ("cs-ucb", "oort", "fedsuv"), NON_IID: ("cs-ucb", "cs-ucb-q", "oort", "fedsuv")}
"""Existing methods at their best, as far as we know: our defaults of the rivals, and two that the paper lacks."""
OURS = ("bsfl-printed", "bsfl-default")
TRAINED = {
    IID: (*OURS, "cs-ucb-printed", "cs-ucb", "random", "oort", "fedsuv"),
    NON_IID: (*OURS, "cs-ucb-q", "size-proportional", "cs-ucb-printed", "cs-ucb", "oort", "fedsuv"),
}
"""Everybody who trains. The paper has neither Oort nor FedSUV, nor CS-UCB in the non-iid scenario."""
FEW = {
    IID: (*OURS, "cs-ucb-printed", "cs-ucb", "random", "oort", "fedsuv"),
    NON_IID: (*OURS, *RIVALS[NON_IID], "oort", "fedsuv"),
}
"""Who trains a CNN, which takes long."""
REGRET_RIVALS = {
    (IID, PRINTED): ("cs-ucb-printed", "random"),
    (IID, DEFAULT): ("cs-ucb", "random"),
    (NON_IID, PRINTED): ("cs-ucb-q", "size-proportional"),
    (NON_IID, DEFAULT): ("cs-ucb-q", "size-proportional"),
}


def own(preset: str) -> str:
    """BSFL's key in METHODS, as it maximises this reward.

    >>> own(PRINTED)
    'bsfl-printed'
    """
    return f"bsfl-{preset}"


SENSITIVITY: dict[str, dict[str, tuple[float, ...]]] = {
    PRINTED: {
        "alpha": (0.0, 1.0, 3.0, 10.0, 30.0, 100.0),
        "beta": (1.0, 2.0, 3.0, 5.0),
        "bonus_scale": (0.0, 0.01, 0.1, 0.3, 1.0),
    },
    DEFAULT: {
        "alpha": (0.0, 0.1, 0.3, 1.0, 3.0, 10.0),
        "beta": (1.0, 2.0, 3.0, 5.0),
        "bonus_scale": (0.0, 0.01, 0.1, 0.3, 1.0),
    },
}
"""Values of each parameter; the others stay as in the preset. |g| is at most k/n as printed, and 1 normalised."""

SCALES = {
    "smoke": Scale(
        "smoke",
        2,
        {
            "targets": {"sizes": [[20, 5], [500, 25]], "populations": 4},
            "graph": [6, 3],
            "degrees": {"sizes": [[8, 4], [20, 5]], "states": 50},
            "energy": {"clients": 500, "k": 25, "steps": 200},
            "race": {"sizes": [[20, 5], [50, 10]], "instances": 3, "steps": 100},
            "exact": {"instances": 20, "sizes": [[500, 25], [5000, 100]]},
            "regret": [[20, 5, 100, 2], [60, 6, 60, 2]],
            "sensitivity": {"clients": 60, "k": 6, "rounds": 60, "seeds": 1},
            "linear": {"rounds": 6, "seeds": 1},
            "images": "digits",
            "mlp": {"clients": 40, "k": 4, "rounds": 3, "every": 1, "seeds": 1},
            "cnn": {"clients": 40, "k": 4, "rounds": 3, "every": 1, "seeds": 1, "channels": [2, 4]},
        },
        "a check that it runs",
    ),
    "laptop": Scale(
        "laptop",
        10,
        {
            "targets": {"sizes": [[20, 5], [500, 25]], "populations": 100},
            "graph": [8, 4],
            "degrees": {"sizes": [[8, 4], [20, 5], [50, 10], [100, 50], [500, 25], [500, 250]], "states": 2000},
            "energy": {"clients": 500, "k": 25, "steps": 5000},
            "race": {"sizes": [[20, 5], [50, 10], [100, 20], [200, 100], [500, 25]], "instances": 20, "steps": 1000},
            "exact": {"instances": 200, "sizes": [[500, 25], [5000, 100], [100_000, 1000]]},
            "regret": [[20, 5, 20_000, 10], [500, 25, 5_000, 5], [5_000, 100, 2_000, 5]],
            "sensitivity": {"clients": 500, "k": 25, "rounds": 1_000, "seeds": 3},
            "linear": {"rounds": 100, "seeds": 10},
            "mlp": {"clients": 500, "k": 25, "rounds": 50, "every": 3, "seeds": 10},
            "cnn": {"clients": 500, "k": 25, "rounds": 50, "every": 5, "seeds": 3, "channels": [8, 16]},
        },
        "three quarters of an hour on two cores",
    ),
    "paper": Scale(
        "paper",
        10,
        {
            "targets": {"sizes": [[20, 5], [500, 25]], "populations": 100},
            "graph": [8, 4],
            "degrees": {"sizes": [[8, 4], [20, 5], [50, 10], [100, 50], [500, 25], [500, 250]], "states": 10_000},
            "energy": {"clients": 500, "k": 25, "steps": 20_000},
            "race": {"sizes": [[20, 5], [50, 10], [100, 20], [200, 100], [500, 25]], "instances": 60, "steps": 5000},
            "exact": {"instances": 1000, "sizes": [[500, 25], [5000, 100], [1_000_000, 1000]]},
            "regret": [[20, 5, 200_000, 10], [500, 25, 50_000, 10], [5_000, 100, 20_000, 10]],
            "sensitivity": {"clients": 500, "k": 25, "rounds": 5_000, "seeds": 10},
            "linear": {"rounds": 400, "seeds": 10},
            "mlp": {"clients": 500, "k": 25, "rounds": 200, "every": 5, "seeds": 10},
            "cnn": {"clients": 500, "k": 25, "rounds": 200, "every": 5, "seeds": 10},
            "cifar10": {"clients": 500, "k": 25, "rounds": 200, "every": 5, "seeds": 10},
            "device": "auto",
        },
        "the full setting with the paper's CNN on both image sets, for a machine with a GPU",
    ),
}
EXTRAS = {CIFAR: "a CNN on CIFAR-10, iid and non-iid, 3 experiments per setting; some 40 minutes more on two cores"}


def seeds_of(scale: Scale, most: int | None = None) -> range:
    """The seeds of a scale; a part that has fewer than the scale keeps to at most so many.

    >>> seeds_of(SCALES["laptop"], 3), seeds_of(SCALES["laptop"].chosen(seeds=2), 3)
    (range(600, 603), range(600, 602))
    """
    few = most is not None and most < SCALES[scale.name].seeds
    return range(FIRST, FIRST + (min(scale.seeds, most or 0) if few else scale.seeds))


def images_of(scale: Scale) -> str:
    """The pictures that stand for Fashion-MNIST: what a scale names; itself if it is here or may be fetched; digits.

    >>> images_of(SCALES["smoke"]), images_of(SCALES["paper"])
    ('digits', 'fashion-mnist')
    """
    if "images" in scale.settings:
        return str(scale.settings["images"])
    return "fashion-mnist" if scale.name == "paper" or has_fashion_mnist() else "digits"
