"""Poisonous workers: what they do to samples and updates, and that nobody else is touched."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from enlist.data import Samples
from enlist.errors import EnlistError, InputError
from enlist.personal.poison import LabelFlipPoison, NoiseFeaturesPoison, ScaledPoison, SignFlipPoison
from enlist.streams import Streams
from enlist.training.flat import Vectors
from tests.personal.personal_helpers import config, run, task

THREE = [1.0, 0.9, 0.5]


def test_all_labels_of_two_classes_are_turned() -> None:
    clean, flipped = task(THREE), task(THREE, poison=[LabelFlipPoison(workers=["w1"])])
    start, stop = clean.span("train", 1)
    mine = slice(start, stop)
    assert (flipped.data["train"].y[mine] == 1 - clean.data["train"].y[mine]).all()
    others = np.r_[0:start, stop : len(clean.data["train"])]
    assert torch.equal(flipped.data["train"].y[others], clean.data["train"].y[others])
    for part in ("validation", "test"):
        assert torch.equal(flipped.data[part].y, clean.data[part].y)
    assert torch.equal(flipped.data["train"].x, clean.data["train"].x)


def test_a_share_of_labels_and_other_classes() -> None:
    samples = Samples(np.zeros((50, 1)), np.arange(50) % 5)
    found = LabelFlipPoison(workers=["w1"], share=0.4).spoil(samples, 0, 5, Streams(1)).y
    assert (found != samples.y).sum() == 20
    assert set(found.tolist()) <= set(range(5))
    targets = Samples(np.zeros((200, 1)), np.linspace(0.0, 1.0, 200))
    moved = LabelFlipPoison(workers=["w1"]).spoil(targets, 0, 0, Streams(1)).y
    assert np.std(moved - targets.y) == pytest.approx(targets.y.std(), rel=0.2)


def test_noise_on_inputs_is_as_wide_as_asked_and_the_workers_own() -> None:
    rng = np.random.default_rng(1)
    samples = Samples(rng.normal(size=(4000, 2)) * [1.0, 10.0], np.zeros(4000, int))
    first, second = (NoiseFeaturesPoison(workers=["w1"], scale=3.0).spoil(samples, w, 2, Streams(1)).x for w in (0, 1))
    widths = (first - samples.x).std(axis=0)
    assert widths == pytest.approx([3.0, 30.0], rel=0.05)
    assert not np.allclose(first, second)


def test_updates_are_turned_and_blown_up_but_buffers_stay() -> None:
    for kind, expected in (
        (SignFlipPoison(workers=["a"], factor=2.0), -2.0),
        (ScaledPoison(workers=["a"], factor=7.0), 7.0),
    ):
        update = Vectors(torch.ones(3), torch.ones(2), torch.ones(1))
        kind.distort(update)
        assert update.parameters.tolist() == [expected] * 3
        assert update.buffers.tolist() == [1.0] * 2


def test_names_that_are_not_there_are_refused() -> None:
    with pytest.raises(EnlistError, match="poison 'label-flip' has no worker called 'w9'"):
        task(THREE, poison=[LabelFlipPoison(workers=["w9"])])
    with pytest.raises(InputError, match="at least 1 item"):
        LabelFlipPoison(workers=[])
    assert LabelFlipPoison(workers=[3]).workers == ("3",)


def test_the_target_does_not_cheat_itself() -> None:
    """A poisonous target still trains its own model honestly: alone, it ends as if there were no poison."""
    workers = task(THREE)
    alone = {"kind": "fixed", "combination": "alone"}
    honest, _ = run(config(rule=alone), workers)
    poisonous, _ = run(config(rule=alone, poison=[{"kind": "sign-flip", "workers": ["w0", "w1"]}]), workers)
    assert torch.equal(honest.model.parameters, poisonous.model.parameters)
    assert list(poisonous.federation.poison) == [1]


def test_what_a_partner_sends_is_distorted_and_what_it_trains_is_not() -> None:
    workers = task(THREE)
    run_, _ = run(config(poison=[{"kind": "scaled", "workers": ["w1"], "factor": 3.0}]), workers)
    federation = run_.federation
    honest = federation.train([0, 1], federation.initial, 1, 1)
    sent = federation.sent(honest)
    assert torch.equal(sent[1].update.parameters, honest[1].update.parameters * 3.0)
    assert sent[0] is honest[0]


def test_an_update_that_poison_makes_infinite_is_a_failure_and_not_a_credit() -> None:
    workers = task(THREE)
    poison = [{"kind": "scaled", "workers": ["w1"], "factor": 1e39}]
    _, memory = run(config(rule="extreme-explore", poison=poison), workers)
    rows = [row for row in memory.arms if row["arm"] == "w0+w1"]
    assert not any(row["credited"] for row in rows)
    assert all(row["failed"] == "w1" for row in memory.rounds)
    assert all(row["credited"] for row in memory.arms if row["arm"] == "w0+w2")
