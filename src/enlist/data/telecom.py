"""Telecom: synthetic data in the shape of the data set that the MAB-FL thesis uses and cannot publish."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pydantic

from enlist._internal.typing import AnyArray, FloatArray, IntArray
from enlist.data.base import DatasetOptions, check_numbers
from enlist.data.dataset import Dataset, Samples
from enlist.streams import Streams

RATES = {
    "train": (0.42, 0.47, 0.31, 0.35),
    "validation": (0.47, 0.48, 0.29, 0.30),
    "test": (0.47, 0.48, 0.31, 0.29),
}
"""Share of label 1 for workers 1 to 4: Table 1 of the thesis."""

WORKERS, ORDINAL, FACTORS = 4, 2, 40


class Telecom(DatasetOptions):
    """Four workers of equal size, 153 inputs of which the last 2 are ordinal, two classes; very little to train on.

    Every worker k has a rule of its own, w_k, over 40 hidden factors z; inputs are noisy mixtures of the factors,
    label 1 goes to the rows with the largest z·w_k + noise, as many as the thesis's label rates say. `likeness`
    is the cosine between w_k and the rule of worker 2, the target: worker 3 helps it, the others less so. All parts
    carry the workers 1 to 4 as users. Shapes and label rates: "Multi-Armed Bandit Orchestrated Federated Learning"
    (thesis, section 7 and Table 1); factors and rules are ours.

    >>> dataset = Telecom(rows=4000).load(Streams(1))
    >>> {part: samples.x.shape for part, samples in dataset.parts.items()}
    {'train': (40, 153), 'validation': (1600, 153), 'test': (2360, 153)}
    >>> float(dataset.test.y[dataset.test.users == 2].mean().round(2))
    0.48
    """

    name: Literal["telecom"] = "telecom"
    rows: int = pydantic.Field(40_000, ge=400, description="Samples in total, a quarter of them for each worker.")
    features: int = pydantic.Field(153, ge=10, description="Number of inputs; the last two are ordinal, 0 to 4.")
    train_share: float = pydantic.Field(0.01, gt=0, lt=1, description="Share of samples to train on.")
    validation_share: float = pydantic.Field(
        0.4, gt=0, lt=1, description="Share of samples to validate on; what is left is to test with."
    )
    difficulty: float = pydantic.Field(
        0.3, ge=0, le=1, description="Share of the variance behind the labels that no input explains."
    )
    likeness: tuple[float, float, float, float] = pydantic.Field(
        (0.6, 1.0, 0.95, 0.2), description="Cosine between the rule of each worker and that of worker 2, from -1 to 1."
    )

    @pydantic.model_validator(mode="after")
    def _shares(self) -> Telecom:
        used = self.train_share + self.validation_share
        if used >= 1:
            raise ValueError(f"train_share + validation_share = {used:g}; they must stay below 1 to leave a test part.")
        if any(not -1 <= cosine <= 1 for cosine in self.likeness) or self.likeness[1] != 1:
            raise ValueError(f"likeness = {list(self.likeness)}; cosines lie in [-1, 1], and that of worker 2 is 1.")
        smallest = min(self._counts().values())
        if smallest < 2:
            raise ValueError(f"a part has {smallest} samples for each worker; it needs 2: give more rows.")
        return self

    def load(self, streams: Streams) -> Dataset:
        """Draws the common structure from the stream "data draw" and each worker from its own."""
        check_numbers(self.name, self.rows, self.features)
        rng = streams.generator("data draw")
        target = _unit(rng.normal(size=FACTORS))
        mixing = rng.normal(size=(FACTORS, self.features)) / np.sqrt(FACTORS)
        pieces: dict[str, list[Samples]] = {part: [] for part in RATES}
        for worker in range(1, WORKERS + 1):
            rule = _unlike(target, self.likeness[worker - 1], rng)
            x, score = self._worker(rule, mixing, streams.generator("data worker", worker))
            for part, rows, labels in self._deal(score, worker, streams.generator("data parts", worker)):
                pieces[part].append(Samples(x[rows], labels, np.full(len(rows), worker)))
        joined = {part: _joined(samples) for part, samples in pieces.items()}
        return Dataset(self.name, classes=2, class_names=("0", "1"), input_names=(), **joined)

    def _counts(self) -> dict[str, int]:
        """Number of samples of each worker in each part."""
        each = self.rows // WORKERS
        train, validation = round(self.train_share * each), round(self.validation_share * each)
        return {"train": train, "validation": validation, "test": each - train - validation}

    def _worker(self, rule: FloatArray, mixing: FloatArray, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Inputs (n, features) of one worker, and the score (n,) that orders its labels."""
        count = sum(self._counts().values())
        factors = rng.normal(size=(count, FACTORS))
        x = factors @ mixing + 0.5 * rng.normal(size=(count, self.features))
        x[:, :-ORDINAL] += 0.3 * rng.normal(size=self.features - ORDINAL)  # workers measure from different levels
        x[:, -ORDINAL:] = np.clip(np.round(2 + x[:, -ORDINAL:]), 0, 4)
        hidden = np.sqrt(self.difficulty) * rng.normal(size=count)
        return x, np.sqrt(1 - self.difficulty) * (factors @ rule) + hidden

    def _deal(self, score: FloatArray, worker: int, rng: np.random.Generator) -> list[tuple[str, IntArray, AnyArray]]:
        """Part, rows and labels: the best scores get label 1, and both labels are dealt out at the label rates."""
        counts = self._counts()
        ones = {part: round(RATES[part][worker - 1] * count) for part, count in counts.items()}
        ranked = np.argsort(-score, kind="stable")
        total = sum(ones.values())
        positive, negative = rng.permutation(ranked[:total]), rng.permutation(ranked[total:])
        dealt = []
        for part, count in counts.items():
            of_ones, of_zeros = ones[part], count - ones[part]
            rows = np.concatenate([positive[:of_ones], negative[:of_zeros]])
            labels = np.repeat([1, 0], [of_ones, of_zeros])
            positive, negative = positive[of_ones:], negative[of_zeros:]
            order = rng.permutation(count)
            dealt.append((part, rows[order], labels[order]))
        return dealt


def _unit(vector: FloatArray) -> FloatArray:
    unit: FloatArray = vector / np.linalg.norm(vector)
    return unit


def _unlike(target: FloatArray, cosine: float, rng: np.random.Generator) -> FloatArray:
    """A unit vector at this cosine to `target`, in an otherwise random direction."""
    other = rng.normal(size=len(target))
    across = _unit(other - (other @ target) * target)
    unit: FloatArray = cosine * target + np.sqrt(1 - cosine**2) * across
    return unit


def _joined(pieces: list[Samples]) -> Samples:
    users = [piece.users for piece in pieces if piece.users is not None]
    x, y = np.concatenate([piece.x for piece in pieces]), np.concatenate([piece.y for piece in pieces])
    return Samples(x, y, np.concatenate(users))
