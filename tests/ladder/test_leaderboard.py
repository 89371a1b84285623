"""The leaderboard, by hand: speed-ups, budgets, ranks, profiles, and what is written."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import choosing
from enlist._internal.statistics import critical_difference, mean_ranks
from enlist.errors import EnlistError, InputError
from enlist.ladder import Leaderboard, read
from enlist.ladder.charts import heat_map, profile_chart, rank_chart, standing_chart
from enlist.ladder.markdown import markdown
from enlist.ladder.page import rung_lines, write_report
from enlist.ladder.results import results, server_ms, write_results
from enlist.runs.example import example_run


def row(selector: str, rung: str = "silos", seed: int = 0, **values: Any) -> dict[str, Any]:
    common = {"rung": rung, "selector": selector, "seed": seed, "data": "fashion-mnist", "target": 0.7, "reached": 1}
    common |= {"seconds": 100.0, "rounds": 50, "final": 0.8, "wasted": 0.1, "worst_tenth": math.nan, "server_ms": 0.5}
    return {**common, **values}


def board() -> Leaderboard:
    """Two rungs, two seeds. Fast: 2 and 8 times as fast on silos, as fast on users. Poor lacks users."""
    rows = [row("random", rung, seed) for rung in ("silos", "users") for seed in (0, 1)]
    rows += [row("fast", seed=0, seconds=50.0, final=0.81), row("fast", seed=1, seconds=12.5, final=0.83)]
    rows += [row("fast", "users", seed, rounds=100, final=0.79) for seed in (0, 1)]
    rows += [row("poor", seed=seed, seconds=10.0, reached=0) for seed in (0, 1)]
    return Leaderboard(rows, hard={"silos": "Few."}, failed={("users", "poor", 0): "it broke"})


def test_scores_of_a_rung_are_paired_by_seed() -> None:
    [fast] = [each for each in board().rows if (each["rung"], each["selector"]) == ("silos", "fast")]
    assert fast["speed_up"] == pytest.approx(4.0)  # sqrt(2 * 8)
    half = 12.706 * math.log(8 / 2) / 2 / math.sqrt(2) * math.sqrt(2)  # t(1) * sd / sqrt(2), sd = ln 4 / sqrt 2
    assert math.log(fast["speed_up_high"]) == pytest.approx(math.log(4.0) + half, rel=1e-3)
    assert fast["final_difference"] == pytest.approx(0.02)
    assert fast["reached"] == fast["seeds"] == 2


def test_standings_over_rungs() -> None:
    first, second, third = board().standings
    assert [each["selector"] for each in (first, second, third)] == ["fast", "random", "poor"]  # poor lacks a rung
    assert first["speed_up"] == pytest.approx(2.0)  # sqrt(4 * 1)
    assert first["speed_up_rounds"] == pytest.approx(math.sqrt(0.5))
    assert (first["worst_rung"], first["worst"]) == ("users", 1.0)
    # over seeds: sqrt(2 * 1) and sqrt(8 * 1)
    assert math.log(first["speed_up_high"]) == pytest.approx(math.log(2) + 12.706 * math.log(2) / 2, rel=1e-3)
    assert first["worst_difference"] == pytest.approx(-0.01)
    # silos: poor 10, fast 4, random 1; users: the two tie at 1.5, and who is not there is last
    assert [each["rank"] for each in (first, second, third)] == [1.75, 2.25, 2.0]
    assert third["rungs"] == 1


def test_profile_counts_rungs_within_a_factor_of_the_best() -> None:
    shares = {(each["selector"], each["factor"]): each["share"] for each in board().profile}
    assert shares["fast", 1.0] == 0.5  # on users; on silos it is 2.5 times behind
    assert shares["fast", 5.0] == 1.0
    assert shares["poor", 5.0] == 0.5


@pytest.mark.parametrize(("methods", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_has_demsars_quantiles(methods: int, q: float) -> None:
    expected = q * math.sqrt(methods * (methods + 1) / (6 * 20))
    assert critical_difference(methods, 20) == pytest.approx(expected, rel=5e-4)
    assert math.isnan(critical_difference(1, 20))
    assert mean_ranks([[1.0, np.nan], [np.nan, 2.0]]).tolist() == [1.5, 1.5]


def test_who_never_gets_there_counts_with_the_budget() -> None:
    runs = [example_run("random"), example_run("fedcs")]  # fedcs does not reach 97 % of random's accuracy
    free = results("example", runs)[1]
    assert not free["reached"]
    assert free["seconds"] == pytest.approx(runs[1].rounds["end"][-1])
    config = {**runs[1].config, "rounds": {"rounds": 50, "seconds": 9e5}}
    bound = results("example", [runs[0], dataclasses.replace(runs[1], config=config)])[1]
    assert (bound["seconds"], bound["rounds"]) == (9e5, 50)
    small = {**runs[1].config, "rounds": {"rounds": 2, "seconds": 1.0}}
    assert results("example", [runs[0], dataclasses.replace(runs[1], config=small)])[1]["rounds"] == free["rounds"]


def test_random_reaches_its_own_target_and_its_seeds_decide_who_is_scored() -> None:
    rows = results("example", [example_run("random", 0), example_run("fedcs", 0), example_run("fedcs", 1)])
    assert [(each["selector"], each["seed"]) for each in rows] == [("random", 0), ("fedcs", 0)]
    assert rows[0]["reached"]
    with pytest.raises(InputError, match="no run of random was finished"):
        Leaderboard([row("oort")])


def test_times_of_the_selector_are_read_whatever_the_file_holds(tmp_path: Path) -> None:
    (tmp_path / "wall.csv").write_text("round,seconds\n1,0.5\n2,0.5,0.002\n3,0.5,0.004\n4,0.5,nan\n5,0.")
    assert server_ms(tmp_path) == pytest.approx(3.0)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    whole = board()
    whole.results[0]["selector"] = 'odd, "name"'
    whole = Leaderboard([*whole.results, row("random")])
    whole.write(tmp_path)
    again = read(tmp_path, known=False)
    assert repr(again.results) == repr(whole.results)
    assert again.lines() == whole.lines()
    assert "speed_up_rounds_low" in (tmp_path / "leaderboard.csv").read_text().splitlines()[0]
    write_results([row("random")], tmp_path / "part.csv", ["rung", "seed"])
    with pytest.raises(InputError, match="has no column selector"):
        read(tmp_path / "part.csv")


def test_page_markdown_and_charts_show_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "enlist.report.page.save", lambda *chart: None
    )  # pictures take seconds; the command writes them
    shown = board()
    text = write_report(shown, tmp_path / "page.html").read_text()
    for word in ("fast", "users", "it broke", "Few.", "Nemenyi"):
        assert word in text
    document = markdown(shown)
    assert "| fast | 2.00 [" in document
    assert "| users |  | fashion-mnist |" in document
    assert rung_lines(shown, "silos")[1][0] == "poor"
    for chart in (heat_map(shown), rank_chart(shown), profile_chart(shown)):
        chart.to_dict()  # validates
    standings = standing_chart(shown)
    standings.to_dict()
    named = [one["selector"] for one in standings.layer[3].data.values]
    assert named == [shown.name(label) for label in shown.labels]
    assert len(standings.layer[1].data.values) == len(shown.rows)


def test_other_data_are_said_and_a_fairness_column_is_shown_where_it_is_measured() -> None:
    plain = Leaderboard([row("random")])
    assert plain.notice == ""
    assert "worst tenth" not in plain.lines()[0]
    digits = Leaderboard([row("random", data="digits", worst_tenth=0.31)])
    assert "1 of 1 rungs use the digits" in digits.notice
    assert digits.notice in repr(digits)
    assert "31 %" in digits.lines()[1]


def test_a_column_tells_seeds_if_methods_have_different_numbers_of_them() -> None:
    assert "seeds" not in board().lines()[0]
    rows = [row("random", seed=seed) for seed in (0, 1)] + [row("fast", seed=1)]
    head, *lines = Leaderboard(rows).lines()
    assert {line[0]: line[head.index("seeds")] for line in lines} == {"random": "2", "fast": "1"}


def test_two_methods_are_paired_by_seed_on_every_rung() -> None:
    # Of seconds 100 / 50 and 100 / 12.5 the mean is 4; poor is 5 and 1.25 times as fast as fast: sqrt(6.25) = 2.5.
    found = {(each["rung"], each["selector"]): each["ratio"] for each in board().against("fast")}
    expected = {("silos", "random"): 4.0, ("silos", "poor"): 0.4, ("users", "random"): 1.0}
    assert found == {key: pytest.approx(value) for key, value in expected.items()}
    with pytest.raises(EnlistError, match="no method called 'oort'"):
        board().against("oort")


def test_which_selector_to_take_is_said_from_the_results() -> None:
    rows = [row("random", rung, seed) for rung in ("silos", "users") for seed in (1000, 1001)]
    for name, silos, users in (("tempo", 50.0, 40.0), ("bsfl", 80.0, 25.0), ("oracle", 25.0, 20.0)):
        for seed, drift in ((1000, 0.99), (1001, 1.01)):
            rows.append(row(name, "silos", seed, seconds=silos * drift, final=0.79 if name == "tempo" else 0.8))
            rows.append(row(name, "users", seed, seconds=users * drift))
    page = choosing.page(Leaderboard(rows, hard={"users": "Users differ."}, published=True))
    assert "The next, `bsfl`" in page
    assert "fastest on 1 of 2 rungs, and within a tenth of the fastest on 1, by means over seeds." in page
    assert "no other selector is certainly more than a tenth faster on 1." in page
    assert "certainly slower than random on no rung" in page
    assert "by half a point or more, on `silos`." in page
    assert "`tempo` reaches 50 % of that" in page
    assert "| `users` | Users differ. | `bsfl` | 1.60 [1.60, 1.60] | `bsfl` |" in page
