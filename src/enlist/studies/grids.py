"""Methods in several places: the arms, curves and table of a study that trains the same methods on several federations.

The experiments have keys `place/method`, and one of the methods is the baseline, called "random".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from enlist.data.idx import has_fashion_mnist
from enlist.studies.experiments import simulation
from enlist.studies.measures import ROUNDS_TO_TARGET, final_accuracy
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Results
from enlist.studies.rules import Arm
from enlist.studies.study import Experiment, Figure, Scale, Table, possible

BASELINE = "random"
FIRST = 1200
"""First seed of such studies: neither settings, rules nor selectors were chosen on it or on those that follow."""


def dataset(name: str) -> dict[str, Any]:
    """A data set by name; where Fashion-MNIST is not at hand, the digits that scikit-learn brings along.

    >>> dataset("digits")
    {'name': 'digits'}
    """
    if name != "fashion-mnist":
        return {"name": name}
    return {"name": name, "download": False} if has_fashion_mnist() else {"name": "digits"}


@dataclasses.dataclass(frozen=True)
class Grid:
    """Places and methods.

    what      what a place is, as a column of the table
    places    key of a place -> title of its panel
    methods   key of a method -> its selector
    labels    key of a method -> its name in sentences and pictures
    colours   name -> colour

    >>> grid = Grid("skew", {"mild": "mild skew"}, {"random": "random"}, {"random": "random"}, {})
    >>> grid.keys, grid.arm("mild", "random").key
    (['mild/random'], 'mild/random')
    """

    what: str
    places: Mapping[str, str]
    methods: Mapping[str, str]
    labels: Mapping[str, str]
    colours: Mapping[str, str]

    @property
    def keys(self) -> list[str]:
        """Keys of all experiments."""
        return [f"{place}/{method}" for place in self.places for method in self.methods]

    def arm(self, place: str, method: str) -> Arm:
        """One method in one place, as a sentence calls it."""
        return Arm(f"{place}/{method}", self.labels[method])

    def experiments(self, scale: Scale, configs: Mapping[str, dict[str, Any]], first: int = FIRST) -> list[Experiment]:
        """All methods in all places; a seed is a population that all of them share."""
        return [
            Experiment(
                f"{place}/{method}",
                seed,
                {"selector": selector, "config": configs[place]},
                simulation,
                scale.settings["seconds"],
            )
            for seed in range(first, first + scale.seeds)
            for place in self.places
            for method, selector in self.methods.items()
        ]

    def curves(self, results: Results, name: str, title: str) -> Figure:
        """Accuracy or loss over rounds, a panel for each place."""
        panels = []
        for place, heading in self.places.items():
            rows = []
            for method, label in self.labels.items():
                values = results[f"{place}/{method}"].column(name)
                known = np.flatnonzero(np.isfinite(values).any(axis=0))
                rows += along((known + 1).astype(np.float64), values[:, known], label, share=name == "accuracy")
            panels.append(Panel(heading, rows, "round", title.partition(" (")[0].lower()))
        caption = "Mean over populations with its 95 % interval."
        return Figure(name, title, side_by_side(panels, title, self.colours), caption, highlight=True)

    def figures(self, results: Results, printed: str = "") -> list[Figure]:
        """Test accuracy and loss over rounds, as far as they can be drawn; `printed` is where the paper shows them."""
        behind = f" ({printed})" if printed else ""
        makers = [
            lambda found: self.curves(found, "accuracy", f"Test accuracy{behind}"),
            lambda found: self.curves(found, "loss", f"Test loss{behind}"),
        ]
        return possible(makers, results)

    def tables(self, results: Results) -> list[Table]:
        """The table of methods, if all experiments are there."""
        return possible([self.table], results)

    def table(self, results: Results) -> Table:
        """Each method in each place: final accuracy, and rounds to the target that the baseline sets."""
        rows = []
        for place in self.places:
            for method, label in self.labels.items():
                shared = results.common([f"{place}/{method}", f"{place}/{BASELINE}"])
                own, base = (shared[f"{place}/{each}"].outputs for each in (method, BASELINE))
                reached = [ROUNDS_TO_TARGET.of(own[seed], base[seed]) for seed in own]
                asked = [(one["selected"] > 0).sum() for one in own.values()]
                rows.append(
                    {
                        self.what: place,
                        "method": label,
                        "final accuracy": float(np.mean([final_accuracy(one) for one in own.values()])),
                        "rounds to the target": float(np.mean([value.number for value in reached])),
                        "runs that reached it": sum(not value.open for value in reached),
                        "clients selected": float(np.mean(asked)),
                        "seeds": len(own),
                    }
                )
        return Table("methods", "Methods", rows, "Means over populations.", highlight=True)
