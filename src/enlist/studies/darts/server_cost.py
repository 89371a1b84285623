"""What selection costs the server: milliseconds to choose and learn, and to evaluate the model for the reward."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from enlist import selectors
from enlist.clients import Clients
from enlist.records import Feedback, RoundMetrics
from enlist.streams import Streams
from enlist.studies.study import Settings


def server(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Milliseconds per round, medians. `settings` are {"config", "selectors", "clients": [...], "k", "rounds"}.

    Returned are `choosing`, selector -> one number for each number of clients, and `evaluation`, the time in which the
    model is evaluated on the server's validation samples, without which there is no reward.

    >>> settings = {"config": {"data": {"clients": 6}}, "selectors": ["random"], "clients": [12], "k": 3, "rounds": 9}
    >>> found = server(settings, 1, Path())
    >>> list(found["choosing"]), 0 < found["choosing"]["random"][0] < 50, 0 < found["evaluation"] < 1000
    (['random'], True, True)
    """
    rounds = settings["rounds"]
    choosing = {
        name: [_choosing(name, count, settings["k"], rounds, seed) for count in settings["clients"]]
        for name in settings["selectors"]
    }
    return {"choosing": choosing, "evaluation": _evaluation(settings["config"], min(rounds, 20), seed)}


def _choosing(selector: str, count: int, k: int, rounds: int, seed: int) -> float:
    name, _, preset = selector.partition(":")
    made = selectors.create(name, Clients(count=count), seed=seed, preset=preset or None)
    accuracies = iter(Streams(seed).generator("accuracies").random(rounds).tolist())

    def step() -> None:
        picked = made.ask(k=k)
        made.tell(picked, Feedback(), round=RoundMetrics(accuracy=next(accuracies)))

    return _median(step, rounds)


def _evaluation(config: Any, rounds: int, seed: int) -> float:
    from enlist.simulation.config import parse
    from enlist.simulation.population import build
    from enlist.simulation.setup import placed
    from enlist.training.engine import Engine, Job
    from enlist.training.models import initialise
    from enlist.training.workers import one_thread

    parsed = parse({**config, "seed": seed}, "config")
    people = build(parsed)
    module = initialise(parsed.model, people.shape, people.classes, Streams(seed))
    data = {"validation": placed(people, module, shared=False)["validation"]}
    engine = Engine(Job(module, people.classes, parsed.training, data, seed))
    model, count = engine.flat.vectors.clone(), len(data["validation"])
    with one_thread():
        return _median(lambda: engine.evaluate(model, "validation", 0, count), rounds)


def _median(action: Callable[[], object], times: int) -> float:
    """Milliseconds, the median of several: what else the machine does in one of them does not count."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        taken.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(taken)
