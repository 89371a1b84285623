"""Experiments on single clients: who holds what, the mini-batch profile, and the accuracy of each mini-batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from enlist.studies.results import Outcome
from enlist.studies.study import Settings

if TYPE_CHECKING:
    from enlist.simulation.profile import Profile

MEASURED = ("batch", "client", "samples", "steps", "memory", "accuracy", "loss", "latency")


def population(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Who holds what: `counts` (clients, classes) and the names of the classes. `settings` are {"config": ...}.

    >>> population({"config": {"data": {"clients": 6}}}, 1, Path())["counts"].shape
    (6, 10)
    """
    from enlist.simulation.config import parse
    from enlist.simulation.population import build

    people = build(parse({**settings["config"], "seed": seed}, "config"))
    return {"counts": people.counts, "class_names": list(people.class_names)}


def profiled(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """The mini-batch profile of `enlist profile`. `settings` are {"config": ..., "sizes": [...], "passes": n}.

    Returned are the columns of its measurements, one row per client and batch size; `passes` is (rows, n).

    >>> settings = {"config": {"data": {"clients": 3}, "model": "logistic"}, "sizes": [8, 32], "passes": 2}
    >>> profiled(settings, 1, Path())["passes"].shape
    (6, 2)
    """
    from enlist.simulation.config import parse
    from enlist.simulation.profile import profile

    config = parse({**settings["config"], "seed": seed}, "config")
    found = profile(config, settings["sizes"], rounds=settings["passes"])
    columns: dict[str, Any] = {name: np.array([getattr(one, name) for one in found.measurements]) for name in MEASURED}
    return {**columns, "passes": np.array([one.passes for one in found.measurements]), "machine": found.machine}


def pooled(outcomes: Sequence[Outcome]) -> Profile:
    """What `profiled` measured, with one or several seeds, as one profile; clients of other seeds are other clients.

    >>> from enlist.studies.darts.example import example_results
    >>> outcomes = list(example_results()["profile"].outcomes.values())
    >>> len(pooled(outcomes[:1]).clients), len(pooled(outcomes).clients), pooled(outcomes).best
    (12, 24, 16)
    """
    from enlist.simulation.profile import WEIGHTS, Measurement, Profile

    measurements = []
    offset = 0
    for outcome in outcomes:
        columns = [outcome[name].tolist() for name in MEASURED]
        for passes, *values in zip(outcome["passes"].tolist(), *columns, strict=True):
            own = dict(zip(MEASURED, values, strict=True))
            own["client"] += offset
            measurements.append(Measurement(passes=tuple(passes), **own))
        offset += int(outcome["client"].max()) + 1
    rounds = outcomes[0]["passes"].shape[1]
    return Profile(tuple(measurements), rounds, WEIGHTS, offset, outcomes[0]["machine"])


def minibatches(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """How accurate a client is on each mini-batch just before it learns from it, for several batch sizes.

    Every client begins with the same model and takes `steps` steps, over and over its samples. `settings` are
    {"config": ..., "sizes": [...], "steps": n}; returned is `accuracy` (sizes, clients, n).

    >>> settings = {"config": {"data": {"clients": 3}, "model": "logistic"}, "sizes": [8, 32], "steps": 5}
    >>> found = minibatches(settings, 1, Path())["accuracy"]
    >>> found.shape, bool(found[:, :, -1].mean() > found[:, :, 0].mean())
    ((2, 3, 5), True)
    """
    import torch

    from enlist.simulation.config import parse
    from enlist.simulation.population import build
    from enlist.simulation.setup import placed
    from enlist.streams import Streams
    from enlist.training.engine import Step, sample_losses
    from enlist.training.flat import FlatModule
    from enlist.training.local import Task, batches
    from enlist.training.models import initialise
    from enlist.training.workers import one_thread

    config, streams = parse({**settings["config"], "seed": seed}, "config"), Streams(seed)
    people = build(config)
    module = initialise(config.model, people.shape, people.classes, streams)
    data = placed(people, module, shared=False)["train"]
    flat = FlatModule(module)
    base, parameters = flat.vectors.clone(), list(module.parameters())
    accuracy = np.zeros((len(settings["sizes"]), len(people), settings["steps"]))
    module.train()
    with one_thread():
        for row, size in enumerate(settings["sizes"]):
            training = config.training.model_copy(update={"batch": size})
            for client in range(len(people)):
                flat.vectors.copy_(base)
                start, stop = people.offsets[client : client + 2].tolist()
                task = Task(client, start, stop, settings["steps"], round=1, model_slot=0, update_slot=0)
                step = Step(training, training.rate(1), flat, parameters)
                for number, places in enumerate(batches(task, training, streams)):
                    index = torch.from_numpy(places[places >= 0])
                    outputs, targets = module(data.inputs(index)), data.y[index]
                    accuracy[row, client, number] = (outputs.argmax(dim=1) == targets).double().mean()
                    loss = sample_losses(outputs, targets, people.classes).mean()
                    step(torch.autograd.grad(loss, parameters))
    return {"accuracy": accuracy}
