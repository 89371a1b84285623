"""What the tests of the simulation share: small configurations, scripted devices, a selector that remembers."""

from __future__ import annotations

import dataclasses
import itertools
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

import enlist
from enlist import selectors, storage
from enlist.contract import Selector
from enlist.devices import Devices, Intervals, Latency
from enlist.records import Feedback
from enlist.runs import RunFolder, folder
from enlist.simulation import Callback, Config, Population, Recorder, Simulation, build, parse
from enlist.simulation.jobs import run_in
from enlist.streams import Streams

SMALL: dict[str, Any] = {
    "data": {"dataset": "digits", "clients": 10, "partition": "iid"},
    "devices": {"kind": "equal"},
    "model": {"name": "mlp", "hidden": [6]},
    "training": {"batch": 20, "lr": 0.1},
    "rounds": {"rounds": 4, "k": 4},
    "evaluation": {"every": 2},
}
torch.set_num_threads(1)  # as the library does; several threads only wait for each other on models of this size
TABLES = ("rounds.csv", "participations.csv", "clients.csv")


def config(**sections: Any) -> Config:
    """SMALL with some keys changed."""
    values = {name: {**part} for name, part in SMALL.items()}
    for name, part in sections.items():
        whole = not isinstance(part, dict) or "kind" in part or (name == "model" and "name" in part)
        values[name] = part if whole else {**values.get(name, {}), **part}
    return parse(values, "test")


class Memory(Callback):
    """Keeps every row."""

    def __init__(self) -> None:
        self.rounds: list[Any] = []
        self.participations: list[Any] = []

    def on_round(self, simulation: Simulation, record: Any) -> None:
        self.rounds.append(dict(record.row))
        self.participations += [dict(entry) for entry in record.participations]

    def told(self, round: int) -> dict[int, str]:
        """Client -> outcome that was told in a round."""
        return {row["client"]: row["outcome"] for row in self.participations if row["round"] == round}


def run(settings: Config, *callbacks: Callback, **arguments: Any) -> tuple[Simulation, Memory]:
    """Run to the end."""
    memory = Memory()
    simulation = Simulation(settings, callbacks=(memory, *callbacks), **arguments)
    simulation.run()
    return simulation, memory


class Kill(BaseException):
    """Ends a run at once, like a kill: nothing in the library may catch it."""


SAVING = ("selector", "model", "tensors", "state", "sync", "rename", "after rename")
"""The steps of saving a checkpoint."""


def break_at(step: str, failure: BaseException, patch: Any, number: int = 1) -> None:
    """Let saving a checkpoint fail at one of its steps, the time `number`."""

    def failing(original: Any, when: Any) -> Any:
        calls = itertools.count(1)

        def function(*arguments: Any, **named: Any) -> Any:
            if when(*arguments) and next(calls) == number:
                raise failure
            return original(*arguments, **named)

        return function

    replace, sync = storage.replace, folder._sync
    save_file = folder.safetensors.numpy.save_file
    if step in ("selector", "state"):
        in_folder = lambda path, *_: path.parent.name == step and path.name == "state.json"  # noqa: E731
        patch.setattr(storage, "replace", failing(replace, in_folder))
    elif step in ("model", "tensors"):
        patch.setattr(folder.safetensors.numpy, "save_file", failing(save_file, lambda _, path: path.stem == step))
    elif step == "sync":
        patch.setattr(folder, "_sync", failing(sync, lambda path: path.name == "model.safetensors"))
    elif step == "rename":
        patch.setattr(os, "rename", failing(os.rename, lambda *_: True))
    elif step == "after rename":
        patch.setattr(folder, "_sync", failing(sync, lambda path: path.name == "checkpoints"))
    else:
        raise ValueError(step)


KILLS = ("before the tables", "between the tables", "a torn row", "before saving", "removing", "after the round")
"""Where else a run may be killed."""


class Assassin(Callback):
    """Ends the run after a round."""

    def __init__(self, round: int) -> None:
        self.round = round

    def on_round(self, simulation: Any, record: Any) -> None:
        if record.row["round"] == self.round:
            raise Kill


