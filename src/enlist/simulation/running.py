"""One simulation from Python: `simulate` runs it and returns a `Run`; `read` gives the `Run` of a folder."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

from enlist import books, selectors
from enlist._internal.typing import IntArray
from enlist.engine import AnyEngine, chosen
from enlist.errors import InputError
from enlist.records import Selection
from enlist.runs import checkpoints
from enlist.runs.folder import RunFolder
from enlist.runs.tables import read_run
from enlist.simulation.callbacks import Callback, Recorder
from enlist.simulation.config import GROWING, Config, load
from enlist.simulation.population import Population, build
from enlist.simulation.results import InMemory, Run
from enlist.simulation.setup import make_selector
from enlist.simulation.simulation import Simulation
from enlist.streams import Streams
from enlist.training.engine import SharedSamples
from enlist.training.models import initialise

AnyConfig = Config | str | PathLike[str]


def simulate(
    config: AnyConfig,
    selector: selectors.AnyMethod | None = None,
    *,
    seed: int | None = None,
    folder: str | PathLike[str] | None = None,
    resume: bool = False,
    workers: int = 0,
    engine: AnyEngine = None,
    callbacks: Sequence[Callback] = (),
    device: str = "cpu",
    trust: bool = False,
    accept_changes: bool = False,
) -> Run:
    """Train one federation under a virtual clock.

    Parameters
    ----------
    config : Config or path
        What to run: a `Config`, or the path of a TOML file.
    selector : str, class or Method, optional
        The selector, in place of the configuration's: "oort", "bsfl:paper", `Oort.with_(penalty=1.0)`, your own class.
    seed : int, optional
        The seed, in place of the configuration's.
    folder : path, optional
        Where to keep the run, so that it can be killed and continued; without one it stays in memory.
    resume : bool, default False
        Continue the run in `folder`; a finished one is returned as it is, or extended if `config` wants more rounds
        or virtual seconds than it had.
    workers : int, default 0
        Processes that train; 0 trains in this one. The results are the same.
    engine : str or Engine, default "local"
        Where the workers are: "local", or on a Ray cluster: "ray" or "ray://host:10001".
    callbacks : sequence of Callback
        Observers of the run: progress, trackers, your own.
    device : {"cpu", "cuda"}, default "cpu"
        Where to train.
    trust : bool, default False
        Run the code that a received folder's config.json names; see docs/trust.md.
    accept_changes : bool, default False
        Continue with a folder whose files were changed in the meantime.

    Returns
    -------
    Run
        Tables as data frames, the model, and scores.

    >>> from enlist.selectors import Oort
    >>> config = Config(data={"clients": 10}, rounds={"rounds": 3, "k": 4})
    >>> simulate(config, Oort.with_(penalty=1.0), seed=3)
    Run('oort+penalty=1.0', seed=3, 3 rounds, ...)
    """
    settings = configured(config, trust)
    if selector is not None:
        settings = settings.with_method(selector, seed)
    elif seed is not None:
        settings = settings.replace(seed=seed)
    with contextlib.ExitStack() as stack:
        place: dict[str, Any] = {"workers": workers, "device": device}
        if workers and engine is not None:
            place["engine"] = stack.enter_context(chosen(engine))
        if folder is None:
            return in_memory(settings, callbacks, **place)
        settings = settings.recorded()
        values, code = settings.model_dump(mode="json"), settings.code()
        options: dict[str, Any] = {"tables": settings.tables(), "changed": settings.not_default(), "growing": GROWING}
        options |= {"resume": resume, "code": code, "accept_changes": accept_changes}
        with RunFolder.open(folder, values, **options) as opened:
            if not opened.finished():
                recorder = Recorder(opened)
                with Simulation(settings, callbacks=(recorder, *callbacks), **place) as simulation:
                    if resume:
                        recorder.restore(simulation)
                    simulation.run()
    return read(folder, settings)


def configured(config: AnyConfig, trust: bool = False) -> Config:
    """A configuration, or the one in the given file; `trust` lets a received folder's config.json name code.

    >>> configured(Config(seed=3)).seed
    3
    """
    if isinstance(config, str | PathLike):
        return load(config, trust=trust)
    if not isinstance(config, Config):
        raise InputError(f"config is {config!r:.80}; pass an enlist.simulation.Config, or the path of a TOML file.")
    return config


def replay(config: AnyConfig, log: str | PathLike[str], *, trust: bool = False) -> Iterator[tuple[Selection, IntArray]]:
    """Replay the log of a run with the selector of its configuration; nothing is trained.

    Parameters
    ----------
    config : Config or path
        The configuration of the run.
    log : path
        What `Simulation(config, log=...)` or `enlist run --log` wrote.
    trust : bool, default False
        Run the code that a received folder's config.json names; see docs/trust.md.

    Yields
    ------
    Selection, array
        For every round, whom the selector chooses now and whom it chose then; if they differ, an error is raised.

    >>> import tempfile
    >>> config = Config(data={"clients": 10}, rounds={"rounds": 3, "k": 4}, selector="oort")
    >>> log = f"{tempfile.mkdtemp()}/log.jsonl"
    >>> _ = Simulation(config, log=log).run()
    >>> [selection.clients.tolist() == chosen.tolist() for selection, chosen in replay(config, log)]
    [True, True, True]
    """
    settings = configured(config, trust)
    yield from books.replay(log, make_selector(settings, build(settings)))


def in_memory(
    config: Config,
    callbacks: Sequence[Callback] = (),
    *,
    population: Population | None = None,
    data: dict[str, SharedSamples] | None = None,
    **settings: Any,
) -> Run:
    """Run a configuration without a folder.

    >>> in_memory(Config(data={"clients": 10}, rounds={"rounds": 2, "k": 4})).summary["rounds"]
    2
    """
    memory = InMemory()
    simulation = Simulation(config, callbacks=(memory, *callbacks), population=population, data=data, **settings)
    simulation.run()
    clients, server = simulation.columns(), simulation.server
    models = {"model": server.model, "best": simulation.state.watch.model}
    weights = {
        which: {name: tensor.numpy() for name, tensor in server.layout.named(model).items()}
        for which, model in models.items()
        if model is not None
    }
    shape, classes = simulation.population.shape, simulation.population.classes
    accuracies = functools.partial(np.array, simulation.state.client_accuracy)
    model = functools.partial(_model, config, weights, shape, classes)
    return Run(config, memory.tables(config.selector.title, config, clients), model, accuracies)


def read(folder: str | PathLike[str], config: Config | None = None, *, trust: bool = False) -> Run:
    """The run in a folder; of a run in progress, the rounds up to the last complete one.

    Parameters
    ----------
    folder : path
        A run folder.
    config : Config, optional
        Its configuration, if that holds Python objects, such as a model class defined in a notebook.
    trust : bool, default False
        Let the model be code that a received folder names; see docs/trust.md.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as place:
    ...     config = Config(data={"clients": 10}, rounds={"rounds": 2, "k": 4})
    ...     run = simulate(config, folder=f"{place}/run")
    ...     bool((read(f"{place}/run").rounds["end"] == run.rounds["end"]).all())
    True
    """
    path = Path(folder)
    tables = read_run(path)
    settings = config or load(path / "config.json", trust=trust, code=lambda config: ())

    def model(which: str) -> torch.nn.Module:
        own = config or load(path / "config.json", trust=trust, code=_code_of_model)
        population = build(own)
        return _model(own, checkpoints.last(path).weights, population.shape, population.classes, which)

    return Run(settings, tables, model, lambda: checkpoints.last(path).arrays.get("client_accuracy"))


def _code_of_model(config: Config) -> tuple[str, ...]:
    return (*config.data.dataset.code(), *config.model.code())


def _model(
    config: Config, weights: checkpoints.Weights, shape: tuple[int, ...], classes: int, which: str
) -> torch.nn.Module:
    if which not in weights:
        raise InputError("nothing was evaluated yet, so there is no best model; wait for the first evaluation.")
    module = initialise(config.model, shape, classes, Streams(config.seed))
    module.load_state_dict({name: torch.from_numpy(np.array(values)) for name, values in weights[which].items()})
    return module.eval()
