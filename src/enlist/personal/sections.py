"""Parts of the configuration with behaviour: workers with their samples, arms, weights, and failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from enlist._internal.options import Options
from enlist._internal.typing import BoolArray, FloatArray
from enlist.data import AnyDataset, AnyPartition, Dirichlet, FromFile, Telecom
from enlist.personal.arms import Arms
from enlist.personal.poison import AnyPoison
from enlist.personal.proposals import similarity_weights, size_weights, target_weights
from enlist.personal.workers import Workers
from enlist.streams import Streams


class WorkersSection(Options):
    """The workers and their samples.

    >>> WorkersSection(dataset={"name": "telecom", "rows": 4000}).load(Streams(1)).names
    ('1', '2', '3', '4')
    """

    dataset: AnyDataset = pydantic.Field(
        Telecom(), description="A data set whose samples belong to users, or are spread over `count` workers."
    )
    files: dict[str, FromFile] = pydantic.Field(
        {}, description="Instead of a data set: a file for each worker, by the worker's name."
    )
    count: int = pydantic.Field(
        0,
        ge=0,
        le=10**6,
        description="Number of workers: the first users of the data, or all if 0; samples without a user are spread "
        "over them.",
    )
    partition: AnyPartition = pydantic.Field(Dirichlet(), description="How samples are spread over `count` workers.")
    validation: float = pydantic.Field(
        0.4, gt=0, lt=1, description="Share of a worker's training samples for validation, if it has none of its own."
    )
    test: float = pydantic.Field(
        0.3, gt=0, lt=1, description="Share of a worker's training samples for testing, if it has none of its own."
    )

    @pydantic.field_validator("dataset", "partition", mode="before")
    @classmethod
    def _short(cls, given: Any, info: pydantic.ValidationInfo) -> Any:
        key = "name" if info.field_name == "dataset" else "kind"
        return {key: given} if isinstance(given, str) else given

    @pydantic.field_validator("files", mode="before")
    @classmethod
    def _paths(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        return {name: {"path": file} if isinstance(file, str | Path) else file for name, file in given.items()}

    def load(self, streams: Streams, poison: Sequence[AnyPoison] = ()) -> Workers:
        """The workers with their samples; poison spoils those of the workers that it names."""
        if self.files:
            read = {name: file.load(streams) for name, file in self.files.items()}
            return Workers.files(read, streams, validation=self.validation, poison=poison)
        dataset = self.dataset.load(streams)
        shares = {"validation": self.validation, "test": self.test}
        if self.count and dataset.train.users is None:
            return Workers.spread(dataset, self.count, self.partition, streams, **shares, poison=poison)
        return Workers.of(dataset, streams, most=self.count, **shares, poison=poison)


class ArmsSection(Options):
    """Which combinations may be played; the target is in each.

    >>> ArmsSection(kind="all").arms(["1", "2", "3"], 1).codes
    ('010', '110', '011', '111')
    """

    kind: Literal["pairs", "all", "list", "clusters"] = pydantic.Field(
        "pairs",
        description="Pairs with the target; all combinations (at most 15 others); a list; or those that clustering "
        "the updates of pre-training proposes.",
    )
    alone: bool = pydantic.Field(False, description="Add the target alone as an arm (pairs and clusters).")
    combinations: tuple[tuple[str, ...], ...] = pydantic.Field((), description="The list: names of workers.")
    size: int = pydantic.Field(5, ge=1, le=15, description="Most other workers that clustering proposes.")
    subsets: Literal["pairs", "all"] = pydantic.Field(
        "pairs", description="Clustering proposes pairs and the whole cluster, or all subsets of it."
    )
    grow: int = pydantic.Field(
        0, ge=0, description="Rounds after which the union of the two best arms is added, each time; 0 for never."
    )

    @pydantic.model_validator(mode="after")
    def _matters(self) -> ArmsSection:
        if (self.kind == "list") != bool(self.combinations):
            raise ValueError(f"kind = '{self.kind}' with {len(self.combinations)} combinations; a list needs them, "
                             "others have none.")  # fmt: skip
        return self

    def arms(self, names: Sequence[str], target: int) -> Arms:
        """The arms that are known before training; clustering needs updates, so it comes later."""
        if self.kind == "all":
            return Arms.every(names, target)
        if self.kind == "list":
            return Arms.listed(names, target, self.combinations)
        return Arms.pairs(names, target, self.alone)


class SampleWeights(Options):
    """Each worker is weighted by its number of samples.

    >>> SampleWeights().weights([10, 30], 0, None)
    array([0.25, 0.75])
    """

    kind: Literal["samples"] = "samples"

    def weights(self, sizes: Sequence[int], target: int, updates: Any) -> FloatArray:
        """Weights of the members of a combination, in which the target has position `target`."""
        return size_weights(sizes)


class TargetWeights(Options):
    """The target has a fixed share, and the others share the rest by their samples.

    >>> TargetWeights().weights([10, 30, 10], 1, None)
    array([0.15, 0.7 , 0.15])
    """

    kind: Literal["target"] = "target"
    share: float = pydantic.Field(0.7, gt=0, le=1, description="Weight of the target's model.")

    def weights(self, sizes: Sequence[int], target: int, updates: Any) -> FloatArray:
        """Weights of the members of a combination, in which the target has position `target`."""
        return target_weights(sizes, target, self.share)


class SimilarityWeights(Options):
    """Samples times the cosine between a worker's update and the target's, if that is above 0.

    >>> SimilarityWeights().weights([10, 10], 0, [[1.0, 0.0], [3.0, 4.0]])
    array([0.625, 0.375])
    """

    kind: Literal["similarity"] = "similarity"
    temperature: float | None = pydantic.Field(
        None, gt=0, description="If given, weights are exp(cosine / temperature) times samples instead."
    )

    def weights(self, sizes: Sequence[int], target: int, updates: Any) -> FloatArray:
        """Weights of the members of a combination, in which the target has position `target`."""
        return similarity_weights(updates, target, sizes, self.temperature)


AnyWeights = Annotated[SampleWeights | TargetWeights | SimilarityWeights, pydantic.Field(discriminator="kind")]


class WorkerFailures(Options):
    """Workers that are away, and workers that do not reply; both at random, round by round.

    >>> WorkerFailures(away=1.0).available(1, 3, target=1, streams=Streams(1))
    array([False,  True, False])
    """

    away: float = pydantic.Field(0.0, ge=0, le=1, description="Probability that a partner is away in a round.")
    fail: float = pydantic.Field(0.0, ge=0, le=1, description="Probability that a partner does not reply.")
    target_away: float = pydantic.Field(0.0, ge=0, le=1, description="Probability that the target is away in a round.")
    target_fail: float = pydantic.Field(0.0, ge=0, le=1, description="Probability that the target's training fails.")

    def available(self, round: int, workers: int, target: int, streams: Streams) -> BoolArray:
        """Which workers are available in a round, (W,)."""
        return ~self._hit("away", self.away, self.target_away, round, workers, target, streams)

    def failing(self, round: int, workers: int, target: int, streams: Streams) -> BoolArray:
        """Which workers would not reply in a round, (W,)."""
        return self._hit("failures", self.fail, self.target_fail, round, workers, target, streams)

    def _hit(
        self, purpose: str, chance: float, of_target: float, round: int, workers: int, target: int, streams: Streams
    ) -> BoolArray:
        if not (chance or of_target):
            return np.zeros(workers, dtype=bool)
        chances = np.full(workers, chance)
        chances[target] = of_target
        return np.asarray(streams.generator(purpose, round).random(workers) < chances)
