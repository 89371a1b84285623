"""What the study runs.

Keys: `draws/...` who would hold what in many draws of the report's partition; `profile` mini-batches of several sizes;
`server/...` what selection costs the server; `select/...` selectors at batch size 16; `batch/SIZE/...` random and UCB
as printed at the others; `ablation/...` UCB with other settings; `further/...` what unclear claims call for.
"""

from __future__ import annotations

import ctypes
import functools
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from enlist import selectors
from enlist.clients import Clients
from enlist.records import Feedback, RoundMetrics
from enlist.streams import Streams
from enlist.studies.darts.settings import (
    AGAIN,
    AGAIN_METHOD,
    BATCH,
    CLASSES,
    CLIENTS,
    DEFAULT,
    FIRST_SEED,
    LABEL_NOISE,
    METHODS,
    NEEDED,
    NOISY,
    OORT,
    PARTITION,
    PLAIN,
    PRINTED,
    RANDOM,
    REPORT_SAMPLES,
    SHOWN,
    K,
    is_long,
    seeds_of,
    source_of,
)
from enlist.studies.experiments import simulation
from enlist.studies.rules import Arm
from enlist.studies.study import Experiment, Scale, Settings

MEASURED = (RANDOM.key, PRINTED.key)
"""Whose clients report their own accuracy, at two more passes over their samples a round; the slides have a table."""
MEASURING = 1.8
"""What that makes of the time of a round."""
PROFILED = 10_000
"""Samples that are profiled at most."""


def experiments(scale: Scale) -> Sequence[Experiment]:
    """Everything that a scale runs, seed by seed, because a seed is a population that the next run can use.

    >>> from enlist.studies.darts.settings import SCALES
    >>> len({each.key for each in experiments(SCALES["laptop"])})
    26
    """
    own = scale.settings
    partitions = {"balanced": PARTITION, "plain": PLAIN}
    found = [
        Experiment(
            f"draws/{name}", FIRST_SEED, {"partition": partition, "draws": own["draws"]}, draws, 0.01 * own["draws"]
        )
        for name, partition in partitions.items()
    ]
    ablations = NEEDED if is_long(scale) else NEEDED | SHOWN
    sizes = [size for size in own["sizes"] if size != BATCH]
    for seed in seeds_of(scale):
        found.append(_profile(scale, seed))
        found += [_server(scale, arm, seed) for arm in (RANDOM, PRINTED, DEFAULT)]
        found += [_federation(scale, arm, method, seed) for arm, method in (METHODS | ablations).items()]
        if seed - FIRST_SEED < (1 if is_long(scale) else own["batch_seeds"]):
            found += [
                _federation(scale, batch_arm(arm, size), METHODS[arm], seed, batch=size)
                for size in sizes
                for arm in (RANDOM, PRINTED)
            ]
    return found


def batch_arm(arm: Arm, size: int) -> Arm:
    """A method with another batch size.

    >>> batch_arm(RANDOM, 32).key, batch_arm(RANDOM, BATCH).key
    ('batch/32/random', 'select/random')
    """
    return arm if size == BATCH else Arm(arm.key.replace("select", f"batch/{size}"), f"{arm.name}, batch size {size}")


def random_again(scale: Scale) -> Sequence[Experiment]:
    """Further: random selection on the same populations with other draws.

    >>> from enlist.studies.darts.settings import SCALES
    >>> random_again(SCALES["smoke"])[0].settings["selector"]
    'darts-ucb+epsilon=1+initial_rounds=0'
    """
    return [_federation(scale, AGAIN, AGAIN_METHOD, seed) for seed in seeds_of(scale)]


def noisy(scale: Scale) -> Sequence[Experiment]:
    """Further: a third of the clients have nothing but wrong labels, so that some are worse than others.

    >>> from enlist.studies.darts.settings import SCALES
    >>> noisy(SCALES["smoke"])[0].key
    'further/noisy/random'
    """
    return [
        _federation(scale, arm, METHODS[plain], seed, data={"label_noise": LABEL_NOISE})
        for seed in seeds_of(scale)
        for plain, arm in NOISY.items()
    ]


