"""The reverse of personalised learning: one model for all workers, without those that harm it.

In every round all workers train. For each worker j the server draws random subsets S of the others and compares the
aggregates of S and of S with j; the gain of leaving j out is the median over workers w of

    score of S with w  -  score of S and j with w,

each on w's own validation samples. The mean over subsets and rounds is the Banzhaf value of j with reversed sign:
unlike leaving one out of all, it shows the harm of one poisonous worker next to another. Medians let a minority of
liars decide nothing. Effects shrink during training, so gains are also taken relative to the mean size of all gains
of their round. A clearly harmful worker (the lower bound of its mean relative gain is above 0, and its mean gain above
`margin`) is left out from then on, one worker per round, the worst first. As in Extreme Explore, the best aggregate of
a round becomes the global model.

Reference for the value: Wang and Jia, "Data Banzhaf: A Robust Data Valuation Framework for Machine Learning", 2023.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from enlist._internal import checks
from enlist._internal.typing import FloatArray
from enlist.bandits.evidence import ArmStatistics
from enlist.personal.communication import fedavg_units
from enlist.personal.config import PersonalConfig
from enlist.personal.federation import Federation, WorkerUpdate
from enlist.personal.workers import Workers
from enlist.streams import Streams
from enlist.training.flat import Vectors
from enlist.training.workers import one_thread

LEAST_WORKERS = 2
"""Minimum number of workers that always stay."""

Subset = tuple[int, ...]


class GeneralModel:
    """Federated averaging that learns which workers to leave out. Target, arms, rule and rewards of the configuration
    are not used; data, model, training, rounds, failures and poison are.

    confidence    confidence of the interval of the mean relative gain
    margin        minimum gain of leaving a worker out, in units of the metric
    draws         subsets of the others drawn for each worker and round

    >>> small = {"dataset": {"name": "telecom", "rows": 4000}}
    >>> poison = [{"kind": "sign-flip", "workers": ["4"], "factor": 5.0}]
    >>> result = GeneralModel(PersonalConfig(workers=small, rounds={"rounds": 10}, poison=poison)).run()
    >>> result["left_out"]
    ['4']
    """

    def __init__(
        self,
        config: PersonalConfig,
        *,
        workers: Workers | None = None,
        confidence: float = 0.95,
        margin: float = 0.005,
        draws: int = 4,
    ) -> None:
        self.config, self.margin = config, checks.finite("margin", margin, 0.0)
        self.confidence = checks.finite("confidence", confidence, 0.0, 1.0 - 1e-12)
        self.draws = checks.whole("draws", draws, minimum=1)
        self.workers = config.load_workers() if workers is None else workers
        self.federation = Federation(
            self.workers, config.model, config.training, config.seed, poison=config.poison, metric=config.metric
        )
        self.metric, self.streams = self.federation.metric, Streams(config.seed)
        self.model = self.best = self.federation.initial
        self.best_score, self.best_round = self.metric.worst, 0
        self.evidence, self.relative = (ArmStatistics.create(len(self.workers)) for _ in range(2))
        self.kept = list(range(len(self.workers)))
        self.round, self.communication = 0, 0

    def run(self) -> dict[str, Any]:
        """Run all rounds; returns the workers left out, and the scores of the best model."""
        with one_thread():
            while self.round < self.config.rounds.rounds:
                self.step()
        return self.result()

    def step(self) -> dict[str, Any]:
        """One round: train, compare subsets with and without each worker, leave one out if that clearly helps."""
        self.round += 1
        trained = self._train()
        there = [worker for worker, answer in trained.items() if answer.update is not None]
        tried = _Tried(self, trained)
        if not there:
            return {"round": self.round, "score": math.nan, "gains": {}, "left_out": ""}
        tried.scores(tuple(there))
        gains = self._gains(there, tried) if len(there) > 1 else {}
        harmful = self._harmful(gains)
        if harmful is not None:
            self.kept.remove(harmful)
        self.model, score = tried.best(tuple(there), without=harmful)
        if self.metric.better(score, self.best_score):
            self.best, self.best_score, self.best_round = self.model, score, self.round
        names = self.workers.names
        return {
            "round": self.round,
            "score": score,
            "gains": {names[worker]: value for worker, value in gains.items()},
            "left_out": "" if harmful is None else names[harmful],
        }

    def result(self) -> dict[str, Any]:
        """The workers left out, the gain of leaving each out, and the best model's test scores."""
        names, everybody = self.workers.names, range(len(self.workers))
        lower, upper = self.evidence.bounds(self.confidence)
        tests = self.federation.scores(self.best, list(everybody), "test")
        return {
            "rounds": self.round,
            "metric": self.metric.name,
            "lower_is_better": self.metric.lower_is_better,
            "left_out": [names[worker] for worker in everybody if worker not in self.kept],
            "gains": {
                names[worker]: {
                    "mean": float(self.evidence.mean[worker]),
                    "low": _finite(lower[worker]),
                    "high": _finite(upper[worker]),
                    "count": int(self.evidence.count[worker]),
                }
                for worker in everybody
            },
            "best_round": self.best_round or None,
            "validation": _finite(self.best_score),
            "test": dict(zip(names, tests, strict=True)),
            "communication": self.communication,
        }

    def _train(self) -> dict[int, WorkerUpdate]:
        """Updates of the remaining workers that are there; one set of aggregates goes out, and its scores come back."""
        count, failures = len(self.workers), self.config.failures
        present = failures.available(self.round, count, -1, self.streams)
        failing = np.flatnonzero(failures.failing(self.round, count, -1, self.streams)).tolist()
        asked = [worker for worker in self.kept if present[worker]]
        epochs = self.config.rounds.epochs.epochs
        trained = self.federation.train(asked, self.model, epochs, self.round, failing=failing)
        lost = sum(answer.update is None for answer in trained.values())
        self.communication += 2 * fedavg_units(len(asked)) - lost if asked else 0
        return self.federation.sent(trained)

    def _gains(self, there: list[int], tried: _Tried) -> dict[int, float]:
        """The median worker's gain from leaving each worker out, averaged over some subsets of the others."""
        rng = self.streams.generator("subsets", self.round)
        found = {}
        for worker in there:
            others = np.array([other for other in there if other != worker])
            values = []
            for _ in range(self.draws):
                inside = rng.random(len(others)) < 0.5
                inside[rng.integers(len(others))] |= not inside.any()
                some = others[inside].tolist()
                values.append(np.median(tried.scores(tuple(some)) - tried.scores(tuple(sorted([*some, worker])))))
            found[worker] = float(np.mean(values))
        workers, gains = np.array(list(found)), np.array(list(found.values()))
        self.evidence.add(workers, gains)
        self.relative.add(workers, gains / max(float(np.abs(gains).mean()), 1e-12))
        return found

    def _harmful(self, gains: dict[int, float]) -> int | None:
        """The worker that is most clearly worth leaving out, if there is one."""
        lower, _ = self.relative.bounds(self.confidence)
        clear = [worker for worker in gains if lower[worker] > 0 and self.evidence.mean[worker] > self.margin]
        if not clear or len(self.kept) <= LEAST_WORKERS:
            return None
        return max(clear, key=lambda worker: lower[worker])


