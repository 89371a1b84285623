"""The study of asynchrony: synchronous rounds, FedBuff and FedAsync, with the same selectors, on one virtual clock.

Settings, experiments, figures and claims, in the order in which one reads them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from enlist._internal.typing import FloatArray
from enlist.studies.claims import Claim
from enlist.studies.experiments import simulation
from enlist.studies.further import replicated
from enlist.studies.grids import FIRST, dataset
from enlist.studies.margins import POINT, TENTH, beyond_one, nearly
from enlist.studies.measures import FINAL_ACCURACY, SECONDS_TO_TARGET, final_accuracy
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.parts import Parts
from enlist.studies.results import Replicates, Results
from enlist.studies.rules import Arm, Contrast
from enlist.studies.study import Experiment, Figure, Scale, Study, Table, possible

CLIENTS, K, BUFFER = 100, 20, 5
PER_STEP = {"synchronous": K, "over-committed": K, "buffered": BUFFER, "async": 1}
"""Protocol -> updates per step of the server; 20 clients train at a time under each, 26 under the second."""
OVER_COMMIT = 1.3
"""Synchronous rounds that select 130 % of the clients that they want, as Bonawitz et al. (SysML 2019) do."""
METHODS = ("random", "oort", "pisces", "tempo")
PUBLISHED = ("random", "oort")
"""Methods whose synchronous rounds are over-committed, too."""
KEYS = [(protocol, name) for protocol in PER_STEP for name in (PUBLISHED if protocol == "over-committed" else METHODS)]
"""Protocols and their methods, in the order of pictures and tables."""
COLOURS = {"random": "#8a8a8a", "oort": "#e69f00", "pisces": "#0b6e99", "tempo": "#7a3b8f"}
POINTS = 80
"""Of a curve over time."""
FEDBUFF = "Nguyen et al., AISTATS 2022"
PISCES = "Jiang et al., SoCC 2022"


def config(protocol: str, own: dict[str, Any]) -> dict[str, Any]:
    """A federation of unequal phones with skewed labels; every protocol merges the same number of updates, and is
    evaluated after the same number.

    >>> made = config("async", dict(STUDY.scale("smoke").settings))
    >>> made["rounds"]["rounds"], made["evaluation"]["every"]
    (80, 20)
    """
    more = K // PER_STEP[protocol]
    return {
        "data": {
            "dataset": dataset(own["dataset"]),
            "clients": CLIENTS,
            "partition": {"kind": "dirichlet", "alpha": 0.3},
        },
        "devices": {"kind": "phones"},
        "model": {"name": "mlp", "hidden": [64]},
        "training": {"batch": 20, "lr": own["lr"]},
        "rounds": {
            "protocol": "synchronous" if protocol == "over-committed" else protocol,
            "over_commit": OVER_COMMIT if protocol == "over-committed" else 1.0,
            "rounds": more * own["rounds"],
            "k": K,
            "concurrency": K,
            "buffer": BUFFER,
            "max_staleness": 100,
        },
        "evaluation": {"every": more},
    }


def experiments(scale: Scale) -> Sequence[Experiment]:
    """Every selector under every protocol; a seed is a population that all of them share.

    >>> sorted({each.key for each in experiments(STUDY.scale("smoke"))})[:2]
    ['async/oort', 'async/pisces']
    """
    own = dict(scale.settings)
    return [
        Experiment(
            f"{protocol}/{method}",
            seed,
            {"selector": method, "config": config(protocol, own)},
            simulation,
            own["seconds"],
        )
        for seed in range(FIRST, FIRST + scale.seeds)
        for protocol, method in KEYS
    ]


def over_time(group: Replicates, times: FloatArray) -> FloatArray:
    """Accuracy of each run of a group at some times, (seeds, times): that of the last evaluation, NaN before the first.

    >>> from enlist.studies.results import Output
    >>> arrays = {"accuracy": np.array([0.2, np.nan, 0.6]), "end": np.array([1.0, 2.0, 3.0])}
    >>> over_time(Replicates("a", {}, {0: Output({}, arrays, 1.0)}), np.array([0.5, 2.5, 9.0]))
    array([[nan, 0.2, 0.6]])
    """
    rows = []
    for output in group.outputs.values():
        accuracy, end = (np.asarray(output[name], dtype=float) for name in ("accuracy", "end"))
        known = ~np.isnan(accuracy)
        values = np.append(np.nan, accuracy[known])
        rows.append(values[np.searchsorted(end[known], times, "right")])
    return np.array(rows)


def curves(results: Results) -> Figure:
    """Accuracy over virtual time, a panel for each protocol."""
    keys = [f"{protocol}/{method}" for protocol, method in KEYS]
    shared = results.common(keys)
    ends = [float(output["end"][-1]) for key in keys for output in shared[key].outputs.values()]
    times = np.linspace(0.0, float(np.median(ends)), POINTS)
    panels = []
    for protocol in PER_STEP:
        rows = []
        for method in (name for place, name in KEYS if place == protocol):
            values = over_time(shared[f"{protocol}/{method}"], times)
            known = np.isfinite(values).all(axis=0)
            rows += along(times[known] / 3600.0, values[:, known], method, share=True)
        panels.append(Panel(protocol, rows, "virtual hours", "test accuracy"))
    title, caption = "Test accuracy over virtual time", "Mean over populations with its 95 % interval."
    return Figure("accuracy", title, side_by_side(panels, title, COLOURS), caption, highlight=True)


def figures(results: Results) -> Sequence[Figure]:
    """Accuracy over virtual time.

    >>> figures(Results({}))
    []
    """
    return possible([curves], results)


def methods(results: Results) -> Table:
    """Each selector under each protocol: final accuracy, and time to nine tenths of that of synchronous random."""
    rows = []
    for protocol, method in KEYS:
        shared = results.common([f"{protocol}/{method}", "synchronous/random"])
        own, base = (shared[key].outputs for key in (f"{protocol}/{method}", "synchronous/random"))
        reached = [SECONDS_TO_TARGET.of(own[seed], base[seed]) for seed in own]
        rows.append(
            {
                "protocol": protocol,
                "selector": method,
                "final accuracy": float(np.mean([final_accuracy(one) for one in own.values()])),
                "hours to the target": float(np.mean([value.number for value in reached])) / 3600.0,
                "runs that reached it": sum(not value.open for value in reached),
                "hours of the run": float(np.mean([one["end"][-1] for one in own.values()])) / 3600.0,
                "seeds": len(own),
            }
        )
    return Table("protocols", "Protocols and selectors", rows, "Means over populations.", highlight=True)


def tables(results: Results) -> Sequence[Table]:
    """The table of protocols and selectors, if all experiments are there.

    >>> tables(Results({}))
    []
    """
    return possible([methods], results)


def arm(protocol: str, method: str) -> Arm:
    """One selector under one protocol, as a sentence calls it.

    >>> arm("buffered", "oort")
    Arm(key='buffered/oort', name='buffered oort', more=())
    """
    return Arm(f"{protocol}/{method}", f"{protocol} {method}")


BASE = arm("synchronous", "random")


def sooner(of: Arm, against: Arm, claimed: float | None = None) -> Contrast:
    """Virtual time to the target of synchronous random selection: four fifths of what is claimed, else a tenth less."""
    margin = TENTH if claimed is None else beyond_one(nearly(claimed, f"{claimed:.3g} times"))
    return Contrast("greater", SECONDS_TO_TARGET, of, [against], margin, baseline=BASE, claimed=claimed)


def claim(key: str, title: str, text: str, source: str, paper: str, rule: Contrast | Parts) -> Claim:
    """A claim whose rule says itself what it asks for; unclear, it is run again with fresh seeds."""
    keys = [f"{protocol}/{method}" for protocol, method in KEYS]
    return Claim(key, title, text, source, paper, rule, replicated(experiments, keys, rule))


STUDY = Study(
    name="asynchrony",
    title="Synchronous rounds, FedBuff and FedAsync",
    reference=f"{FEDBUFF}; Xie et al., OPT 2020; {PISCES}",
    about="100 clients on phones of unequal speed hold skewed labels (Dirichlet 0.3); 20 train at a time. Synchronous "
    "rounds wait for all 20, or select 26 and go on with the first 20 (over-committed). FedBuff steps after every 5 "
    "updates, FedAsync after each. Every protocol merges the same number of updates, on the same virtual clock. The "
    "setting is ours; the claims are those of papers and of published examples. "
    f"Seeds begin at {FIRST}: nothing was chosen on them.",
    scales={
        "smoke": Scale("smoke", 2, {"dataset": "digits", "rounds": 4, "lr": 0.1, "seconds": 0.4}, "a check"),
        "laptop": Scale(
            "laptop",
            10,
            {"dataset": "fashion-mnist", "rounds": 60, "lr": 0.05, "seconds": 12.0},
            "twenty minutes on two cores",
        ),
        "paper": Scale(
            "paper",
            20,
            {"dataset": "fashion-mnist", "rounds": 400, "lr": 0.05, "seconds": 80.0},
            "longer runs, more populations",
        ),
    },
    experiments=experiments,
    figures=figures,
    tables=tables,
    claims=(
        claim(
            "buffered",
            "FedBuff saves time",
            "FedBuff reaches a given accuracy sooner than synchronous rounds: NVFlare's example takes 45 minutes "
            "instead of 82, FedScale's 18,913 s instead of 27,618 s.",
            "examples of NVFlare and FedScale",
            "1.8 and 1.5 times; the smaller decides",
            Parts(
                {
                    method: sooner(arm("buffered", method), arm("synchronous", method), claimed=27618 / 18913)
                    for method in PUBLISHED
                }
            ),
        ),
        claim(
            "over-commitment",
            "FedBuff saves time over over-committed rounds",
            "FedBuff is also faster than synchronous rounds that select 130 % of the clients and do not wait for the "
            "last.",
            "ours",
            "no number",
            Parts({name: sooner(arm("buffered", name), arm("over-committed", name)) for name in PUBLISHED}),
        ),
        claim(
            "fedasync",
            "FedBuff is faster than FedAsync",
            "FedBuff is up to 2.5 times as efficient as asynchronous federated learning.",
            f"abstract of {FEDBUFF}",
            "up to 2.5 times",
            sooner(arm("buffered", "random"), arm("async", "random"), claimed=2.5),
        ),
        claim(
            "accuracy",
            "FedBuff is as accurate",
            "After the same number of updates, FedBuff is as accurate as synchronous rounds.",
            FEDBUFF,
            "no number",
            Contrast("no worse", FINAL_ACCURACY, arm("buffered", "random"), [BASE], POINT),
        ),
        claim(
            "selection",
            "Selection still matters",
            "Where nobody waits for slow clients, a learned selection is still faster than random selection.",
            "ours",
            "no number",
            Parts({name: sooner(arm(name, "tempo"), arm(name, "random")) for name in ("buffered", "async")}),
        ),
        claim(
            "pisces",
            "Pisces is faster than asynchronous random selection",
            "Pisces reaches a given accuracy up to 1.9 times as fast as other asynchronous methods.",
            f"abstract of {PISCES}",
            "up to 1.9 times",
            sooner(arm("buffered", "pisces"), arm("buffered", "random"), claimed=1.9),
        ),
    ),
    preload="enlist.simulation.comparison",
)
