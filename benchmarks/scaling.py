"""What large studies need on 1, 8 and 64 nodes:  python -m benchmarks.scaling [--output docs/scaling.md]

Bytes and processor seconds are measured here, in one thread: a client's training, adding up an update, the server's
part of a round, and what a client takes in memory. The rest is arithmetic: nodes have --cores processors like the one
here, --memory GB, and a network of --network Gbit/s.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from benchmarks.pages import between
from benchmarks.selectors import footprint
from enlist import studies
from enlist.data import Dataset, Samples
from enlist.ladder import rungs
from enlist.simulation import Config, Simulation, build, parse
from enlist.streams import Streams
from enlist.training.engine import ModuleTrainer, SharedSamples, TrainingSetup
from enlist.training.flat import Vectors
from enlist.training.local import LocalTraining, TrainingTask
from enlist.training.models import initialise
from enlist.training.peak_memory import PeakMemory
from enlist.training.workers import grouped, one_thread

NODES = (1, 8, 64)
SHAPES: Mapping[str, tuple[tuple[int, ...], int, int]] = {
    "cifar10": ((3, 32, 32), 10, 50_000),
    "cifar100": ((3, 32, 32), 100, 50_000),
    "femnist": ((1, 28, 28), 62, 700_000),
    "speech-commands": ((1, 32, 32), 35, 85_000),
    "fashion-mnist": ((1, 28, 28), 10, 60_000),
    "fedprox-synthetic": ((60,), 10, 38_589),
}
"""Shape of a sample, classes, and training samples (the last with seed 0) of the data sets of studies and ladder."""
SPEAKERS = 2_168
"""Clients of Speech Commands: all of its speakers with training samples."""
MANY = (10**5, 10**6)
"""Populations that are measured; that of 10^7 follows from both by a straight line."""
LARGE, PER_CLIENT, INPUTS, ASKED = 10**7, 10, 30, (100, 10_000)
"""The large population: clients, samples of each, numbers in a sample, and clients of a round."""
PARTS = ("training", "model to the nodes", "sums to the driver", "adding them up", "server")
"""What a round of a run over many nodes spends its time on."""
STUDIES = {"fedsuv": "FedSUV", "darts": "Darts", "bsfl": "BSFL"}
"""Studies with trainings at paper scale."""
CLIMBING, LADDER_SEEDS = 30, 10
"""Methods and seeds of a ladder of all rungs."""
FEW = 1_000
"""Clients for whom the server's work is measured that counts in studies and on the ladder."""
LARGEST_BATCH = 32
"""Larger batches are taken to cost as much per sample as this one, and are not measured."""
METHODS, SEEDS, DAYS = 5, (5, 20, 100), 1
"""A comparison of one's own: methods, seeds of each, and the days after which it is to be done."""
CLOCK = time.process_time
"""Processor time, because other programs may use the machine."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a model costs: seconds of a training step per sample, bytes, and seconds to add one update to a sum."""

    sample: float
    model: int
    workspace: int
    adding: float


@dataclasses.dataclass(frozen=True)
class Kind:
    """Runs of one sort: `samples` are those that a client runs through in a round, on average."""

    title: str
    data: str
    model: str
    batch: int
    rounds: int
    k: int
    clients: int
    samples: float
    runs: int
    settings: Mapping[str, Any]

    def seconds(self, cost: Cost, server: float) -> float:
        """Processor seconds of one run; the server needs so many for a round."""
        return self.rounds * (self.k * (self.samples * cost.sample + cost.adding) + server)


@dataclasses.dataclass(frozen=True)
class Machine:
    """Processors, bytes of memory, and bytes a second of the network, per node."""

    cores: int
    memory: float
    network: float


def kinds(name: str) -> list[Kind]:
    """The trainings of a study at paper scale; those of data that are next to nothing are left out."""
    study = studies.get(name)
    found: dict[tuple[Any, ...], Kind] = {}
    for experiment in study.experiments(study.scale("paper")):
        if "config" in experiment.settings:
            config = parse(experiment.settings["config"], "config")
            if config.data.dataset.name in SHAPES:
                kind = trained(f"{config.data.dataset.name}, {config.model.name}", config)
                key = (kind.title, kind.batch, kind.rounds, kind.k, kind.clients)
                runs = found[key].runs + 1 if key in found else 1
                found[key] = dataclasses.replace(kind, runs=runs)
    batches: dict[str, set[int]] = {}
    for kind in found.values():
        batches.setdefault(kind.title, set()).add(kind.batch)
    return [
        dataclasses.replace(kind, title=f"{kind.title}, batch {kind.batch}") if len(batches[kind.title]) > 1 else kind
        for kind in found.values()
    ]


