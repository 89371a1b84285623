"""Priors: what an earlier run, or the run of another target, learned about combinations."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from enlist._internal import files
from enlist._internal.typing import FloatArray
from enlist.errors import InputError
from enlist.personal.arms import Arms
from enlist.personal.decision import Decision
from enlist.runs.checkpoints import CHECKPOINTS, written

Estimates = tuple[Arms, FloatArray]
"""Arms, and the estimate of each arm's reward; NaN if unknown."""


def learned(path: str | PathLike[str]) -> Estimates:
    """The arms of a run folder and the estimates of their rewards, with which another run can begin.

    >>> learned("no/such/run")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: no/such/run holds no checkpoint; name the folder of a run of `enlist personalise`.
    """
    whole = written(Path(path) / CHECKPOINTS, partial=False)
    if whole:
        files.check_tree(whole[-1])
    if not whole or not (whole[-1] / "decision").is_dir():
        raise InputError(f"{path} holds no checkpoint; name the folder of a run of `enlist personalise`.")
    decision = Decision.load(whole[-1] / "decision")
    return estimates(decision)


def estimates(decision: Decision) -> Estimates:
    """Arms and the estimates of their rewards, NaN where none was credited.

    >>> from enlist.personal.rules import UCBRule
    >>> estimates(UCBRule().start(Arms.pairs("123", "2"), np.random.default_rng(1)))[1]
    array([nan, nan])
    """
    return decision.arms, np.where(decision.count() > 0, decision.values(), np.nan)


def matched(arms: Arms, earlier: Sequence[Estimates]) -> FloatArray:
    """For each arm, the mean estimate of earlier runs for the same workers, (arms,); NaN if there is none.

    The pair of a and b is an arm for both of them: what helped a is a first guess at what helps b.

    >>> before = Arms.pairs("abc", "a"), np.array([0.02, 0.04])
    >>> matched(Arms.pairs("abc", "b"), [before])
    array([0.02,  nan])
    """
    found = np.array([arms.matching(*one) for one in earlier]).reshape(-1, len(arms))
    known = ~np.isnan(found)
    total = np.where(known, found, 0.0).sum(axis=0)
    return np.where(known.any(axis=0), total / np.maximum(known.sum(axis=0), 1), np.nan)