def kill_at(kind: str, number: int, patch: Any) -> tuple[list[Callback], list[Callback]]:
    """Arrange for a kill at one of KILLS, in round `number`: callbacks to come before the recorder, and after it."""
    if kind == "before the tables":
        return [Assassin(number)], []
    if kind == "after the round":
        return [], [Assassin(number)]
    if kind in ("between the tables", "a torn row"):
        append = RunFolder.append

        def cut(self: RunFolder, table: str, rows: Any) -> None:
            if table == "rounds.csv" and rows[0]["round"] == number:
                if kind == "a torn row":
                    self.tables[table].opened().write("8,17.2")
                    self.tables[table].flush()
                raise Kill
            append(self, table, rows)

        patch.setattr(RunFolder, "append", cut)
    elif kind == "before saving":
        save = Recorder.checkpoint

        def never(self: Recorder, simulation: Any) -> Callable[[], None]:
            if simulation.round == number:
                raise Kill
            return save(self, simulation)

        patch.setattr(Recorder, "checkpoint", never)
    elif kind == "removing":
        remove = shutil.rmtree

        def half(path: Path, *others: Any, **named: Any) -> None:
            if Path(path).suffix != ".partial" and Path(path).is_dir():
                for file in list(Path(path).rglob("*.safetensors")):
                    file.unlink()
                raise Kill
            remove(path, *others, **named)

        patch.setattr(shutil, "rmtree", half)
    else:
        raise ValueError(kind)
    return [], []


def continue_run(
    path: Path,
    settings: Config,
    *callbacks: Callback,
    first: Sequence[Callback] = (),
    eager: bool = True,
    **arguments: Any,
) -> None:
    """Run in a folder from its last checkpoint on; eager: with a checkpoint after every round, else at the end only."""
    values, tables = settings.recorded().model_dump(mode="json"), settings.tables()
    with RunFolder.open(path, values, resume=True, tables=tables) as opened:
        recorder = Recorder(opened)
        recorder.SHARE = float("inf") if eager else 1e-300  # type: ignore[misc]
        recorder.cost = 0.0 if eager else 1.0
        simulation = Simulation(settings, callbacks=(*first, recorder, *callbacks), **arguments)
        try:
            recorder.restore(simulation)
        except BaseException:
            simulation.trainer.close()
            raise
        simulation.run()


def run_child(path: str, values: dict[str, Any], workers: int) -> None:
    """What a child process does that is to be killed."""
    run_in(Path(path), parse(values, "test"), workers=int(workers))


def checkpoint(path: Path) -> Path:
    """The only whole checkpoint of a run."""
    (found,) = (path / "checkpoints").iterdir()
    return found