def climbed() -> list[Kind]:
    """Every rung of the ladder, with as many rounds as it may have."""
    return [
        dataclasses.replace(trained(rung.name, rung.config), runs=CLIMBING * LADDER_SEEDS)
        for rung in rungs()
        if rung.config.data.dataset.name in SHAPES
    ]


def trained(title: str, config: Config) -> Kind:
    """What a run trains: how many clients, rounds and samples."""
    data, training = config.data.dataset, config.training
    clients = config.data.clients or getattr(data, "users", 0) or SPEAKERS
    samples = min(SHAPES[data.name][2], getattr(data, "limit", None) or math.inf)
    each = training.steps * training.batch if training.steps else training.epochs * samples / clients
    return Kind(
        title,
        data.name,
        config.model.name,
        training.batch,
        rounds_of(config),
        config.rounds.k,
        clients,
        each,
        1,
        config.model.model_dump(mode="json"),
    )


@functools.cache
def _rounds_within(seconds: float, devices: str, clients: int, k: int, deadline: str) -> int:
    config = Config(
        selector="bsfl",
        devices=json.loads(devices),
        data={"clients": clients, "partition": "iid"},
        model="logistic",
        rounds={"rounds": 10**6, "k": k, "deadline": json.loads(deadline), "seconds": seconds},
        evaluation={"every": 10**6},
    )
    with Simulation(config) as simulation:
        return int(simulation.run()["rounds"])


def rounds_of(config: Config) -> int:
    """Rounds of a run. Where only virtual time bounds them they are counted: BSFL on digits in place of its data, which
    its devices do not depend on."""
    rounds = config.rounds
    if rounds.rounds < 10**6:
        return rounds.rounds
    assert rounds.seconds is not None
    devices = config.devices.model_dump_json()
    deadline = config.model_dump(mode="json")["rounds"]["deadline"]
    return _rounds_within(rounds.seconds, devices, config.data.clients, rounds.k, json.dumps(deadline))


def cost(settings: Mapping[str, Any], shape: tuple[int, ...], classes: int, batch: int, steps: int = 2) -> Cost:
    """Measure a model; the best of three."""
    config = Config(model=dict(settings))
    module = initialise(config.model, shape, classes, Streams(0))
    rng = np.random.default_rng(0)
    count = batch * steps
    samples = Samples(rng.normal(size=(count, *shape)).astype(np.float32), rng.integers(0, classes, count))
    last = getattr(module, "memory_format", torch.contiguous_format) == torch.channels_last
    data = SharedSamples.of(samples, last, shared=False)
    job = TrainingSetup(module, classes, LocalTraining(batch=batch, lr=0.01), {"train": data}, seed=0)
    engine = ModuleTrainer(job)
    models, updates = Vectors.zeros(engine.flat.layout, 1), Vectors.zeros(engine.flat.layout, 2)
    models[0].copy_(engine.flat.vectors)
    task = TrainingTask(0, 0, count, steps=steps, round=1, model_slot=0, update_slot=0)
    with one_thread():
        with PeakMemory() as memory:
            engine.train([task._replace(steps=1)], models, updates)
        seconds = min(_spent(lambda: engine.train([task], models, updates)) for _ in range(3))
        total, update = updates[1].parameters, updates[0].parameters
        received = update.numpy().copy()
        # What the driver does with an update that comes over the network: copy it to its place, and add it.
        adding = min(_spent(lambda: total.add_(update.copy_(torch.tensor(received)), alpha=0.5)) for _ in range(3))
    return Cost(seconds / count, 4 * engine.flat.layout.numbers, memory.peak, adding)


def _spent(work: Callable[[], object]) -> float:
    start = CLOCK()
    work()
    return CLOCK() - start


def studied(
    machine: Machine,
    found: list[tuple[Kind, Cost]],
    server: float,
    what: str = "data, model",
    command: str = "reproduce",
) -> Iterator[str]:
    """Many runs: what each of them costs, and how long all take."""
    yield f"| {what} | runs | model, MB | training step, MB | client a round, s | one run, processor hours |"
    yield "|---|---|---|---|---|---|"
    for kind, each in found:
        client, run = kind.samples * each.sample, kind.seconds(each, server) / 3600
        yield (
            f"| {kind.title} | {kind.runs} | {_three(each.model / 1e6)} | {each.workspace / 1e6:.0f} "
            f"| {_three(client)} | {_three(run)} |"
        )
    runs = sorted((kind.seconds(each, server) for kind, each in found for _ in range(kind.runs)), reverse=True)
    total = sum(runs) / 3600
    yield ""
    yield (
        f"All {len(runs):,} runs: {total:,.0f} processor hours. Every run is a task (`enlist {command} --engine ray`):"
    )
    yield ""
    yield "| nodes | hours | processors busy | data to each node, GB | memory of a node, GB | what limits |"
    yield "|---|---|---|---|---|---|"
    placed = {kind.data: 4 * math.prod(SHAPES[kind.data][0]) * SHAPES[kind.data][2] for kind, _ in found}
    fat = max(4 * each.model + each.workspace for _, each in found)
    for nodes in NODES:
        slots = nodes * machine.cores
        hours = _schedule(runs, slots) / 3600
        busy = total / hours / slots
        memory = sum(placed.values()) + machine.cores * fat
        limit = "processors" if busy > 0.8 else f"the longest run: {len(runs):,} runs for {slots:,} processors"
        if memory > machine.memory:
            limit = "memory"
        yield (
            f"| {nodes} | {_three(hours)} | {100 * busy:.0f} % | {_three(sum(placed.values()) / 1e9)} "
            f"| {memory / 1e9:.0f} | {limit} |"
        )