def oort(scale: Scale) -> Sequence[Experiment]:
    """Further: a selector that is told what clients cost.

    >>> from enlist.studies.darts.settings import SCALES
    >>> oort(SCALES["smoke"])[0].key
    'further/oort'
    """
    return [_federation(scale, OORT, "oort", seed) for seed in seeds_of(scale)]


def _federation(
    scale: Scale, arm: Arm, method: str, seed: int, batch: int = BATCH, data: Mapping[str, Any] | None = None
) -> Experiment:
    """A run of a method on the population of a seed."""
    source, rounds = source_of(scale), int(scale.settings["rounds"])
    config = source.config(rounds, batch)
    measured = arm.key in MEASURED
    config["training"]["measure"] = measured
    config["data"] |= data or {}
    device = {"device": scale.settings["device"]} if "device" in scale.settings else {}
    seconds = source.round * rounds * (MEASURING if measured else 1.0)
    return Experiment(arm.key, seed, {"selector": method, "config": config, **device}, federation, seconds)


def _profile(scale: Scale, seed: int) -> Experiment:
    own, source = scale.settings, source_of(scale)
    limit = {} if source.dataset["name"] == "digits" else {"limit": PROFILED}
    config = source.config(own["rounds"], data={"dataset": {**source.dataset, **limit}})
    settings = {"config": config, "sizes": own["sizes"], "passes": own["passes"]}
    return Experiment("profile", seed, settings, profile, source.profile)


def _server(scale: Scale, arm: Arm, seed: int) -> Experiment:
    own, source = scale.settings, source_of(scale)
    config = source.config(own["rounds"])
    settings = {"selector": METHODS[arm], "config": config, "clients": own["server_clients"]}
    return Experiment(server_arm(arm).key, seed, {**settings, "rounds": own["server_rounds"]}, server, 1.0)


def server_arm(arm: Arm) -> Arm:
    """The experiment on what a method costs the server.

    >>> server_arm(RANDOM).key
    'server/random'
    """
    return Arm(arm.key.replace("select", "server"), arm.name)


