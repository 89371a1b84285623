"""Kinds of data and batteries in the arena."""

from __future__ import annotations

import numpy as np
import pytest

import enlist
from enlist.arena import Scenario, World
from enlist.arena.kinds import JOULES, Batteries, Kinds
from enlist.arena.play import Rules, play
from enlist.records import Selection


def test_the_loss_of_a_kind_falls_with_those_who_hold_it():
    kinds = Kinds(3, np.full(30, 10.0), seed=2)
    one = np.flatnonzero(kinds.of == 1)[:1]
    kinds.learn(one)
    # From 1: nothing comes back, and 0.5 (1 - e^-2) of it goes.
    np.testing.assert_allclose(kinds.level, [1.0, 1.0 - 0.5 * (1 - np.exp(-2.0)), 1.0])
    before = kinds.level[1]
    kinds.learn(np.zeros(0, dtype=int))
    assert kinds.level[1] == pytest.approx(before + 0.05 * (1 - before))


def test_everybody_together_makes_no_error():
    kinds, sizes = Kinds(4, np.arange(1.0, 21.0), seed=2), np.arange(1.0, 21.0)
    everybody = np.arange(20)
    assert kinds.error(1, Selection(1, everybody), everybody, sizes) == pytest.approx(0.0)
    weighed = Selection(1, everybody, weights=sizes / sizes.sum())
    assert kinds.error(1, weighed, everybody, sizes) == pytest.approx(0.0)
    assert kinds.error(1, Selection(1, everybody[:3]), everybody[:3], sizes) > 0


def test_labels_follow_the_kind():
    kinds = Kinds(4, np.full(20, 200.0), seed=2)
    counts = kinds.label_counts(np.full(20, 200.0))
    assert (counts.argmax(axis=1) == kinds.of).all()
    assert set(np.unique(counts)) == {5.0, 185.0}


def test_scores_of_kinds_are_there_where_kinds_are():
    world = World(Scenario(kinds=3), clients=20, rounds=10, seed=1)
    scores = play(enlist.create("random", world.clients()), world, Rules(k=5)).scores
    assert 0 < scores["model_loss"] < 1
    assert scores["update_error"] > 0
    plain = World(Scenario(), clients=20, rounds=10, seed=1)
    assert "model_loss" not in play(enlist.create("random", plain.clients()), plain, Rules(k=5)).scores


def test_who_runs_out_of_power_is_lost():
    batteries = Batteries(2.0, clients=10, seed=1)
    assert (batteries.left <= batteries.full).all()
    world = World(Scenario(battery=1.0), clients=10, rounds=30, seed=1)
    scores = play(enlist.create("random", world.clients()), world, Rules(k=8)).scores
    assert scores["dropped"] > 0.5  # nobody can charge as fast
    np.testing.assert_array_equal(world.clients().battery, world.batteries().full)
    assert world.batteries().full.min() > JOULES / 5