class _Tried:
    """The aggregates of a round made so far, and their validation scores with all remaining workers."""

    def __init__(self, general: GeneralModel, trained: dict[int, WorkerUpdate]) -> None:
        self.general, self.trained = general, trained
        self.models: dict[Subset, Vectors] = {}
        self.found: dict[Subset, FloatArray] = {}

    def scores(self, members: Subset) -> FloatArray:
        """Scores of the aggregate of these workers, (remaining workers,); higher is better."""
        if members not in self.found:
            general = self.general
            answers, sizes = [self.trained[worker] for worker in members], general.workers.sizes[list(members)].tolist()
            model = general.federation.aggregate(general.model, answers, sizes)
            sign = -1.0 if general.metric.lower_is_better else 1.0
            found = np.array(general.federation.scores(model, general.kept, "validation"))
            self.models[members], self.found[members] = model, sign * found
        return self.found[members]

    def best(self, everybody: Subset, without: int | None) -> tuple[Vectors, float]:
        """The aggregate with the largest gain for the median worker over that of all, and its mean score."""
        reference = self.found[everybody]
        allowed = [members for members in self.found if without not in members]
        if not allowed:
            allowed = [everybody]
        chosen = max(allowed, key=lambda members: float(np.median(self.found[members] - reference)))
        score = float(self.found[chosen].mean())
        return self.models[chosen], -score if self.general.metric.lower_is_better else score


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