def needed(machine: Machine, found: list[tuple[Kind, Cost]], server: float) -> Iterator[str]:
    """Nodes for a comparison of so many seeds within a day; a run that takes longer than that cannot be a task."""
    yield f"| {METHODS} methods on | one run, hours | " + " | ".join(f"{seeds} seeds" for seeds in SEEDS) + " |"
    yield "|---" * (2 + len(SEEDS)) + "|"
    for kind, each in found:
        hours = kind.seconds(each, server) / 3600
        one_after_another = int(24 * DAYS / hours)
        cells = [
            f"{math.ceil(METHODS * seeds / (machine.cores * one_after_another)):,}" if one_after_another else "–"
            for seeds in SEEDS
        ]
        yield f"| {kind.title} | {_three(hours)} | {' | '.join(cells)} |"


def _schedule(runs: list[float], slots: int) -> float:
    """Seconds until all runs have ended, the longest begun first."""
    free = [0.0] * min(slots, len(runs))
    for run in runs:
        first = free.index(min(free))
        free[first] += run
    return max(free)


def spread(machine: Machine, name: str, k: int, client: float, each: Cost, groups: int, server: float) -> Iterator[str]:
    """Rounds of one run whose workers are on all nodes."""
    for nodes in NODES:
        workers = min(groups, nodes * machine.cores)
        used = min(nodes, workers)  # they are spread: as many nodes as there are workers get the model
        training = math.ceil(groups / workers) * (k / groups) * client
        sent = (used - 1) * each.model / machine.network
        received = groups * (used - 1) / used * each.model / machine.network
        parts = dict(zip(PARTS, (training, sent, received, groups * each.adding, server), strict=True))
        most = max(parts, key=lambda part: parts[part])
        cells = " | ".join(f"{value:.3f}" for value in parts.values())
        yield f"| {name} | {nodes} | {workers:,} | {cells} | {sum(parts.values()):.3f} | {most} |"


