"""Personalised learning: rounds of Algorithm 7 of the MAB-FL thesis, on real training.

    personalisation = Personalisation(PersonalConfig(rule="ucb"))
    result = personalisation.run()

The loop is `Personalisation.step`. Before the first round every worker trains the initial model (pre-training).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from enlist._internal.typing import AnyArray, BoolArray, FloatArray
from enlist.personal.communication import units
from enlist.personal.config import PersonalConfig
from enlist.personal.decision import Decision, Play
from enlist.personal.federation import LATE, Federation, WorkerUpdate, rows
from enlist.personal.pretraining import Pretraining
from enlist.personal.priors import Estimates, learned, matched
from enlist.personal.proposals import grown
from enlist.personal.rewards import increase
from enlist.personal.rules import FixedRule
from enlist.personal.tables import PersonalRecord, PersonalRow, arm_rows
from enlist.personal.workers import Workers
from enlist.runs.folder import Saves
from enlist.simulation.callbacks import Callback, Checkpoint
from enlist.simulation.loop import do_rounds
from enlist.streams import Streams
from enlist.training.flat import Vectors
from enlist.training.workers import one_thread


class Candidate(NamedTuple):
    """A model that may become the global one, with the workers it is made from, and its validation score.

    >>> Candidate._fields
    ('members', 'model', 'score')
    """

    members: list[int]
    model: Vectors
    score: float


class Personalisation:
    """One run of a configuration.

    workers      replace those of the configuration, so that many runs can share them
    callbacks    observers, such as progress and the run folder
    model        the model to begin with instead of the initial one; then there is no pre-training
    priors       what earlier runs, of this target or others, learned: arms and estimates of their rewards

    >>> config = PersonalConfig(workers={"dataset": {"name": "telecom", "rows": 4000}}, rounds={"rounds": 3})
    >>> result = Personalisation(config).run()
    >>> result["rounds"], result["status"], result["target"], result["communication"]
    (3, 'finished', '2', 22)
    """

    def __init__(
        self,
        config: PersonalConfig,
        *,
        workers: Workers | None = None,
        callbacks: Sequence[PersonalCallback] = (),
        model: Vectors | None = None,
        priors: Sequence[Estimates] = (),
    ) -> None:
        self.config, self.callbacks, self.earlier = config, tuple(callbacks), tuple(priors)
        self.streams = Streams(config.seed)
        self.workers = config.load_workers() if workers is None else workers
        self.target = self.workers.position(config.target)
        self.federation = Federation(
            self.workers, config.model, config.training, config.seed, poison=config.poison, metric=config.metric
        )
        self.federation.poison.pop(self.target, None)  # a poisonous target does not cheat itself
        self.metric = self.federation.metric
        self.pacer, self.meter = config.rounds.epochs.start(), config.reward.start()
        self.stopper = config.stopping.start(self.metric.lower_is_better)
        self.model = self.best = self.federation.initial if model is None else model
        self.begun = model is not None or not config.rounds.pretrain
        self.round, self.communication = 0, 0
        self.previous, self.test, self.best_test = math.nan, math.nan, math.nan
        self.stopping, self.stopped = False, False

    @functools.cached_property
    def decision(self) -> Decision:
        """The rule at work on its arms."""
        rule, names = self.config.rule, self.workers.names
        if isinstance(rule, FixedRule):
            arms = rule.arms(names, self.target)
        elif self.clustered:
            arms = self.pretraining.proposed(self.config.arms)
        else:
            arms = self.config.arms.arms(names, self.target)
        decision = rule.start(arms, self.streams.generator("rule"), self.config.explore)
        folder = self.config.priors.folder
        earlier = [*self.earlier, *([] if folder is None else [learned(folder)])]
        if earlier:
            decision.priors(matched(arms, earlier), self.config.priors.weight)
        return decision

    @functools.cached_property
    def pretraining(self) -> Pretraining:
        """The pre-training of every worker that may be played, before the first round."""
        asked = np.arange(len(self.workers))
        if not self.clustered:
            asked = np.flatnonzero(self.decision.arms.members.any(axis=0))
        return Pretraining(self.federation, asked.tolist(), self.config.rounds.pretrain, self.target)

    @property
    def clustered(self) -> bool:
        """Whether arms come from clustering the updates of pre-training."""
        return self.config.arms.kind == "clusters" and not isinstance(self.config.rule, FixedRule)

    def run(self) -> dict[str, Any]:
        """Run to the end, or until `stopping` is set; returns the content of result.json."""
        try:
            with one_thread():
                do_rounds(self, self.callbacks)
                result = self.result()
                for callback in self.callbacks:
                    callback.on_finish(self, result)
        finally:
            for callback in self.callbacks:
                callback.close()
        return result

    @property
    def finished(self) -> bool:
        """Whether the last round was played, or the validation score is past its peak."""
        return self.round >= self.config.rounds.rounds or self.stopped

    def step(self) -> PersonalRecord:
        """One round: choose, train, score the target's own model and the aggregates, keep one, and learn."""
        self.round += 1
        present = self.config.failures.available(self.round, len(self.workers), self.target, self.streams)
        if not present[self.target]:
            return self._skipped("target away", present)
        play = self._play(present)
        combinations = [self.decision.arms.of(arm).tolist() for arm in play.arms] or [[self.target]]
        trained = self._train(sorted({worker for members in combinations for worker in members}), present)
        messages = self._messages(play, trained, present)
        if trained[self.target].update is None:
            return self._skipped("target failed", present, trained, messages)
        local = self._candidate([self.target], trained)  # y1 of Algorithm 7
        aggregates = [self._candidate(members, trained, local) for members in combinations]  # y2
        increases, rewards = self._rewards(play, local, aggregates)
        kept = self.decision.adopt(play, rewards) if len(play.arms) else 0
        if self.decision.delayed:
            self._change_arms()  # rewards of this round come with the next
        self.decision.learn(play.arms, rewards, increases)
        self._keep(aggregates[kept])
        row: PersonalRow = {
            **self._row(present, trained),
            "arm": "+".join(self.workers.names[worker] for worker in combinations[kept]),
            "code": "".join("1" if worker in combinations[kept] else "0" for worker in range(len(self.workers))),
            "extreme": play.extreme,
            "epochs": trained[self.target].epochs,
            "local": local.score,
            "validation": aggregates[kept].score,
            "test": self.test,
            "communication": messages,
        }
        details = arm_rows(self.decision, self.round, play, rewards, increases)
        if not self.decision.delayed:
            self._change_arms()
        return PersonalRecord(row, details)

    def result(self) -> dict[str, Any]:
        """The state of the run."""
        decision = self.decision
        arm = decision.best()
        lower, upper = decision.bounds()
        return {
            "status": "finished" if self.finished else "stopped",
            "rounds": self.round,
            "target": self.config.target,
            "metric": self.metric.name,
            "lower_is_better": self.metric.lower_is_better,
            "combination": decision.arms.label(arm),
            "code": decision.arms.code(arm),
            "estimate": float(decision.values()[arm]),
            "increase": _known(decision.evidence.mean[arm]),
            "lower": _known(lower[arm]),
            "upper": _known(upper[arm]),
            "probability": float(decision.probability_best()[arm]),
            "count": int(decision.count()[arm]),
            "removed": [decision.arms.label(other) for other in np.flatnonzero(decision.removed).tolist()],
            "best_round": self.stopper.best_round or None,
            "validation": _known(self.stopper.best),
            "test": _known(self.best_test),
            "communication": self.communication,
        }

    def _play(self, present: BoolArray) -> Play:
        """Arms whose workers are all available; a fixed combination continues with the workers that are."""
        arms = self.decision.arms
        whole = isinstance(self.config.rule, FixedRule)
        return self.decision.play(np.ones(len(arms), dtype=bool) if whole else arms.allowed(present), self.round)

    def _train(self, members: Sequence[int], present: BoolArray) -> dict[int, WorkerUpdate]:
        """The available members train and send their updates; poisonous ones distort theirs."""
        failing = self.config.failures.failing(self.round, len(self.workers), self.target, self.streams)
        if failing[self.target]:
            return {self.target: WorkerUpdate(None, 0, LATE)}  # the work of the others is useless then
        asked = [worker for worker in members if present[worker]]
        starts = None
        if not self.begun:
            self.model, starts = self.pretraining.starts(self.config.rounds.start)
        trained = self.federation.train(
            asked,
            self.model,
            self.pacer.most,
            self.round,
            starts=starts,
            failing=np.flatnonzero(failing).tolist(),
            tolerance=self.pacer.tolerance,
        )
        return self.federation.sent(trained)

    def _messages(self, play: Play, trained: Mapping[int, WorkerUpdate], present: BoolArray) -> int:
        """Messages of this round; workers that are away get none and send none."""
        arms = self.decision.arms
        away = int((arms.members[play.arms].any(axis=0) & ~present).sum())
        lost = sum(answer.update is None for answer in trained.values())
        messages = units(arms, play, delayed=self.decision.delayed, lost=lost) - 2 * away
        self.communication += messages
        return messages

    def _candidate(
        self, members: Sequence[int], trained: Mapping[int, WorkerUpdate], local: Candidate | None = None
    ) -> Candidate:
        """The aggregate of the members that replied, and its validation score with the target."""
        rest = [worker for worker in members if worker in trained and trained[worker].update is not None]
        if local is not None and rest == [self.target]:
            return local
        answers, sizes = [trained[worker] for worker in rest], self.workers.sizes[rest].tolist()
        updates = rows(answers) if self.config.weights.kind == "similarity" else None
        weights = self.config.weights.weights(sizes, rest.index(self.target), updates)
        model = self.federation.aggregate(self.model, answers, weights.tolist())
        return Candidate(rest, model, self.federation.score(model, self.target, "validation"))

    def _rewards(self, play: Play, local: Candidate, aggregates: Sequence[Candidate]) -> tuple[FloatArray, FloatArray]:
        """Increases and rewards of the played arms; NaN, no credit, where a worker did not reply."""
        if not len(play.arms):
            return np.zeros(0), np.zeros(0)
        reference = local.score if self.config.reward.against == "local" else self._before()
        found = np.array([increase(reference, one.score, self.metric.lower_is_better) for one in aggregates])
        whole = self.decision.arms.sizes[play.arms] == [len(one.members) for one in aggregates]
        found[~whole] = np.nan
        return found, self.meter.rewards(found, reference)

    def _before(self) -> float:
        """The validation score of the model with which this round began."""
        if math.isnan(self.previous):
            self.previous = self.federation.score(self.model, self.target, "validation")
        return self.previous

    def _keep(self, kept: Candidate) -> None:
        """Make this model the global one; keep it if it is the best so far."""
        model, validation = kept.model, kept.score
        if not self.begun:
            self.begun = True
            self.communication += self.pretraining.messages(self.config.rounds.start, self.clustered)
        if not math.isnan(self.previous):
            self.pacer.observe(increase(self.previous, validation, self.metric.lower_is_better))
        self.model, self.previous = model, validation
        self.test = self.federation.score(model, self.target, "test")
        self.stopped = self.stopper.update(validation)
        if self.stopper.improved:
            self.best, self.best_test = model, self.test

    def _change_arms(self) -> None:
        """Remove clearly worse arms, and add the union of the two best, if configured."""
        if self.config.elimination.confidence is not None:
            self.decision.eliminate(self.config.elimination.confidence)
        every = self.config.arms.grow
        if every and self.round % every == 0:
            means = np.where(self.decision.removed, -np.inf, self.decision.evidence.mean)
            union = grown(self.decision.arms, means)
            if union is not None:
                self.decision.extend(self.decision.arms.with_more([union]))

    def _skipped(
        self, reason: str, present: BoolArray, trained: Mapping[int, WorkerUpdate] | None = None, messages: int = 0
    ) -> PersonalRecord:
        """A round without the target: nothing is learned, and the model is unchanged."""
        self.stopper.update(math.nan)
        row: PersonalRow = {**self._row(present, trained or {}), "communication": messages, "skipped": reason}
        nothing = np.zeros(0)
        play = Play(nothing.astype(np.int64), False)
        return PersonalRecord(row, arm_rows(self.decision, self.round, play, nothing, nothing))

    def _row(self, present: BoolArray, trained: Mapping[int, WorkerUpdate]) -> PersonalRow:
        lost = [worker for worker, answer in trained.items() if answer.update is None]
        return {
            "round": self.round,
            "best_validation": self.stopper.best,
            "best_test": self.best_test,
            "cumulative_communication": self.communication,
            "available": int(present.sum()),
            "failed": "+".join(self.workers.names[worker] for worker in lost),
            "skipped": "",
        }

    def columns(self) -> dict[str, AnyArray]:
        """The columns of clients.csv."""
        return self.workers.columns(self.config.poison)

    def parts(self) -> dict[str, Saves]:
        """The parts of a checkpoint that save themselves, by name."""
        return {"decision": self.decision}

    def saved(self) -> tuple[dict[str, Any], dict[str, Any], dict[str, dict[str, Any]]]:
        """The rest of a checkpoint: header, arrays, the best model by name and the global one."""
        header = {
            "communication": self.communication,
            "previous": _known(self.previous),
            "best_test": _known(self.best_test),
            "stopped": self.stopped,
            "begun": self.begun,
            "meter": self.meter.state(),
            "stopper": self.stopper.state(),
            "pacer": self.pacer.state(),
        }
        layout = self.federation.layout
        models = {"model": layout.named(self.best), "tensors": layout.named(self.model)}
        return header, {}, {file: as_arrays(tensors) for file, tensors in models.items()}

    def meanwhile(self, errand: Callable[[], None]) -> None:
        """Act now."""
        errand()

    def take_back_evaluation(self, rows: object) -> tuple[str, ...]:
        """Every round is evaluated, so nothing of a last round needs to be undone."""
        return ()

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint, bit for bit as if the run had not stopped."""
        header, layout = checkpoint.header, self.federation.layout
        self.decision = Decision.load(checkpoint.folder / "decision")
        self.best, self.model = Vectors.zeros(layout), Vectors.zeros(layout)
        for file, model in (("model", self.best), ("tensors", self.model)):
            layout.load_named(as_tensors(checkpoint.weights[file]), model)
        self.round, self.communication = header["round"], header["communication"]
        self.stopped, self.begun = header["stopped"], header["begun"]
        self.previous = math.nan if header["previous"] is None else header["previous"]
        self.best_test = math.nan if header["best_test"] is None else header["best_test"]
        self.meter.restore(header["meter"])
        self.stopper.restore(header["stopper"])
        self.pacer.restore(header["pacer"])


PersonalCallback = Callback[Personalisation, PersonalRecord]
"""Observers of a personalisation."""


def as_arrays(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """Tensors as NumPy arrays, for saving.

    >>> as_arrays({"bias": torch.ones(2)})
    {'bias': array([1., 1.], dtype=float32)}
    """
    return {name: tensor.numpy() for name, tensor in tensors.items()}


def as_tensors(arrays: Mapping[str, Any]) -> dict[str, Tensor]:
    """Saved arrays as tensors.

    >>> as_tensors({"bias": np.ones(2)})
    {'bias': tensor([1., 1.], dtype=torch.float64)}
    """
    return {name: torch.from_numpy(values) for name, values in arrays.items()}


def _known(value: float) -> float | None:
    """The number for JSON; None if unknown."""
    return float(value) if math.isfinite(value) else None
