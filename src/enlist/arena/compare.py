"""Many matches: selectors x seeds in the same worlds, in parallel processes, with intervals over seeds."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from enlist._internal import checks
from enlist._internal.statistics import Summary
from enlist.arena.genie import BSFLReward, make
from enlist.arena.play import MatchRecord, Rules, play
from enlist.arena.scenarios import scenario as named
from enlist.arena.worlds import World
from enlist.engine import AnyEngine, chosen
from enlist.methods import Method
from enlist.selectors import AnyMethods, methods


@dataclasses.dataclass(frozen=True)
class Tournament:
    """Settings of a comparison: who plays, in which world, how long, with which seeds.

    `selectors` are methods in any form: "bsfl,oort+penalty=1", a list of names and classes, a dict of label to method.
    "genie" plays too.

    >>> Tournament("bsfl,fast=oort+penalty=1", scenario="slow-minority", clients=20, k=5, rounds=100, seeds=2).labels
    ('bsfl', 'fast')
    """

    selectors: AnyMethods
    scenario: str
    clients: int
    k: int
    rounds: int
    seeds: int = 10
    first_seed: int = 0
    over_commit: float = 1.0
    delay: int = 0
    late: str = "drop"
    reward: BSFLReward = BSFLReward()

    @functools.cached_property
    def methods(self) -> dict[str, Method[Any]]:
        """Label -> method."""
        return {method.label: method for method in methods(self.selectors)}

    @property
    def labels(self) -> tuple[str, ...]:
        """What the methods are called."""
        return tuple(self.methods)

    def runs(self) -> list[tuple[str, int]]:
        """Every (label, seed)."""
        seeds = range(self.first_seed, self.first_seed + self.seeds)
        return [(label, seed) for seed in seeds for label in self.labels]

    def check(self) -> None:
        """Refuse bad names and numbers before anything is played."""
        checks.whole("seeds", self.seeds, minimum=1)
        checks.whole("k", self.rules.k, minimum=1)
        for method in self.methods.values():
            make(method, self.world(self.first_seed), self.reward, self.first_seed)

    @property
    def rules(self) -> Rules:
        """How rounds are played."""
        return Rules(self.k, self.over_commit, self.delay, self.late)

    def world(self, seed: int) -> World:
        """The world of this seed: the same for every selector."""
        return World(named(self.scenario), self.clients, self.rounds, seed)


Results = dict[tuple[str, int], MatchRecord]


def run(comparison: Tournament, label: str, seed: int) -> MatchRecord:
    """One run of a comparison.

    >>> settings = Tournament(("random",), "alike", clients=10, k=2, rounds=5, seeds=1)
    >>> run(settings, "random", 0).rounds[-1]
    5
    """
    world = comparison.world(seed)
    player = make(comparison.methods[label], world, comparison.reward, seed)
    return play(player, world, comparison.rules, comparison.reward)


def compare(
    comparison: Tournament,
    jobs: int = 1,
    progress: Callable[[str, int], None] | None = None,
    engine: AnyEngine = None,
) -> Results:
    """All runs; the results do not depend on `jobs`, nor on the `engine`: "local", "ray", or "ray://host:10001".

    >>> settings = Tournament(("random", "cs-ucb"), "slow-minority", clients=10, k=2, rounds=50, seeds=2)
    >>> sorted(compare(settings))
    [('cs-ucb', 0), ('cs-ucb', 1), ('random', 0), ('random', 1)]
    """
    comparison.check()
    checks.whole("jobs", jobs, minimum=1)
    results: Results = {}
    tick = progress or (lambda selector, seed: None)
    keys, kinds = comparison.runs(), tuple(method.selector for method in comparison.methods.values())
    tasks = [(comparison, *key) for key in keys]
    with chosen(engine, jobs) as where:
        played = where.map(run, tasks, role="a process of the arena", kinds=kinds)
        with contextlib.closing(played) as ends:
            for number, record in ends:
                results[keys[number]] = record
                tick(*keys[number])
    return {key: results[key] for key in keys}


def summarise(results: Results, quantity: str) -> dict[str, Summary]:
    """A score of every selector over its seeds.

    >>> settings = Tournament(("random",), "alike", clients=10, k=2, rounds=20, seeds=3)
    >>> summarise(compare(settings), "late")["random"].mean
    0.0
    """
    selectors = dict.fromkeys(selector for selector, _ in results)
    return {
        name: Summary.of([record.scores[quantity] for (selector, _), record in results.items() if selector == name])
        for name in selectors
    }


def paired_difference(results: Results, quantity: str, selector: str, against: str = "random") -> Summary:
    """Mean difference in a score between two selectors that met the same worlds, with its 95 % interval.

    >>> settings = Tournament(("random", "cs-ucb"), "slow-minority", clients=20, k=5, rounds=300, seeds=3)
    >>> paired_difference(compare(settings), "round_time", "cs-ucb").high < 0
    True
    """
    scores = {key: record.scores[quantity] for key, record in results.items()}
    seeds = [seed for name, seed in results if name == selector]
    return Summary.of([scores[selector, seed] - scores[against, seed] for seed in seeds])


def rollout_regret(results: Results, selector: str) -> Summary:
    """What a selector loses against the genie on its own path from the start (the genie must be among the players).

    >>> settings = Tournament(("random", "genie"), "slow-minority", clients=20, k=5, rounds=50, seeds=2)
    >>> rollout_regret(compare(settings), "random").mean > 0
    True
    """
    difference = paired_difference(results, "expected_reward", selector, against="genie")
    return Summary(-difference.mean, -difference.high, -difference.low)


def growth(results: Results, curve: str = "pseudo") -> dict[str, Summary]:
    """R(2n) - R(n) over R(n): below 1 for regret that flattens, 1 for regret that grows linearly.

    >>> settings = Tournament(("random",), "slow-minority", clients=20, k=5, rounds=400, seeds=2)
    >>> 0.8 < growth(compare(settings))["random"].mean < 1.1
    True
    """
    ratios: dict[str, list[float]] = {}
    for (selector, _), record in results.items():
        half = record.rounds.index(max(record.rounds[-1] // 2, 1))
        first, whole = record.curves[curve][half], record.curves[curve][-1]
        ratios.setdefault(selector, []).append((whole - first) / first if first > 1e-9 else 0.0)
    return {selector: Summary.of(values) for selector, values in ratios.items()}


def save(folder: Path, comparison: Tournament, results: Results) -> None:
    """Write settings (JSON), scores and curves (CSV) of a comparison.

    >>> import tempfile
    >>> settings = Tournament(("random",), "alike", clients=10, k=2, rounds=5, seeds=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(Path(folder), settings, compare(settings))
    ...     sorted(path.name for path in Path(folder).iterdir())
    ['curves.csv', 'scores.csv', 'settings.json']
    """
    folder.mkdir(parents=True, exist_ok=True)
    settings = {
        "enlist": version("enlist"),
        **dataclasses.asdict(dataclasses.replace(comparison, selectors=())),
        "selectors": comparison.labels,
        "methods": {label: method.text for label, method in comparison.methods.items()},
        "world": dataclasses.asdict(named(comparison.scenario)),
    }
    (folder / "settings.json").write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
    with open(folder / "scores.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = list(next(iter(results.values())).scores)
        writer.writerow(["selector", "seed", *names])
        for (selector, seed), record in results.items():
            writer.writerow([selector, seed, *(record.scores[name] for name in names)])
    with open(folder / "curves.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        names = list(next(iter(results.values())).curves)
        writer.writerow(["selector", "seed", "round", *names])
        for (selector, seed), record in results.items():
            for row, number in enumerate(record.rounds):
                writer.writerow([selector, seed, number, *(record.curves[name][row] for name in names)])
