"""Charts of single rounds and clients, and colours that everybody can tell apart."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from enlist.report.charts import NEUTRAL, PALETTE, coloured, colours, specification
from enlist.report.rounds import (
    ending_chart,
    ending_rows,
    history_chart,
    history_rows,
    round_outcome_chart,
    round_outcome_rows,
)
from enlist.runs.example import example_run

# Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color vision deficiency, 2009.
SEEN = {
    "normal": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}


def lab(colour: str, seen: object) -> np.ndarray:
    """CIE Lab of an sRGB colour as somebody sees it."""
    channels = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    there = np.clip(np.asarray(seen) @ linear, 0, 1)
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ there
    scaled = xyz / np.array([0.9505, 1.0, 1.089])
    root = np.where(scaled > 0.008856, np.cbrt(scaled), 7.787 * scaled + 16 / 116)
    return np.array([116 * root[1] - 16, 500 * (root[0] - root[1]), 200 * (root[1] - root[2])])


@pytest.mark.parametrize("seen", SEEN)
def test_methods_can_be_told_apart_by_everybody(seen):
    names = [*PALETTE, NEUTRAL["random"]]
    nearest = min(
        np.linalg.norm(lab(one, SEEN[seen]) - lab(other, SEEN[seen])) for one, other in itertools.combinations(names, 2)
    )
    assert nearest > 10  # about 2 is just noticeable side by side


def test_a_method_keeps_its_colour_in_every_chart():
    with coloured({"oort": "#111111", "bsfl": "#222222"}):
        assert colours(["bsfl", "random"]).range == ["#222222", NEUTRAL["random"]]
        assert colours(["other", "oort"]).range == [PALETTE[0], "#111111"]
    assert colours(["oort"]).range == [PALETTE[0]]


def test_what_ended_each_round():
    run = example_run(rounds=4)
    table = dict(run.rounds) | {
        "duration": np.array([5.0, 30.0, 9.0, 0.0]),
        "deadline": np.array([30.0, 30.0, np.inf, 30.0]),
        "selected": np.array([4.0, 4.0, 4.0, 0.0]),
        "late": np.array([0.0, 1.0, 2.0, 0.0]),
    }
    rows = ending_rows(dataclasses.replace(run, rounds=table))
    assert [row["ended"] for row in rows] == [
        "everybody replied", "the deadline", "enough replied", "nobody was selected",
    ]  # fmt: skip
    ending_chart(rows, "Rounds").to_dict()  # which Altair validates


def test_long_runs_are_thinned_and_lose_nobody():
    run = example_run(clients=40, rounds=700, k=4)
    assert len(ending_rows(run)) <= 240
    rows = round_outcome_rows(run)
    assert len({row["round"] for row in rows}) <= 100
    step = rows[0]["last"] - rows[0]["round"] + 1
    whole = [row for row in rows if row["last"] - row["round"] + 1 == step]
    assert sum(row["clients"] for row in whole) == pytest.approx(4 * len(whole) / 4, rel=0.01)
    round_outcome_chart(rows, "Outcomes").to_dict()


def test_the_history_of_a_client_has_every_request():
    run = example_run("oort", rounds=20)
    rows = history_rows(run, 0)
    assert len(rows) == (run.participations["client"] == 0).sum() > 5
    assert specification(history_chart(rows, "Client 0"))["title"] == "Client 0"
    history_chart(rows, "Client 0").to_dict()
