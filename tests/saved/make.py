"""Writes what this version of Enlist saves, small:  python tests/saved/make.py tests/saved/0.2

Run it once for each release, with that release installed; tests/test_saved.py then holds that every later version
reads these folders, or refuses them with a sentence. It never overwrites: before the release, remove the folder first.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import enlist
from enlist import studies
from enlist.engine import local
from enlist.personal.after import every_target
from enlist.personal.config import parse as parse_personal
from enlist.runs import RunFolder
from enlist.simulation import Callback, Recorder, Simulation, parse
from enlist.simulation.comparison import Comparison
from enlist.studies.running import Reproduction
from enlist.testing import population, transcript

ROUNDS = 6
STOPPED_AFTER = 3
RUN: dict[str, Any] = {
    "seed": 5,
    "selector": {"name": "oort"},
    "data": {"dataset": "digits", "clients": 12},
    "availability": {"kind": "diurnal"},
    "failures": {"crash": 0.1},
    "model": {"name": "mlp", "hidden": [4]},
    "training": {"batch": 20, "lr": 0.1},
    "rounds": {"rounds": ROUNDS, "k": 4, "over_commit": 1.5, "late": "merge"},
    "server": {"optimiser": "fedadam"},
    "evaluation": {"every": 2},
}
PERSONAL: dict[str, Any] = {
    "target": "2",
    "workers": {"dataset": {"name": "telecom", "rows": 800}},
    "model": {"name": "mlp", "hidden": [4]},
    "rounds": {"rounds": 3, "epochs": 1, "pretrain": 1},
}
NEXT = 8
"""Rounds that a loaded selector is asked for; next.json holds those that the version that saved it chose."""


class Stop(Callback):
    """Ends a run after a round, as Ctrl-C does."""

    def on_round(self, simulation: Any, *told: Any) -> None:  # what is told differs between releases
        if simulation.round == STOPPED_AFTER:
            simulation.stopping = True


def run(place: Path, stopped: bool) -> None:
    """A run; `stopped` half-way, or finished."""
    config = parse(RUN, "fixture")
    with RunFolder.open(place, config.model_dump(mode="json"), resume=False) as folder:
        Simulation(config, callbacks=[Recorder(folder), *([Stop()] if stopped else [])]).run()


def comparison(place: Path) -> None:
    """Two selectors, two seeds; one run is missing, as if it had been killed before it."""
    config = parse({**RUN, "rounds": {"rounds": 3, "k": 4}}, "fixture")
    compared = Comparison(config, ("random", "oort"), 2, 0)
    compared.run(place)
    shutil.rmtree(compared.folder(place, ("oort", 1)))


def study(place: Path) -> None:
    """The first few experiments of MAB-FL's smallest scale."""
    found = studies.get("mabfl")
    with Reproduction.open(found, found.scale("smoke"), place) as work:
        work.experiments = work.experiments[:3]
        work._perform(work.experiments, local(), lambda *state: None)


def personal(place: Path) -> None:
    """A personalised run of one seed."""
    config = parse_personal(PERSONAL, "fixture")
    every_target(config, place / f"seed-{config.seed}", targets=["2"])


def federation(place: Path) -> None:
    """A Flower federation of ten nodes, one of which fails, after four of six rounds."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.flower.test_resuming import federation as federate

    federate(place, 4)


def selectors(place: Path) -> None:
    """Every selector after 30 rounds of the contract suite's trouble, and the clients it asks next."""
    for name in enlist.names():
        selector = enlist.create(name, population(20), seed=7)
        transcript(selector, 30)
        selector.save(place / name)
        (place / name / "next.json").write_text(json.dumps(transcript(selector, NEXT)) + "\n")


def main(place: Path) -> None:
    """Write everything into a new folder."""
    place.mkdir(parents=True)
    run(place / "run", stopped=True)
    run(place / "run-finished", stopped=False)
    for make in (comparison, study, personal, federation, selectors):
        with tempfile.TemporaryDirectory() as scratch:
            make(Path(scratch) / "saved")
            shutil.copytree(Path(scratch) / "saved", place / make.__name__)
    for extra in ("wall.csv", "lock"):
        for path in place.rglob(extra):
            path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