def contents(path: Path) -> dict[str, bytes]:
    """Every byte that a run promises to reproduce: tables, result, model, state and selector."""
    files = [path / name for name in (*TABLES, "result.json", "config.json")]
    files += sorted(path.glob("reasons.csv"))  # none if there was nothing to choose by
    files += sorted(file for file in checkpoint(path).rglob("*") if file.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def assert_same(path: Path, other: Path) -> None:
    """Two runs left the same bytes."""
    first, second = contents(path), contents(other)
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []


class Scripted(Devices):
    """Devices whose parts of the latency are given: (N,) or (rounds, N) seconds, the last row going on."""

    def __init__(self, download: Any, compute: Any, upload: Any) -> None:
        self.parts = [np.atleast_2d(np.asarray(part, dtype=float)) for part in (download, compute, upload)]
        count = self.parts[0].shape[1]
        super().__init__(np.ones(count), np.ones(count), Streams(0))

    def latency(self, round: int, clients: Any, samples: Any, model_bytes: int) -> Latency:
        return Latency(*(part[min(round, len(part)) - 1][clients] for part in self.parts))

    def expected(self, samples: Any, model_bytes: int) -> Latency:
        return Latency(*(part[0] for part in self.parts))


def scripted(
    settings: Config, download: Any = None, compute: Any = None, upload: Any = None, **fields: Any
) -> Population:
    """The population of a configuration on scripted devices; a part that is not given takes no time."""
    population = build(settings)
    zeros = np.zeros(len(population))
    devices = Scripted(*(zeros if part is None else part for part in (download, compute, upload)))
    return dataclasses.replace(population, devices=devices, **fields)


def sessions(count: int, rows: list[tuple[int, float, float]], period: float = 1e6) -> Intervals:
    """Availability by rows (client, start, end); a client without a row is always online."""
    named = {client for client, _, _ in rows}
    rows = rows + [(client, 0.0, period) for client in range(count) if client not in named]
    clients, starts, ends = (np.array(column) for column in zip(*rows, strict=True))
    return Intervals(clients, starts.astype(float), ends.astype(float), np.full(count, period))


class Remembering(Selector[Any, Any]):
    """Takes the first k available clients, and keeps what it was asked and told (in the class: one run at a time)."""

    name = "remembering"
    needs = frozenset({"latency", "loss", "accuracy", "accuracy_gain"})
    asked: ClassVar[list[Any]] = []
    heard: ClassVar[list[tuple[int, Feedback, Any]]] = []

    def ask(self, available: Any = None, k: int = 1, **others: Any) -> Any:
        selection = super().ask(available, k, **others)
        type(self).asked.append(SimpleNamespace(available=np.asarray(available), k=k, selection=selection, **others))
        return selection

    def choose(self, request: Any) -> Any:
        return request.pick(np.arange(request.k))

    def tell(self, selection: Any, feedback: Feedback, round: Any = None) -> None:
        super().tell(selection, feedback, round)
        type(self).heard.append((selection.round, feedback.resolved(selection), round))

    @classmethod
    def register(cls, monkeypatch: Any) -> None:
        cls.asked, cls.heard = [], []
        register(monkeypatch, cls)


def register(monkeypatch: Any, kind: type[Selector[Any, Any]]) -> None:
    """Make a selector known by its name, as an installed package would."""
    known = {kind.name: SimpleNamespace(load=lambda: kind)}
    monkeypatch.setattr(selectors, "_installed", lambda: known)


class Touchy(nn.Module):
    """A linear model that misbehaves when it is trained on a batch with label-coded inputs: see `behaviour`."""

    def __init__(self, behaviour: str, inputs: int = 3, classes: int = 2) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, classes)
        self.behaviour = behaviour

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(x.flatten(1))
        if self.training and bool((x.flatten(1)[:, 0] > 50).any()):
            if self.behaviour == "nan":
                return out * float("nan")
            if self.behaviour == "inf":
                return (out * 1e38) * 1e38
            raise {"runtime": RuntimeError, "value": ValueError, "key": KeyError, "zero": ZeroDivisionError}[
                self.behaviour
            ]("I do not like these samples")
        return out


class Deadly(nn.Module):
    """A linear model; training it ends the process if a file exists, which is removed first if it may go on later."""

    def __init__(self, flag: str, always: bool = False) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 10)
        self.flag, self.always = flag, always

    def forward(self, x: Tensor) -> Tensor:
        if self.training and Path(self.flag).exists():
            if not self.always:
                Path(self.flag).unlink()
            os._exit(3)
        out: Tensor = self.linear(x.flatten(1))
        return out


def model(simulation: Simulation) -> Tensor:
    """The global model's parameters, a copy."""
    return simulation.server.model.parameters.clone()


def by_hand(
    module: nn.Module, x: Tensor, y: Tensor, plan: Any, rate: float, momentum: float = 0.0, decay: float = 0.0,
    prox: float = 0.0, classes: int = 10,
) -> list[Tensor]:  # fmt: skip
    """SGD with autograd, as plainly as can be; changes the module, returns the losses of every step's samples."""
    sent = [parameter.detach().clone() for parameter in module.parameters()]
    velocity = [torch.zeros_like(parameter) for parameter in module.parameters()]
    losses = []
    module.train()
    for row in plan:
        index = torch.tensor([position for position in row.tolist() if position >= 0])
        if classes:
            each = nn.functional.cross_entropy(module(x[index]), y[index], reduction="none")
        else:
            each = (module(x[index]).reshape(-1) - y[index]) ** 2
        module.zero_grad()
        each.mean().backward()
        losses.append(each.detach())
        with torch.no_grad():
            for parameter, base, speed in zip(module.parameters(), sent, velocity, strict=True):
                if parameter.grad is None:
                    continue
                gradient = parameter.grad + decay * parameter + prox * (parameter - base)
                speed.mul_(momentum).add_(gradient)
                parameter -= rate * speed
    return losses


def named(simulation: Simulation) -> dict[str, Tensor]:
    """The global model by name."""
    return simulation.server.layout.named(simulation.server.model)


def every_selector() -> list[str]:
    return list(enlist.names())
