"""Charts of skew: what they show is what the arrays hold, and they stay small with any number of clients."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from enlist.errors import InputError
from enlist.report import skew
from enlist.report.charts import save, styled
from enlist.report.sizes import size_histogram, skew_scatter

COUNTS = np.array([[3, 1, 0], [0, 5, 5], [2, 2, 2]])


def rows(chart):
    """The rows of every layer of a chart, layer by layer."""
    spec = chart.to_dict()
    sources = [layer.get("data") or spec["data"] for layer in spec.get("layer", [spec])]
    return [source["values"] if "values" in source else spec["datasets"][source["name"]] for source in sources]


def test_bars_hold_the_counts_and_their_sums():
    cells, sums = rows(skew.class_bars(COUNTS, "Title"))
    assert {(row["client"], row["class"]): row["samples"] for row in cells} == {
        (0, "0"): 3,
        (0, "1"): 1,
        (1, "1"): 5,
        (1, "2"): 5,
        (2, "0"): 2,
        (2, "1"): 2,
        (2, "2"): 2,
    }
    assert [row["samples"] for row in sums] == [4, 10, 6]


def test_pies_tell_the_size_in_the_heading():
    (cells,) = rows(skew.class_pies(COUNTS, "Title", ["cat", "dog", "owl"]))
    assert {row["heading"] for row in cells} == {"client 0: 4", "client 1: 10", "client 2: 6"}
    assert {row["class"] for row in cells} == {"cat", "dog", "owl"}
    assert sum(row["share"] for row in cells) == pytest.approx(3, abs=1e-3)


def test_a_few_clients_have_their_counts_written():
    cells, numbers = rows(skew.class_heatmap(COUNTS, "Title"))
    assert len(cells) == 9
    assert [row["text"] for row in numbers][:3] == ["3", "1", ""]


def test_large_counts_are_written_in_thousands():
    cells, _ = rows(skew.class_heatmap([[9_999, 12_345]], "Title"))
    assert [row["text"] for row in cells] == ["9999", "12k"]


def test_sixty_clients_are_written_and_sixty_one_are_sorted():
    assert len(rows(skew.class_heatmap(np.ones((60, 2)), "Title"))) == 2
    (cells,) = rows(skew.class_heatmap(np.ones((61, 2)), "Title"))
    assert len(cells) == 122
    assert "text" not in cells[0]


def test_many_clients_are_sorted_by_their_most_frequent_class_and_binned():
    rng = np.random.default_rng(1)
    counts = np.where(np.arange(4) == rng.integers(0, 4, 10_000)[:, None], 7, 1)
    (cells,) = rows(skew.class_heatmap(counts, "Title"))
    assert len(cells) == 200 * 4
    assert {row["from"] for row in cells} == set(range(0, 10_000, 50))
    shares = np.array([row["share"] for row in cells]).reshape(200, 4)
    assert np.allclose(shares.sum(axis=1), 1, atol=1e-3)
    assert (np.diff(shares.argmax(axis=1)) >= 0).all()
    # The mean over all columns is the mean over all clients.
    assert np.allclose(shares.mean(axis=0), (counts / counts.sum(axis=1, keepdims=True)).mean(axis=0), atol=1e-3)


def test_clients_without_samples_do_not_break_the_heat_map():
    counts = np.zeros((100, 3), dtype=int)
    counts[:50, 1] = 4
    (cells,) = rows(skew.class_heatmap(counts, "Title"))
    assert sum(row["share"] for row in cells) == 50


def test_beyond_a_hundred_classes_neighbours_are_put_together():
    counts = np.ones((3, 250), dtype=int)
    cells, sums = rows(skew.class_bars(counts, "Title"))
    assert len({row["class"] for row in cells}) == 100
    assert sum(row["samples"] for row in cells) == 750
    assert [row["samples"] for row in sums] == [250, 250, 250]
    assert cells[0]["class"] == "0 – 1"


@pytest.mark.parametrize(
    "sizes",
    [
        [5],
        [200] * 7,
        [0, 0, 3, 9],
        np.arange(1, 500),
        np.r_[1, 1000, 2000, 4000, 4100],
        np.ceil(np.random.default_rng(1).lognormal(3, 1.5, 5000)),
        np.ceil(np.random.default_rng(1).lognormal(9, 1.5, 5000)),
        np.ceil(1e6 / np.arange(1, 10_001)),
        np.r_[np.full(500, 64), 64 * 64],
    ],
)
def test_every_client_is_in_one_bar(sizes):
    bars = rows(size_histogram(sizes, "Title"))[0]
    assert sum(row["clients"] for row in bars) == len(sizes)
    assert len(bars) <= 60
    for row in bars:
        assert ((np.asarray(sizes) >= row["from"]) & (np.asarray(sizes) < row["to"])).sum() == row["clients"]
    assert all(before["to"] <= after["from"] for before, after in itertools.pairwise(bars))


def test_the_median_is_marked():
    middle = rows(size_histogram([1, 2, 4, 8], "Title"))[1]
    assert middle == [{"at": 3.0, "text": "median 3"}]


def test_sizes_that_span_decades_get_a_logarithmic_axis():
    def kind(sizes):
        return size_histogram(sizes, "Title").to_dict()["layer"][0]["encoding"]["x"]["scale"]["type"]

    assert kind([90, 100, 110, 500]) == "linear"
    assert kind([1, 10, 100, 1000, 10_000]) == "log"
    assert kind([0, 10, 100, 1000, 10_000]) == "linear"


def test_a_dot_for_each_client_that_has_a_value():
    (dots,) = rows(skew_scatter([3, 5, 8], [0.1, np.nan, 0.3], "Title"))
    assert dots == [{"samples": 3.0, "value": 0.1}, {"samples": 8.0, "value": 0.3}]


def test_many_clients_are_counted_in_cells():
    rng = np.random.default_rng(1)
    sizes, values = np.ceil(rng.lognormal(4, 1, 20_000)), rng.uniform(size=20_000)
    values[:2] = 0.0, 1.0
    (cells,) = rows(skew_scatter(sizes, values, "Title"))
    assert sum(row["clients"] for row in cells) == 20_000
    assert len(cells) < 2000


@pytest.mark.parametrize("chart", [skew.class_bars, skew.class_pies])
def test_too_many_clients_for_a_bar_each_are_sent_to_the_heat_map(chart):
    with pytest.raises(InputError, match="25 clients; this chart shows at most 24: use class_heatmap"):
        chart(np.ones((25, 2)), "Title")


def test_what_cannot_be_shown_is_refused():
    with pytest.raises(InputError, match="2 class names for 3 classes"):
        skew.class_bars(COUNTS, "Title", ["cat", "dog"])
    with pytest.raises(InputError, match="not negative"):
        skew.class_heatmap([[1, -1]], "Title")
    with pytest.raises(InputError, match="at least one client"):
        size_histogram([], "Title")
    with pytest.raises(InputError, match="one number for each of 2 clients"):
        skew_scatter([1, 2], [0.5], "Title")
    with pytest.raises(InputError, match="no client has a value"):
        skew_scatter([1], [np.nan], "Title")


@pytest.mark.parametrize(
    "chart",
    [
        skew.class_bars(COUNTS, "Title"),
        skew.class_pies(COUNTS, "Title"),
        skew.class_heatmap(COUNTS, "Title"),
        skew.class_heatmap(np.ones((300, 3)), "Title"),
        size_histogram([1, 3, 9], "Title"),
        skew_scatter([1, 3], [0.2, 0.4], "Title"),
        skew_scatter(np.arange(1, 5001), np.linspace(0, 1, 5000), "Title"),
    ],
    ids=["bars", "pies", "written", "sorted", "sizes", "dots", "cells"],
)
def test_charts_are_valid_in_the_house_look(chart):
    assert styled(chart).to_dict()["title"] == "Title"


def test_a_chart_is_written_in_three_formats(tmp_path):
    for path in save(skew.class_pies(COUNTS, "Title"), tmp_path / "pies"):
        assert path.stat().st_size > 1000