def people(clients: int) -> tuple[float, float, float, float]:
    """Bytes of the clients as they travel, of a selector's state, seconds to build them, and of the server a round."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * clients, 2)).astype(np.float32)
    y = rng.integers(0, 10, len(x))
    data = Dataset("normal", Samples(x, y), Samples(x[:1000], y[:1000]), classes=10)
    config = Config(
        selector="oort",
        data={"clients": clients, "validation": 0.0, "partition": {"kind": "iid"}},
        model="logistic",
        training={"batch": 10},
        rounds={"rounds": 10**6, "k": 100, "over_commit": 1.3, "deadline": {"kind": "percentile"}},
        evaluation={"every": 10**6},
    )
    start = CLOCK()
    population = build(config, data)
    building = CLOCK() - start
    travels = len(pickle.dumps(dataclasses.replace(population, samples={}), protocol=5))
    with Simulation(config, population=population) as simulation:
        run, trained = simulation.trainer._run, [0.0]

        def timed(requests: Any) -> Any:
            begun = CLOCK()
            answers = run(requests)
            trained[0] += CLOCK() - begun
            return answers

        simulation.trainer._run = timed  # type: ignore[method-assign]
        simulation.step()
        trained[0], rounds = 0.0, 4
        spent = _spent(lambda: [simulation.step() for _ in range(rounds)])
        return travels, footprint(simulation.selector), building, (spent - trained[0]) / rounds


def line(values: list[float]) -> float:
    """The value at the large population of a straight line through the two that were measured."""
    slope = (values[1] - values[0]) / (MANY[1] - MANY[0])
    return values[1] + slope * (LARGE - MANY[1])


def main() -> None:
    """Print the sums, or put them into a page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cores", type=int, default=32, help="processors of a node")
    parser.add_argument("--memory", type=float, default=128.0, help="GB of a node")
    parser.add_argument("--network", type=float, default=10.0, help="Gbit/s of a node")
    parser.add_argument("--output", type=Path, help="a page with the marks <!-- sums --> and <!-- /sums -->")
    options = parser.parse_args()
    machine = Machine(options.cores, options.memory * 1e9, options.network * 1e9 / 8)
    lines = [
        f"`python -m benchmarks.scaling` assumes nodes of {machine.cores} processors, {options.memory:g} GB and "
        f"{options.network:g} Gbit/s, unless stated otherwise. Seconds are",
        f"processor time of one thread on this machine, without evaluation. Batches above {LARGEST_BATCH} are assumed "
        f"to cost as much per sample as {LARGEST_BATCH};",
        "BSFL's runs end after a virtual time, and are counted with as many rounds as a run with the BSFL selector.",
    ]
    server_of_few = people(FEW)[3]
    priced: dict[str, Cost] = {}

    def with_costs(wanted: list[Kind]) -> list[tuple[Kind, Cost]]:
        result = []
        for kind in wanted:
            batch = min(kind.batch, LARGEST_BATCH)
            key = json.dumps([kind.data, kind.settings, batch])
            if key not in priced:
                shape, classes, _ = SHAPES[kind.data]
                priced[key] = cost(kind.settings, shape, classes, batch)
                print(kind.title, priced[key], file=sys.stderr, flush=True)
            result.append((kind, priced[key]))
        return result

    measured_studies = {name: with_costs(kinds(name)) for name in STUDIES}
    for name, title in STUDIES.items():
        lines += ["", f"### The {title} study at paper scale", ""]
        lines += studied(machine, measured_studies[name], server_of_few)
    lines += ["", f"### A ladder of {len(rungs())} rungs, {CLIMBING} methods and {LADDER_SEEDS} seeds", ""]
    lines += studied(machine, with_costs(climbed()), server_of_few, "rung", "ladder")
    found = measured_studies["fedsuv"]
    lines += ["", "### Nodes for a comparison within a day", "", *needed(machine, found, server_of_few)]
    lines += ["", "–: one run takes longer than a day; spread it with `enlist run --engine ray`, as below."]
    large = cost({"name": "mlp", "hidden": [64]}, (INPUTS,), 10, PER_CLIENT, steps=1)
    measured = list(zip(*(people(clients) for clients in MANY), strict=True))
    travels, state, building, server = (line(list(values)) for values in measured)
    print(measured, file=sys.stderr, flush=True)
    lines += ["", "### One run over all nodes, seconds a round", ""]
    lines.append(f"| run | nodes | workers | {' | '.join(PARTS)} | total | largest part |")
    lines.append("|---" * (5 + len(PARTS)) + "|")
    for kind, each in found:
        if kind.model == "resnet18":
            title = f"{kind.data}, {kind.model}, k = {kind.k}"
            own = measured[3][0] * kind.clients / MANY[0]
            lines += spread(machine, title, kind.k, kind.samples * each.sample, each, kind.k, own)
    for k in ASKED:
        layout, together = _chain()
        tasks = [TrainingTask(client, 0, PER_CLIENT, 1, 1, model_slot=0, update_slot=client) for client in range(k)]
        groups = len(grouped(tasks, together, layout))
        lines += spread(machine, f"MLP, k = {k:,}, 10^7 clients", k, PER_CLIENT * large.sample, large, groups, server)
    samples = LARGE * PER_CLIENT * (4 * INPUTS + 8)
    lines += ["", "### 10^7 clients", ""]
    lines += ["| what | 10^5 | 10^6 | 10^7, by a straight line |", "|---|---|---|---|"]
    names = ("clients as they travel, MB", "state of the selector (oort), MB", "building them, s", "server a round, s")
    for name, values, scale in zip(names, measured, (1e6, 1e6, 1.0, 1.0), strict=True):
        cells = " | ".join(_three(value / scale) for value in (*values, line(list(values))))
        lines.append(f"| {name} | {cells} |")
    lines += [
        "",
        f"Samples ({PER_CLIENT} of {INPUTS} numbers for each client) are {samples / 1e9:.1f} GB on every node. They "
        f"take {samples / machine.network:.0f} s of its network and {100 * samples / machine.memory:.0f} % of its "
        f"memory; at most {LARGE * machine.memory / samples:,.0f} such clients fit.",
        f"The driver also holds the clients and the selector's state: {(travels + state) / 1e9:.1f} GB. Building takes "
        f"{building / 60:.1f} minutes once, and the server takes {server:.1f} s a round, whatever the number of nodes.",
    ]
    print("\n".join(lines))
    if options.output:
        between(options.output, "sums", lines)


def _three(value: float) -> str:
    """Three digits, or all of a larger number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _chain() -> tuple[Any, bool]:
    """Layout of the model of the large population, and whether its clients are trained side by side."""
    module = initialise(Config(model={"name": "mlp", "hidden": [64]}).model, (INPUTS,), 10, Streams(0))
    job = TrainingSetup(module, 10, LocalTraining(), {}, seed=0)
    return ModuleTrainer(job).flat.layout, job.chain() is not None


if __name__ == "__main__":
    main()
