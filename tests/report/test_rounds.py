"""Charts of single rounds and clients, and colours that everybody can tell apart."""

from __future__ import annotations

import dataclasses
import itertools
import json

import numpy as np
import pytest

from enlist.report.charts import DARK, NEUTRAL, PALETTE, Look, coloured, colours, looks, specification
from enlist.report.devices import device_chart, device_rows
from enlist.report.participation import OUTCOME_COLOURS, activity_chart, evenness_rows, lorenz_chart
from enlist.report.reasons import reason_sections, term_chart, term_rows
from enlist.report.regret import regret_chart
from enlist.report.rounds import (
    ending_chart,
    ending_rows,
    history_chart,
    history_rows,
    round_outcome_chart,
    round_outcome_rows,
)
from enlist.report.training import curve_chart, curve_rows
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


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("seen", SEEN)
def test_methods_can_be_told_apart_by_everybody(seen, theme):
    names = [*PALETTE, NEUTRAL["random"]] if theme == "light" else list(DARK.values())
    nearest = min(
        np.linalg.norm(lab(one, SEEN[seen]) - lab(other, SEEN[seen])) for one, other in itertools.combinations(names, 2)
    )
    assert nearest > (10 if theme == "light" else 15)  # about 2 is just noticeable side by side


@pytest.mark.parametrize("failed", [OUTCOME_COLOURS["failed"], "#e8695f"], ids=["light", "dark"])  # as in theme.js
@pytest.mark.parametrize("seen", SEEN)
def test_outcomes_can_be_told_apart_by_everybody(seen, failed):
    kinds = [lab(colour, SEEN[seen]) for colour in (OUTCOME_COLOURS | {"failed": failed}).values()]
    assert min(np.linalg.norm(one - other) for one, other in itertools.combinations(kinds, 2)) > 10


def test_slow_devices_are_darker_for_everybody():
    ramp = device_chart(device_rows(example_run()), "Devices").to_dict()["encoding"]["color"]["scale"]["range"]
    for seen in SEEN.values():
        lights = [lab(colour, seen)[0] for colour in ramp]
        assert np.diff(lights).max() < -10


@pytest.mark.parametrize("colour", DARK.values())
def test_colours_can_be_seen_on_the_dark_page(colour):
    light, ground = (lab(each, SEEN["normal"])[0] for each in (colour, "#171c22"))
    luminance = [((lightness + 16) / 116) ** 3 for lightness in (light, ground)]
    assert (luminance[0] + 0.05) / (luminance[1] + 0.05) >= 3  # of graphics, by WCAG's level AA


def test_more_methods_than_colours_are_dashed_or_dotted_in_every_chart_of_lines():
    names = [f"m{number}" for number in range(22)] + ["random"]
    runs = [example_run(name) for name in names]
    rows = evenness_rows(runs)
    charts = [
        curve_chart(curve_rows(runs), "Accuracy"),
        activity_chart(rows, "Updates"),
        lorenz_chart(rows, "Evenness"),
        regret_chart(
            [{"selector": name, "round": 1, "mean": 1.0, "low": 0.5, "high": 1.5} for name in names], "Regret"
        ),
    ]
    assert len(set(looks(names))) == len(names)
    for chart in charts:
        line = next(layer for layer in chart.to_dict()["layer"] if layer["mark"]["type"] == "line")["encoding"]
        pairs = [
            (line["color"]["scale"]["range"][place], tuple(line["strokeDash"]["scale"]["range"][place]))
            for place in range(len(names))
        ]
        assert len(set(pairs)) == len(names)
        assert pairs[8] == (PALETTE[0], (7, 3))
        assert pairs[-1] == (NEUTRAL["random"], (1, 0))
    assert "strokeDash" not in json.dumps(curve_chart(curve_rows(runs[:8]), "Accuracy").to_dict())


def test_bands_that_are_hidden_take_no_room():
    runs = [example_run(f"m{number}", seed) for number in range(9) for seed in range(2)]
    heights = []
    for shown in (runs, runs[:4]):
        rows = curve_rows(shown, "rounds", "loss")
        line = curve_chart(rows, "Loss", "rounds", "loss").to_dict()["layer"][1]
        heights.append((line["encoding"]["y"]["scale"]["domain"], rows))
    (crowded, rows), (free, few) = heights
    assert crowded[1] < 1.1 * max(row["mean"] for row in rows) < max(row["high"] for row in rows)
    assert free[1] > max(row["high"] for row in few)


def test_an_axis_of_few_clients_names_no_half_ones():
    for asked, values in ((2, [0, 1, 2]), (9, None)):
        chart = round_outcome_chart(round_outcome_rows(example_run(clients=40, k=asked)), "Outcomes").to_dict()
        assert chart["encoding"]["y"]["axis"].get("values") == values


def test_terms_have_the_colour_of_their_method():
    rows = term_rows([example_run("oort")])
    assert term_chart(rows, "Terms", "#123456").to_dict()["spec"]["mark"]["color"] == "#123456"
    (_, charts), *_ = reason_sections([example_run("oort"), example_run("bsfl")])
    assert [chart.to_dict()["spec"]["mark"]["color"] for chart in charts.values()] == list(PALETTE[:2])


def test_methods_that_share_a_colour_on_other_pages_are_told_apart_in_a_chart_of_two():
    with coloured({"oort": Look.of(0), "bsfl": Look.of(8)}):
        chart = curve_chart(curve_rows([example_run("oort"), example_run("bsfl")]), "Accuracy").to_dict()
    line = next(layer for layer in chart["layer"] if layer["mark"]["type"] == "line")["encoding"]
    assert line["color"]["scale"]["range"] == [PALETTE[0]] * 2
    assert line["strokeDash"]["scale"]["range"] == [[1, 0], [7, 3]]


def test_a_method_keeps_its_colour_in_every_chart():
    with coloured({"oort": Look("#111111"), "bsfl": Look("#222222")}):
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
        "all replied", "the deadline", "enough replied", "none was selected",
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
