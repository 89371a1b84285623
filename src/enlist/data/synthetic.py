"""Synthetic data from the literature: linear regression, and the softmax regressions of FedProx with users."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pydantic

from enlist.data.base import DatasetOptions, check_numbers, divided
from enlist.data.dataset import Dataset, Samples
from enlist.streams import Streams


class LinearRegression(DatasetOptions):
    """Linear regression as in the experiments of BSFL: y = x·w + b + noise·ε with x, w, b, ε standard normal.

    Ben Ami, Cohen and Zhao, "Client Selection for Generalization in Accelerated Federated Learning: A Multi-Armed
    Bandit Approach" (2023), Figures 5 and 8. The paper gives neither sizes nor noise; these are ours. Clients of
    unequal size (its non-i.i.d. scenario) come from the partition.

    >>> dataset = LinearRegression(features=3).load(Streams(1))
    >>> dataset.classes, dataset.shape, len(dataset.train), len(dataset.test)
    (0, (3,), 10000, 2000)
    """

    name: Literal["linear-regression"] = "linear-regression"
    features: int = pydantic.Field(10, ge=1, description="Number of inputs.")
    samples: int = pydantic.Field(10_000, ge=1, description="Number of training samples.")
    test_samples: int = pydantic.Field(2_000, ge=1, description="Number of test samples.")
    noise: float = pydantic.Field(0.1, ge=0, description="Standard deviation of what the inputs do not explain.")

    def load(self, streams: Streams) -> Dataset:
        """Draws the data from the stream "data draw"."""
        check_numbers(self.name, self.samples + self.test_samples, self.features)
        rng = streams.generator("data draw")
        weights, bias = rng.normal(size=self.features), rng.normal()

        def part(count: int) -> Samples:
            x = rng.normal(size=(count, self.features))
            y = x @ weights + bias + self.noise * rng.normal(size=count)
            return Samples(x, y)

        return Dataset(self.name, train=part(self.samples), test=part(self.test_samples), classes=0)


class FedProxSynthetic(DatasetOptions):
    """Synthetic(α, β): every user has a softmax regression of its own.

    User k: u_k ~ N(0, α), W_k and b_k ~ N(u_k, 1), y = argmax softmax(x·W_k + b_k); B_k ~ N(0, β), v_k ~ N(B_k, 1),
    x ~ N(v_k, Σ), Σ diagonal with Σ_jj = j^−1.2. Users hold 50 + ⌊lognormal(4, 2)⌋ samples. Li et al., "Federated
    Optimization in Heterogeneous Networks" (2020), section 5.1. Their program treats α and β as standard deviations,
    and so does this one. With `iid`, all users share W, b ~ N(0, 1), and v_k = 0; with `one_rule` they share only W
    and b, so that one model can serve all of them.

    >>> dataset = FedProxSynthetic(users=5).load(Streams(1))
    >>> dataset.classes, dataset.shape, np.unique(dataset.test.users)
    (10, (60,), array([0, 1, 2, 3, 4]))
    """

    name: Literal["fedprox-synthetic"] = "fedprox-synthetic"
    alpha: float = pydantic.Field(1.0, ge=0, description="How much the rules of users differ (standard deviation).")
    beta: float = pydantic.Field(1.0, ge=0, description="How much the inputs of users differ (standard deviation).")
    iid: bool = pydantic.Field(False, description="All users share one rule and one distribution of inputs.")
    one_rule: bool = pydantic.Field(False, description="All users share one rule; their inputs differ by beta.")
    users: int = pydantic.Field(30, ge=1, description="Number of users.")
    features: int = pydantic.Field(60, ge=1, description="Number of inputs.")
    classes: int = pydantic.Field(10, ge=2, description="Number of classes.")
    test_share: float = pydantic.Field(
        0.1, gt=0, lt=1, description="Share of every user's samples kept for testing, to within one sample."
    )

    @pydantic.model_validator(mode="after")
    def _one_world(self) -> FedProxSynthetic:
        if self.iid and (self.alpha, self.beta) != (1.0, 1.0):
            raise ValueError("iid = true makes all users alike, but alpha or beta is given; leave them out.")
        if self.one_rule and (self.iid or self.alpha != 1.0):
            raise ValueError("one_rule = true gives all users one rule, but iid or alpha is given; leave it out.")
        return self

    def load(self, streams: Streams) -> Dataset:
        """Draws sizes from the stream "data sizes", and each user from a stream of its own."""
        check_numbers(self.name, 50 * self.users, self.features)
        check_numbers(self.name, self.classes, self.features)
        sizes = 50 + streams.generator("data sizes").lognormal(4, 2, self.users).astype(np.int64)
        check_numbers(self.name, int(sizes.sum()), self.features)
        deviations = np.arange(1, self.features + 1) ** -0.6  # square roots of Σ_jj
        owners = np.repeat(np.arange(self.users), sizes)
        x, y = np.empty((len(owners), self.features), np.float32), np.empty(len(owners), np.int64)
        ends = np.cumsum(sizes)
        shape = (self.features, self.classes)
        shared = streams.generator("data draw")
        weights, bias, centre = shared.normal(size=shape), shared.normal(size=self.classes), np.zeros(self.features)
        for user, (end, size) in enumerate(zip(ends, sizes, strict=True)):
            rng = streams.generator("data user", user)
            if not self.iid:
                mean = rng.normal(0, self.alpha)
                own = rng.normal(mean, 1, shape), rng.normal(mean, 1, self.classes)
                weights, bias = (weights, bias) if self.one_rule else own
                centre = rng.normal(rng.normal(0, self.beta), 1, self.features)
            inputs = centre + deviations * rng.normal(size=(size, self.features))
            x[end - size : end], y[end - size : end] = inputs, (inputs @ weights + bias).argmax(axis=1)
        samples = Samples(x, y, owners)
        train, test = divided(owners, self.test_share, streams.generator("data test"))
        return Dataset(self.name, samples.take(train), samples.take(test), classes=self.classes)
