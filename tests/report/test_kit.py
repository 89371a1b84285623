"""The chart kit: every line with a band is made by one function, whatever chart it stands in."""

from __future__ import annotations

import math
import re
from pathlib import Path

import altair as alt
import numpy as np
import pytest

import enlist
from enlist.ladder.charts import example, profile_chart, rank_chart
from enlist.report.group_charts import group_curves, trend_chart
from enlist.report.kit import band_chart, cut, domain, labelled, summarised
from enlist.report.personal_charts import increase_chart, score_rows, series_chart, series_colours
from enlist.report.regret import regret_chart
from enlist.report.training import curve_chart, curve_rows
from enlist.runs.example import example_run
from enlist.runs.groups import group_rows, grouped
from enlist.runs.personal_example import example_personal
from enlist.studies.charts import ChartStyle, bands, curves, intervals
from enlist.studies.panels import Panel, along, side_by_side

PACKAGE = Path(enlist.__file__).parent
FLAT = {"mean": 1.0, "low": 0.5, "high": 1.5}


def marks(value, kind):
    """All marks of a kind inside a specification, with what they encode."""
    if isinstance(value, dict):
        mark = value.get("mark")
        if isinstance(mark, dict) and mark.get("type") == kind:
            yield mark, value["encoding"]
        for inner in value.values():
            yield from marks(inner, kind)
    elif isinstance(value, list):
        for inner in value:
            yield from marks(inner, kind)


def runs():
    return [example_run(name, seed, k=k) for k in (3, 5) for name in ("oort", "random") for seed in range(3)]


def charts():
    own = [example_run(seed=seed) for seed in range(3)]
    groups = grouped(runs())
    personal = score_rows([example_personal(seed) for seed in range(3)])
    values = np.random.default_rng(0).random((4, 6))
    panel = Panel("iid", along(np.arange(1.0, 7.0), values, "BSFL"), "round", "regret")
    return {
        "regret": regret_chart([{"selector": "random", "round": 1, **FLAT}], "Regret"),
        "runs": curve_chart(curve_rows(own), "Accuracy", target=0.7),
        "groups": group_curves(groups, group_rows(groups), "rounds"),
        "personal": series_chart(personal, "AUC", "round", "AUC", series_colours(personal)),
        "study": curves(bands(values, series="ucb"), "AUC", ChartStyle("round", "AUC")),
        "panels": side_by_side([panel], "Regret", {"BSFL": "#0b6e99"}),
    }


def test_all_lines_with_bands_look_alike():
    looks = set()
    for name, chart in charts().items():
        content = chart.to_dict()
        (band, shown), *_ = list(marks(content, "area"))
        (line, _), *_ = list(marks(content, "line"))
        assert band == {"type": "area"}, name
        condition = shown["fillOpacity"].get("condition", shown["fillOpacity"])
        looks.add((line["strokeWidth"], line["strokeJoin"], condition["value"]))
    assert len(looks) == 1


def test_all_dots_with_intervals_look_alike():
    groups = grouped(runs())
    row = {"name": "ucb", "series": "rule", "mean": 0.7, "low": 0.68, "high": 0.72}
    drawn = (
        trend_chart(groups, group_rows(groups), "final", "Final"),
        increase_chart([example_personal()], "Increase"),
        rank_chart(example()),
        intervals([row], "Best", ChartStyle(x="AUC")),
    )
    found = [
        next(mark for mark, shown in marks(chart.to_dict(), "rule") if {"x2", "y2"} & shown.keys()) for chart in drawn
    ]
    assert all(mark == found[0] for mark in found)


def test_no_other_module_draws_a_band_or_an_interval():
    for path in [*(PACKAGE / "report").glob("*.py"), *(PACKAGE / "ladder").glob("*.py"), PACKAGE / "studies/panels.py"]:
        text = path.read_text()
        if path.name != "kit.py":
            assert "mark_area" not in text, path.name
            assert not re.search(r'selection_point\(.*bind="legend"', text), path.name


def test_no_band_is_drawn_where_nobody_has_one():
    flat = {"series": "ucb", "at": 1, "mean": 0.5, "low": 0.5, "high": 0.5}
    chart = band_chart([flat], "t", alt.X("at:Q"), alt.Y("mean:Q"), alt.Color("series:N"), [])
    assert not list(marks(chart.to_dict(), "area"))
    assert not list(marks(profile_chart(example()).to_dict(), "area"))


def test_an_interval_is_students_and_within_what_is_possible():
    # mean 0.9, deviation 0.1, t(0.975, 2) = 4.3027: half is 4.3027 * 0.1 / sqrt(3) = 0.2484
    found = summarised([0.8, 0.9, 1.0])
    assert found == pytest.approx({"mean": 0.9, "low": 0.9 - 0.2484, "high": 0.9 + 0.2484}, abs=1e-4)
    assert summarised([0.8, 0.9, 1.0], (0.0, 1.0))["high"] == 1.0
    assert summarised([2.0, 2.2], (0.0, 1.0))["high"] == pytest.approx(2.1)  # a limit never lies inside of the mean


def test_an_axis_has_a_length_whatever_the_values():
    assert domain([0.3, 0.3 + 1e-16]) == [0.25, pytest.approx(0.35)]
    assert domain([math.nan, 2.0, 4.0]) == [1.9, 4.1]
    assert domain([]) == [-0.05, 0.05]


def test_bands_are_cut_to_the_axis():
    assert cut([{"mean": 5.0, "low": 4.0, "high": 6.0}], [0.0, 1.0]) == [{"mean": 5.0, "low": 1.0, "high": 1.0}]


@pytest.mark.parametrize("count", [1, 20, 21, 100, 3_500])
def test_labels_never_overlap(count):
    found = labelled(range(1, count + 1), 430)
    assert found[0] == 1
    assert len(found) <= 21
