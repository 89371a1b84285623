"""Charts of studies: valid specifications, one panel for each name, axes that hold what is drawn."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest

from enlist import studies
from enlist.studies.charts import ChartStyle, bands, boxes, curves, intervals, lines, points, tiles

VALUES = np.array([[0.5, 0.6, 0.7], [0.6, 0.6, 0.9]])


def test_bands_hold_mean_and_interval() -> None:
    rows = bands(VALUES, series="a")
    assert [row["at"] for row in rows] == [1, 2, 3]
    assert rows[0]["mean"] == pytest.approx(0.55)
    assert rows[0]["high"] - rows[0]["mean"] == pytest.approx(12.706 * 0.05, rel=1e-3)  # t of 1 degree of freedom
    assert rows[1]["low"] == rows[1]["high"] == pytest.approx(0.6)


def test_bands_leave_out_what_nobody_knows() -> None:
    values = np.array([[np.nan, 0.6], [np.nan, 0.8]])
    assert [row["at"] for row in bands(values, series="a")] == [2]
    assert len(lines(values, series="a")) == 2


def test_panels_are_small_multiples_of_their_own_rows() -> None:
    rows = [*bands(VALUES, series="a", panel="left", row="top"), *bands(VALUES, series="a", panel="right", row="top")]
    chart = curves(rows, "Title", ChartStyle("round", "AUC")).to_dict()
    assert chart["facet"]["column"]["sort"] == ["left", "right"]
    assert chart["facet"]["row"]["sort"] == ["top"]
    assert "data" not in chart["spec"]
    plain = curves(bands(VALUES, series="a"), "Title", ChartStyle("round", "AUC")).to_dict()
    assert "facet" not in plain


def test_bands_of_two_seeds_do_not_hide_the_lines() -> None:
    rows = bands(np.array([[0.5, 0.6], [0.6, 0.7]]), series="a")
    assert rows[0]["high"] > 1
    (shown,) = curves(rows, "T", ChartStyle("round", "AUC")).to_dict()["datasets"].values()
    assert max(row["high"] for row in shown) == pytest.approx(0.65 + 0.1)  # means go from 0.55 to 0.65
    assert min(row["low"] for row in shown) == pytest.approx(0.55 - 0.1)


def test_every_kind_of_chart_is_valid() -> None:
    look = ChartStyle("round", "AUC", colours={"b": "#000000"})
    over = bands(VALUES, series="a")
    dots = [{"at": 1, "value": 0.5, "series": "a"}, {"at": 2, "value": 0.6, "series": "b"}]
    span = {"name": "x", "series": "s", "mean": 0.5, "low": float("nan"), "high": float("nan")}
    charts = [
        curves(over, "T", look, thin=lines(VALUES, series="a"), rule=0.0),
        curves(over, "T", ChartStyle("share", "AUC", log=True)),
        boxes([{"group": "g", "series": s, "value": v} for s in "ab" for v in (0.1, 0.2)], "T", look),
        intervals([span, {**span, "name": "y", "series": "t", "low": 0.4, "high": 0.6}], "T", look, rule=0.5),
        points(dots, "T", look, over),
        tiles([{"at": 1, "line": 0, "series": "a"}], "T", look),
    ]
    for chart in charts:
        assert chart.to_dict()["title"] == "T"


def test_colours_are_fixed_by_name_and_never_shared() -> None:
    look = ChartStyle(colours={"known": "#0b6e99"})
    assert look.range(["known", "x", "y"])[0] == "#0b6e99"
    assert len(set(look.range(["known", "x", "y"]))) == 3
    assert look.colour(["x", "known"]).to_dict()["sort"] == ["known", "x"]


def test_values_that_are_alike_but_for_rounding_have_an_axis_of_a_length() -> None:
    rows = [{"group": "1", "series": "a", "value": value} for value in (0.1 + 0.2, 0.3)]
    low, high = boxes(rows, "Alike", ChartStyle()).to_dict()["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert high - low > 0.09


def examples() -> list[str]:
    """Studies with made-up results in the package; others have them beside their own tests, which draw them."""
    folders = [Path(studies.__file__).parent / name / "example.py" for name in studies.names()]
    return [folder.parent.name for folder in folders if folder.is_file()]


@pytest.mark.parametrize("name", examples())
def test_every_figure_of_every_study_is_valid(name: str) -> None:
    """Studies write their figures without Altair's checks, which take long."""
    example = importlib.import_module(f"enlist.studies.{name}.example")
    figures = studies.get(name).figures(example.example_results())
    assert len({figure.name for figure in figures}) == len(figures) > 10
    for figure in figures:
        assert figure.chart.to_dict(validate=True)
