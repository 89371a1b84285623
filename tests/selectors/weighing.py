"""What tests share of selectors that weigh updates: clients, gradients, and the mean of the aggregate."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import t as student

import enlist
from enlist import Clients, Feedback

SIZES = np.array([30.0, 10.0, 10.0, 10.0, 25.0, 5.0, 8.0, 2.0])
GRADIENTS = np.random.default_rng(8).normal(size=(8, 3)) * np.array([9, 1, 1, 1, 4, 1, 1, 0.2])[:, None]
DRAWS = 2000


def see_all(selector, **columns):
    """Tell the selector about every client, one by one: a sampler with weights may leave some out of a large round."""
    for client in range(len(selector.clients)):
        picked = selector.ask([client], k=1)
        selector.tell(picked, Feedback(**{name: values[client : client + 1] for name, values in columns.items()}))


def assert_unbiased(name):
    """The mean of the aggregate is the full gradient, and everybody is drawn as often as is stated.

    Every coordinate of the full gradient lies in a 99.9 % interval, Bonferroni over three of them; the mean of 1/p over
    the rounds that drew a client, 0 in the others, is 1 within five of its own standard errors.
    """
    selector = enlist.create(name, Clients(num_examples=SIZES), seed=5)
    see_all(selector, update=GRADIENTS, update_norm=np.linalg.norm(GRADIENTS, axis=1))
    whole = SIZES @ GRADIENTS / SIZES.sum()
    sums, drawn = [], np.zeros((DRAWS, len(SIZES)))
    for number in range(DRAWS):
        picked = selector.ask(k=3)
        sums.append(picked.weights @ GRADIENTS[picked.clients])
        drawn[number, picked.clients] = 1.0 / picked.probabilities
    gap = np.mean(sums, axis=0) - whole
    half = student.ppf(1 - 0.001 / 6, DRAWS - 1) * np.std(sums, axis=0, ddof=1) / math.sqrt(DRAWS)
    assert (np.abs(gap) < half + 1e-12).all()
    assert (half < 0.35).all()  # the interval says something
    error = drawn.std(axis=0, ddof=1) / math.sqrt(DRAWS)
    assert (np.abs(drawn.mean(axis=0) - 1.0) <= 5.0 * error + 1e-12).all()
    assert np.median(error) < 0.06  # and so does this one, but for who is hardly ever drawn