def federation(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """A simulation in which everybody who is asked replies, so that each round has k participations.

    Beside what `studies.experiments.simulation` returns: of clients (N,) their `samples`, `quality` (share of right
    labels) and `counts` (N, classes); of participations (rounds, k) `who` took part, its `local_accuracy` on its own
    samples after training (NaN if not measured) and its `local_loss` while it trained.

    >>> import tempfile
    >>> config = {"data": {"clients": 6}, "training": {"measure": True}, "rounds": {"rounds": 4, "k": 2}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = federation({"selector": "random", "config": config}, 1, Path(folder))
    >>> found["who"].shape, found["counts"].shape, bool((found["local_accuracy"] <= 1).all())
    ((4, 2), (6, 10), True)
    """
    from enlist.runs.columns import SCORED
    from enlist.runs.tables import read_run

    found = simulation(settings, seed, folder)
    tables = read_run(folder / "run", {*SCORED, "loss", "accuracy", "accuracy_gain"})
    shape = (len(tables.rounds["round"]), -1)
    reported = {name: tables.participations[name].reshape(shape) for name in ("loss", "accuracy", "accuracy_gain")}
    labels = [name for name in tables.clients if name.startswith("class_")]
    return {
        **found,
        "who": tables.who.reshape(shape),
        "local_accuracy": np.minimum(reported["accuracy"] + reported["accuracy_gain"], 1.0),
        "local_loss": reported["loss"],
        "samples": tables.clients["num_examples"],
        "quality": tables.clients["quality"],
        "counts": np.stack([tables.clients[name] for name in labels], axis=1).astype(np.int64),
        "class_names": [name.removeprefix("class_") for name in labels],
    }


def draws(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Who would hold what in many draws: `counts` (draws, clients, classes) of as many labels as CIFAR-10 has.

    >>> found = draws({"partition": PLAIN, "draws": 2}, 0, Path())["counts"]
    >>> found.shape, found.sum(axis=(1, 2)).tolist()
    ((2, 12, 10), [50000, 50000])
    """
    import pydantic

    from enlist.data import AnyPartition, Samples
    from enlist.data.describe import class_counts

    labels = np.repeat(np.arange(CLASSES), REPORT_SAMPLES // CLASSES)
    samples = Samples(np.zeros((len(labels), 1)), labels)
    partition = pydantic.TypeAdapter(AnyPartition).validate_python(settings["partition"])
    counts = []
    for draw in range(settings["draws"]):
        shards = partition.split(samples, CLASSES, CLIENTS, Streams(Streams(seed).number("draws", draw)))
        counts.append(class_counts(labels, shards, CLASSES))
    return {"counts": np.array(counts)}


def profile(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Every client trains with every batch size, from the same model; each mini-batch is timed by itself.

    `settings` are {"config", "sizes": [...], "passes": n}. Of mini-batches, one row each: `batch` (the size asked for),
    `client`, `passed` (which pass), `step`, `length` (samples in it), `seconds` and `right` (accuracy on it just before
    it is learned from). Of clients: `samples` (N,); of (sizes, N): `memory`, peak bytes of a step on top of what was
    there, and `accuracy` and `loss` on the client's own samples in the end.

    >>> config = {"data": {"clients": 3}, "model": "logistic"}
    >>> profile({"config": config, "sizes": [8, 32], "passes": 1}, 1, Path())["memory"].shape
    (2, 3)
    """
    import torch

    from enlist.simulation.config import parse
    from enlist.simulation.population import build
    from enlist.simulation.profile import machine
    from enlist.simulation.setup import placed
    from enlist.training.engine import SGDStep, sample_losses
    from enlist.training.flat import FlatModule
    from enlist.training.local import TrainingTask, batches
    from enlist.training.models import initialise
    from enlist.training.workers import one_thread

    config, streams = parse({**settings["config"], "seed": seed}, "config"), Streams(seed)
    people = build(config)
    module = initialise(config.model, people.shape, people.classes, streams)
    data = placed(people, module, shared=False)["train"]
    flat = FlatModule(module)
    base, parameters = flat.vectors.clone(), list(module.parameters())
    sizes = settings["sizes"]
    rows: list[tuple[float, ...]] = []
    memory, accuracy, loss = (np.zeros((len(sizes), len(people))) for _ in range(3))

    def learn(places: Any, step: SGDStep) -> float:
        index = torch.from_numpy(places[places >= 0])
        outputs, targets = module(data.inputs(index)), data.y[index]
        step(torch.autograd.grad(sample_losses(outputs, targets, people.classes).mean(), parameters))
        return float((outputs.argmax(dim=1) == targets).double().mean())

    with one_thread():
        # Batch sizes take turns with every client: if the machine is busy for a while, it hits all of them.
        for client in range(len(people)):
            start, stop = people.offsets[client : client + 2].tolist()
            for row, size in enumerate(sizes):
                training = config.training.model_copy(update={"batch": size})
                flat.vectors.copy_(base)
                module.train()
                for number in range(settings["passes"]):
                    steps = training.steps_for(stop - start)
                    task = TrainingTask(client, start, stop, steps, round=number + 1, model_slot=0, update_slot=0)
                    step, plan = SGDStep(training, training.rate(1), flat, parameters), batches(task, training, streams)
                    if number == 0:
                        memory[row, client] = peak_memory(functools.partial(learn, plan[0], step))
                        flat.vectors.copy_(base)
                    for at, places in enumerate(plan):
                        begin = time.perf_counter()
                        right = learn(places, step)
                        seconds = time.perf_counter() - begin
                        rows.append((size, client, number, at, int((places >= 0).sum()), seconds, right))
                module.eval()
                with torch.inference_mode():
                    outputs, targets = module(data.inputs(slice(start, stop))), data.y[start:stop]
                    loss[row, client] = float(sample_losses(outputs, targets, people.classes).mean())
                    accuracy[row, client] = float((outputs.argmax(dim=1) == targets).double().mean())
    names = ("batch", "client", "passed", "step", "length", "seconds", "right")
    columns: dict[str, Any] = dict(zip(names, np.array(rows).T, strict=True))
    found = {"memory": memory, "accuracy": accuracy, "loss": loss, "samples": people.sizes, "machine": machine()}
    return {**columns, **found}


def peak_memory(action: Callable[[], object], times: int = 3) -> float:
    """Bytes by which the resident memory of this process grows at its peak while something is done; the median.

    What the allocator holds back is given to the system first, so that it has to be asked for again. Linux only: where
    there is no such file the tensors that are made are counted instead.

    >>> 0 < peak_memory(lambda: np.ones(1_000_000)) < 3e7
    True
    """
    peaks = []
    for _ in range(times):
        try:
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
            before = _resident("VmRSS")
            action()
            peaks.append(1024.0 * max(_resident("VmHWM") - before, 1))
        except (OSError, AttributeError):
            from enlist.training.peak_memory import PeakMemory

            with PeakMemory() as counted:
                action()
            return float(counted.peak)
    return statistics.median(peaks)


def _resident(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))


def server(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Milliseconds of the server per round, medians. `settings` are {"selector", "config", "clients", "rounds"}.

    `choosing` (a number for each of `clients`) to choose and learn, and `evaluation` of the model on the server's
    validation samples, without which there is no reward; 0 for a selector that needs none.

    >>> found = server({"selector": "random", "config": {}, "clients": [12, 50], "rounds": 9}, 1, Path())
    >>> len(found["choosing"]), found["evaluation"]
    (2, 0.0)
    """
    method, rounds = selectors.method(settings["selector"]), settings["rounds"]
    choosing = []
    for count in settings["clients"]:
        made = selectors.create(method, Clients(count=count), seed=seed)
        accuracies = iter(np.asarray(Streams(seed).generator("accuracies").random(rounds)).tolist())

        def step(made: Any = made, accuracies: Any = accuracies) -> None:
            made.tell(made.ask(k=K), Feedback(), round=RoundMetrics(accuracy=next(accuracies)))

        choosing.append(_median_ms(step, rounds))
    rewarded = "round.accuracy" in selectors.get(method.name).needs
    return {"choosing": choosing, "evaluation": _evaluation(settings["config"], rounds, seed) if rewarded else 0.0}


def _evaluation(config: Any, rounds: int, seed: int) -> float:
    from enlist.simulation.config import parse
    from enlist.simulation.population import build
    from enlist.simulation.setup import placed
    from enlist.training.engine import ModuleTrainer, TrainingSetup
    from enlist.training.models import initialise
    from enlist.training.workers import one_thread

    parsed = parse({**config, "seed": seed}, "config")
    people = build(parsed)
    module = initialise(parsed.model, people.shape, people.classes, Streams(seed))
    data = {"validation": placed(people, module, shared=False)["validation"]}
    engine = ModuleTrainer(TrainingSetup(module, people.classes, parsed.training, data, seed))
    model, count = engine.flat.vectors.clone(), len(data["validation"])
    with one_thread():
        return _median_ms(lambda: engine.evaluate(model, "validation", 0, count), min(rounds, 20))


def _median_ms(action: Callable[[], object], times: int) -> float:
    """Milliseconds, the median of several: what else the machine does in one of them does not count."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        action()
        taken.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(taken)
