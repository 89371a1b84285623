"""Personalised learning across silos: a model for one node, and the other nodes that help it, found by trial.

    from enlist.flower.personal import Personalising
    from enlist.personal.rules import UCBRule

    strategy = Personalising("clinic-a", UCBRule(), folder="~/clinic-a")
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=40)      # the best model for clinic-a
    strategy.combination                                                          # "clinic-a+clinic-c"

In a round (Algorithm 7 of the MAB-FL thesis) a rule picks a combination that contains the target; its nodes train; the
target evaluates the model that it trained itself, and the average of the combination; the difference is the reward.
Clients need `@app.train()`, `@app.evaluate()` that reports a score on the target's validation data, and
`@app.query("enlist")`, with which nodes report their names. Needs the extra `sim` in addition to `flower`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from flwr.app import ArrayRecord, ConfigRecord, Message, MessageType, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy

from enlist._internal import checks
from enlist._internal.typing import AnyArray, FloatArray
from enlist.errors import InputError
from enlist.flower.federation import FlowerFederation
from enlist.flower.grid import LOGGER, Clock, Messenger
from enlist.flower.nodes import QUERY, NodeManager
from enlist.flower.replies.arrays import examined, misshapen, records_of, shapes_of, unweighed, weight_of
from enlist.flower.replies.reply import Reply, measured
from enlist.flower.replies.updates import Model, model_of, record_of
from enlist.flower.saving.folder import refuse_packed
from enlist.flower.selector import SelectorSource
from enlist.flower.terms import Terms
from enlist.personal.arms import Arms
from enlist.personal.communication import units
from enlist.personal.decision import Decision, ExploreRounds, Play
from enlist.personal.rewards import Increment, Reward, increase
from enlist.personal.rules import FixedRule, RuleOptions
from enlist.personal.stopping import Never, Stopper, Stopping
from enlist.personal.tables import PERSONAL_TABLES, arm_rows
from enlist.runs.folder import RunFolder, Saves

NOTHING = np.zeros(0)


class NodeModel(NamedTuple):
    """A model trained by a node, and its number of examples.

    >>> NodeModel({}, 10.0).examples
    10.0
    """

    model: Model
    examples: float


class Personalising(Strategy):
    """Finds the combination of nodes that helps the target most, and trains with it.

    target      name of the node that the model is for
    rule        of `enlist.personal.rules`: UCB, Thompson sampling, Extreme Explore, ...
    reward      of `enlist.personal.rewards`; by default the improvement over training alone
    arms        "pairs" (the target with each other), "all" combinations, or a list of lists of names
    workers     names of all nodes that may participate; by default the nodes connected at the start
    deadline    seconds to wait for training, and for evaluations
    score_key   key of the score in the evaluation's MetricRecord; `lower_is_better` for a loss; a score on test data
                may be sent under the same key prefixed with "test-", and is only recorded
    eliminate   remove a combination that is worse than another with this confidence, such as 0.99
    folder      where tables and checkpoints are written, outside the app's own folder; an existing run is resumed
    accept_changes
                resume even if files of `folder` were edited after they were written; otherwise this is refused

    >>> from enlist.personal.rules import UCBRule
    >>> Personalising("clinic-a", UCBRule()).target
    'clinic-a'
    """

    clock: Clock = time

    def __init__(
        self,
        target: str,
        rule: RuleOptions,
        reward: Reward | None = None,
        *,
        arms: str | Sequence[Sequence[str]] = "pairs",
        workers: Sequence[str] | None = None,
        explore: ExploreRounds | None = None,
        stopping: Stopping | None = None,
        eliminate: float | None = None,
        deadline: float = 600.0,
        min_nodes: int = 2,
        patience: float = 600.0,
        score_key: str = "accuracy",
        lower_is_better: bool = False,
        weighted_by_key: str = "num-examples",
        seed: int = 0,
        folder: str | PathLike[str] | None = None,
        accept_changes: bool = False,
    ) -> None:
        self.target, self.rule, self.reward = str(target), rule, Increment() if reward is None else reward
        if rule.binary and not self.reward.binary:
            raise InputError(f"{type(rule).__name__} needs rewards of 0 and 1; pass reward=Binary() or Quantile().")
        if self.reward.against != "local":
            raise InputError("in a federation, scores are compared with the target's local one; pass against='local'.")
        self.kind = checks.one_of("arms", arms, ("pairs", "all")) if isinstance(arms, str) else list(map(list, arms))
        self.workers = None if workers is None else [str(name) for name in workers]
        self.explore, self.eliminate, self.seed = explore, eliminate, checks.whole("seed", seed, minimum=0)
        self.score_key, self.lower_is_better, self.weight_key = score_key, lower_is_better, weighted_by_key
        self.folder, self.accept_changes = None if folder is None else Path(folder).expanduser(), accept_changes
        if self.folder is not None:
            refuse_packed(self.folder)
        self.terms = Terms(k=1, deadline=deadline, patience=patience, identify="always", min_nodes=min_nodes)
        self.deadline = checks.seconds("deadline", deadline)
        self.stopper: Stopper = (Never() if stopping is None else stopping).start(lower_is_better)
        self.meter = self.reward.start()
        self.federation = FlowerFederation(SelectorSource.of("random", None, None, seed))
        self.node_manager = NodeManager(self.federation, self.terms, max(min_nodes, len(self.workers or ())))
        self.decision: Decision | None = None
        self.round, self.communication, self.best_test = 0, 0, math.nan
        self.best: ArrayRecord | None = None
        self.stopped = False

    @property
    def combination(self) -> str:
        """The combination learned so far."""
        return self._decision.arms.label(self._decision.best())

    @property
    def _decision(self) -> Decision:
        if self.decision is None:
            raise InputError("nothing has been tried yet; start the strategy first.")
        return self.decision

    def summary(self) -> None:
        """Log what is about to run."""
        LOGGER.info("\t├──> Enlist: a model for %s, %s over %s", self.target, type(self.rule).__name__, self.kind)

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600.0,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Any = None,
    ) -> Result:
        """Run, or resume the run in the folder; the result's arrays are the best model for the target.

        A run that stopped early is not resumed.
        """
        self.messenger = Messenger(self.clock, self.terms.poll)
        self.configs = dict(train_config or {}), dict(evaluate_config or {})
        self.wait = min(self.deadline, timeout)
        self.summary()
        if self.folder is None:
            return self._run(grid, initial_arrays, num_rounds, None)
        with RunFolder.open(
            self.folder, self._config(), resume=True, tables=PERSONAL_TABLES, accept_changes=self.accept_changes
        ) as folder:
            return self._run(grid, initial_arrays, num_rounds, folder)

    def _run(self, grid: Grid, arrays: ArrayRecord, rounds: int, folder: RunFolder | None) -> Result:
        self.shapes = shapes_of(arrays)
        self.model: Model = model_of(arrays)
        self._restore(folder)
        result = Result(arrays=record_of(self.model) if self.best is None else self.best)
        for number in () if self.stopped else range(self.round + 1, rounds + 1):
            self.online = self.node_manager.wait_for_nodes(grid, self.messenger, number, self._sort)
            row, arms = self._step(grid, number)
            self.round = number
            LOGGER.info("enlist personal %s", " ".join(f"{name}={value}" for name, value in row.items() if value != ""))
            self.stopped = self.stopper.update(float(row.get("validation", math.nan)))
            if self.stopper.improved or self.best is None:
                self.best = record_of(self.model)
            result.arrays = self.best
            row |= {"best_validation": self.stopper.best, "cumulative_communication": self.communication}
            self.best_test = row.get("test", math.nan) if self.stopper.improved else self.best_test
            row["best_test"] = self.best_test
            self._save(folder, row, arms)
            if self.stopped:
                break
        if folder is not None:
            folder.write_result(self._ending("stopped early" if self.stopped else "finished"))
        return result

    def _step(self, grid: Grid, number: int) -> tuple[dict[str, Any], list[Any]]:
        """One round: play, train, compare, adopt, learn."""
        decision = self._begun()
        arms = decision.arms
        there = {self.federation.nodes.names[place]: node for place, node in self._seats()}
        present = np.array([name in there for name in arms.names])
        row: dict[str, Any] = {"round": number, "available": int(present.sum()), "skipped": ""}
        nothing = Play(np.zeros(0, dtype=np.int64), extreme=False)
        if not present[arms.target]:
            return row | {"communication": 0, "skipped": "target away"}, self._arm_rows(nothing)
        play = decision.play(arms.allowed(present), number)
        members = np.flatnonzero(arms.members[play.arms].any(axis=0)) if len(play.arms) else np.array([arms.target])
        asked = {there[arms.names[worker]]: worker for worker in members.tolist()}
        trained = self._train(grid, number, asked)
        messages = units(arms, play, delayed=decision.delayed, lost=len(asked) - len(trained))
        self.communication += messages
        row |= {
            "communication": messages,
            "failed": "+".join(arms.names[w] for w in asked.values() if w not in trained),
        }
        if arms.target not in trained:
            return row | {"skipped": "target failed"}, self._arm_rows(nothing)
        groups = [[worker for worker in arms.of(arm).tolist() if worker in trained] for arm in play.arms.tolist()]
        models = [self._average([trained[worker] for worker in group]) for group in groups]
        judged = self._score(grid, number, there[self.target], [trained[arms.target].model, *models])
        local, *scores = [validation for validation, _ in judged]
        if math.isnan(local):
            return row | {"skipped": "target did not evaluate"}, self._arm_rows(nothing)
        increases = np.array([increase(local, score, self.lower_is_better) for score in scores])
        whole = np.array([len(group) for group in groups]) == arms.sizes[play.arms]
        increases[~whole] = np.nan
        rewards = self.meter.rewards(increases, local)
        row |= {"local": local, "extreme": play.extreme, "validation": local, "test": judged[0][1], "arm": self.target}
        if len(play.arms) and not np.isnan(scores).all():
            kept = decision.adopt(play, np.where(np.isnan(scores), np.nan, rewards))
            arm = int(play.arms[kept])
            self.model = models[kept]
            row |= {"arm": arms.label(arm), "code": arms.code(arm), "validation": scores[kept]}
            row["test"] = judged[kept + 1][1]
            decision.learn(play.arms, rewards, increases)
        else:
            self.model = trained[arms.target].model
        if self.eliminate is not None:
            decision.eliminate(self.eliminate)
        return row, self._arm_rows(play, rewards, increases)

    def _arm_rows(self, play: Play, rewards: FloatArray = NOTHING, increases: FloatArray = NOTHING) -> list[Any]:
        return arm_rows(self._decision, self.round + 1, play, rewards, increases)

    def _seats(self) -> list[tuple[int, int]]:
        nodes, online = self.federation.nodes, set(self.online) - self.messenger.busy
        return [(place, node) for place, node in enumerate(nodes.nodes) if node in online and node is not None]

    def _begun(self) -> Decision:
        """The decision; it is created once the names of the nodes are known."""
        if self.decision is None:
            nodes = self.federation.nodes
            named = [name for name, told in zip(nodes.names, nodes.told, strict=True) if told]
            names = self.workers or sorted(named)
            if self.target not in names:
                raise InputError(
                    f"no node says that it is '{self.target}' (connected: {', '.join(names) or 'none'}); answer the "
                    'server\'s question with @app.query("enlist") and enlist.flower.client.introduction.'
                )
            if isinstance(self.rule, FixedRule):
                arms = self.rule.arms(names, self.target)
            elif isinstance(self.kind, list):
                arms = Arms.listed(names, self.target, self.kind)
            else:
                arms = (Arms.pairs if self.kind == "pairs" else Arms.every)(names, self.target)
            self.decision = self.rule.start(arms, np.random.default_rng(self.seed), self.explore)
        return self.decision

    def _train(self, grid: Grid, number: int, asked: Mapping[int, int]) -> dict[int, NodeModel]:
        """The models of workers that replied in time with something usable, by worker."""
        content = RecordDict({"arrays": record_of(self.model), "config": self._numbered(self.configs[0], number)})
        messages = [Message(content=content, dst_node_id=node, message_type=MessageType.TRAIN) for node in asked]
        found: dict[int, NodeModel] = {}
        for reply, content in self._exchange(grid, messages, "train", number):
            records = records_of(content)
            shapes, fault = examined(records)
            fault = fault or misshapen(shapes, self.shapes) or unweighed(records, self.weight_key)
            if fault:
                LOGGER.warning("enlist refused: node %d: %s", reply.node, fault)
                continue
            model = model_of(next(iter(records.arrays.values())))
            found[asked[reply.node]] = NodeModel(model, weight_of(records, self.weight_key))
        return found

    def _score(self, grid: Grid, number: int, node: int, models: Sequence[Model]) -> list[tuple[float, float]]:
        """The target's scores of models on validation data and, if reported, test data; NaN where not reported."""
        config = self._numbered(self.configs[1], number)
        contents = [RecordDict({"arrays": record_of(model), "config": config}) for model in models]
        kind = MessageType.EVALUATE
        messages = [Message(content=content, dst_node_id=node, message_type=kind) for content in contents]
        scores: dict[str, tuple[float, float]] = {}
        for reply, content in self._exchange(grid, messages, "evaluate", number):
            metrics = next(iter(records_of(content).metrics.values()), None)
            found = [measured(metrics, (key,)) for key in (self.score_key, f"test-{self.score_key}")]
            validation, test = (math.nan if score is None else score for score in found)
            scores[reply.identity] = validation, test
        return [scores.get(message.metadata.message_id, (math.nan, math.nan)) for message in messages]

    def _exchange(self, grid: Grid, messages: list[Message], kind: str, number: int) -> list[tuple[Reply, RecordDict]]:
        """The replies to these messages that are not errors, with their content."""
        sent = self.messenger.send(grid, messages, kind, number)
        names = {instruction.identity for instruction in sent}
        found = [reply for reply in self._sort(self.messenger.wait(grid, sent, self.wait)) if reply.identity in names]
        told = [(reply, reply.message) for reply in found]
        return [(reply, message.content) for reply, message in told if message is not None and message.has_content()]

    def _sort(self, replies: Sequence[Reply]) -> list[Reply]:
        for reply in replies:
            if reply.kind == QUERY:
                self.node_manager.introduce(reply)
        return [reply for reply in replies if reply.kind != QUERY]

    def _average(self, group: Sequence[NodeModel]) -> Model:
        """The mean weighted by numbers of examples, in the order of workers."""
        total = sum(one.examples for one in group)
        return {
            name: np.asarray(sum(one.model[name] * (one.examples / total) for one in group)).astype(value.dtype)
            for name, value in self.model.items()
        }

    def _numbered(self, config: Mapping[str, Any], number: int) -> ConfigRecord:
        return ConfigRecord({**config, "server-round": number})

    def _config(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "rule": self.rule.model_dump(mode="json"),
            "reward": self.reward.model_dump(mode="json"),
            "arms": self.kind,
            "metric": self.score_key,
            "seed": self.seed,
        }

    def _restore(self, folder: RunFolder | None) -> None:
        saved = None if folder is None else folder.load()
        if saved is None:
            return
        header = saved.header
        self.round, self.communication = header["round"], header["communication"]
        self.stopped = header.get("stopped", False)
        self.best_test = math.nan if header["best_test"] is None else header["best_test"]
        self.decision = Decision.load(saved.folder / "decision")
        self.federation.restore(header["federation"], saved.arrays, saved.folder / "selector")
        self.meter.restore(header["meter"])
        self.stopper.restore(header["stopper"])
        self.model = {name: saved.weights["current"][name] for name in header["names"]}
        self.best = record_of({name: saved.weights["model"][name] for name in header["names"]})
        LOGGER.info("enlist: continuing after round %d of %s", self.round, self.folder)

    def _save(self, folder: RunFolder | None, row: Mapping[str, Any], arms: Sequence[Any]) -> None:
        if folder is None:
            return
        folder.write_clients(self._workers())
        folder.append("arms.csv", arms)
        folder.append("rounds.csv", [row])
        known, arrays = self.federation.state()
        best = self.best
        assert best is not None
        header = {
            "communication": self.communication,
            "stopped": self.stopped,
            "best_test": None if math.isnan(self.best_test) else self.best_test,
            "meter": self.meter.state(),
            "stopper": self.stopper.state(),
            "names": list(self.model),
            "federation": known,
        }
        weights = {
            "model": {name: array.numpy().copy(order="C") for name, array in best.items()},
            "current": {name: np.asarray(value).copy(order="C") for name, value in self.model.items()},
        }
        parts: dict[str, Saves] = {"decision": self._decision, "selector": self.federation.selector}
        folder.save(self.round, header, arrays, weights, parts)

    def _workers(self) -> dict[str, AnyArray]:
        """clients.csv: the workers, with their numbers of samples as far as they reported them."""
        nodes, names = self.federation.nodes, self._decision.arms.names
        seats = [nodes.nodes[seat] if (seat := nodes.named(name)) is not None else None for name in names]
        told = [self.node_manager.introductions.get(node or 0) for node in seats]
        samples = [math.nan if one is None or one.num_examples is None else one.num_examples for one in told]
        return {"worker": np.array(names), "num_examples": np.array(samples), "poison": np.full(len(names), "")}

    def _ending(self, status: str) -> dict[str, Any]:
        decision = self._decision
        arm = decision.best()
        return {
            "status": status,
            "rounds": self.round,
            "target": self.target,
            "combination": decision.arms.label(arm),
            "code": decision.arms.code(arm),
            "probability": float(decision.probability_best()[arm]),
            "communication": self.communication,
        }

    def _not_used(self, *arguments: Any, **named: Any) -> Any:
        """Not used: a round sends messages several times, so `start` makes its own."""
        raise NotImplementedError("a round of personalised learning is run by start(grid=...)")

    configure_train = aggregate_train = configure_evaluate = aggregate_evaluate = _not_used
