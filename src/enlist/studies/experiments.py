"""Experiments that any study may run: a simulation, and a match in the arena.

Both are what `compare` and `arena` run underneath; a study names them as `run` of its experiments.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from enlist._internal.aliases import present_config
from enlist.arena.compare import Tournament, run
from enlist.arena.genie import BSFLReward
from enlist.studies.study import Settings

if TYPE_CHECKING:
    from enlist.simulation.population import Population
    from enlist.training.engine import SharedSamples


class Competitor(NamedTuple):
    """Who is compared: as figures call it, as configurations write it, its colour, and how its rounds differ.

    >>> Competitor("Oort", "oort:paper", "#c8553d").text
    'oort:paper'
    """

    label: str
    text: str
    colour: str
    rounds: Mapping[str, Any] = {}


def simulation(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """One simulation: `settings` are {"selector": a method as text, "config": what a TOML file would say}.

    "device" may be added: "cpu" (as without it), "cuda", or "auto" for a GPU if there is one. The run lives in the
    folder "run" of the experiment: interrupted, it goes on from its last checkpoint, and `enlist report` shows it.
    Returned are the columns of rounds.csv as arrays, how often each client was asked (`selected`), and what
    result.json holds.

    >>> import tempfile
    >>> settings = {"selector": "oort", "config": {"data": {"clients": 8}, "rounds": {"rounds": 2, "k": 3}}}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = simulation(settings, 1, Path(folder))
    >>> found["status"], found["round"], int(found["selected"].sum())
    ('finished', array([1., 2.]), 6)
    """
    from enlist.runs.columns import SCORED
    from enlist.runs.scores import times_selected
    from enlist.runs.tables import read_run
    from enlist.simulation.config import parse
    from enlist.simulation.jobs import run_in

    written = present_config(settings["config"])  # results that were published say it in the words of their time
    config = parse(written, "config").with_method(settings["selector"], seed)
    bound = config.rounds.protocol == "safa"  # which no other selector may have
    population, data = _population(config.model_dump_json(exclude=None if bound else {"selector"}))
    result = run_in(folder / "run", config, population=population, data=data, device=_device(settings))
    tables = read_run(folder / "run", SCORED)
    return {**result, **tables.rounds, "asked": tables.rounds["selected"], "selected": times_selected(tables)}


def _device(settings: Settings) -> str:
    import torch

    wanted = str(settings.get("device", "cpu"))
    return ("cuda" if torch.cuda.is_available() else "cpu") if wanted == "auto" else wanted


@functools.lru_cache(maxsize=1)
def _population(config: str) -> tuple[Population, dict[str, SharedSamples]]:
    """The clients and their data, kept for the next selector of the same seed."""
    from enlist.simulation.config import parse
    from enlist.simulation.population import build
    from enlist.simulation.setup import placed
    from enlist.streams import Streams
    from enlist.training.models import initialise

    parsed = parse(json.loads(config), "config")
    population = build(parsed)
    module = initialise(parsed.model, population.shape, population.classes, Streams(parsed.seed))
    return dataclasses.replace(population, samples={}), placed(population, module, shared=False)


def match(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """One match in the arena: `settings` are {"selector": a method} and those of `arena.Tournament`, without seeds.

    Returned are the scores, `rounds` and the cumulated `curve/...` at checkpoints, and how often each client was asked
    (`selected`).

    >>> settings = {"selector": "cs-ucb", "scenario": "slow-minority", "clients": 10, "k": 2, "rounds": 20}
    >>> found = match(settings, 1, Path())
    >>> found["rounds"][-1], found["curve/pseudo"].shape, int(found["selected"].sum())
    (np.int64(20), (20,), 40)
    """
    own = {name: value for name, value in settings.items() if name != "selector"}
    if "reward" in own:
        own["reward"] = BSFLReward(**own["reward"])
    comparison = Tournament(settings["selector"], seeds=1, first_seed=seed, **own)
    record = run(comparison, comparison.labels[0], seed)
    curves = {f"curve/{name}": np.array(values) for name, values in record.curves.items()}
    return {**record.scores, "rounds": np.array(record.rounds), "selected": record.selected, **curves}
