"""The page for strangers, and the oracle, which is no contestant anywhere."""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from enlist.ladder import Leaderboard, Rung, ladder
from enlist.ladder.charts import heat_map, profile_chart, rank_chart
from enlist.ladder.page import rung_lines, sentence
from enlist.ladder.rung import PUBLISHED
from enlist.simulation import Config

ROW = {"data": "fashion-mnist", "target": 0.7, "reached": 1, "seconds": 100.0, "rounds": 50, "final": 0.8}
ROW |= {"wasted": 0.1, "worst_tenth": math.nan, "server_ms": 0.5}


def row(selector: str, rung: str = "silos", seed: int = 1000, **values: Any) -> dict[str, Any]:
    return {"rung": rung, "selector": selector, "seed": seed, **ROW, **values}


def oracle_board() -> Leaderboard:
    """On silos the oracle is 4 times as fast, on users as fast as random; oort is twice as fast."""
    rows = [row(name, rung) for rung in ("silos", "users") for name in ("random", "oort", "oracle")]
    times = {("oort", "silos"): 50.0, ("oort", "users"): 50.0, ("oracle", "silos"): 25.0}
    rows = [each | {"seconds": times.get((each["selector"], each["rung"]), 100.0)} for each in rows]
    return Leaderboard(rows, hard={"silos": "Few."}, published=True)


def test_the_oracle_is_the_ceiling_and_no_contestant() -> None:
    board = oracle_board()
    first, second, last = board.standings
    assert [each["selector"] for each in (first, second, last)] == ["oort", "random", "oracle"]
    assert (first["rank"], second["rank"]) == (1.0, 2.0)
    assert math.isnan(last["rank"])
    assert board.contestants == ["oort", "random"]
    assert board.critical_difference == pytest.approx(1.96 / math.sqrt(2), rel=1e-3)  # of two methods, on two rungs
    shares = {(each["selector"], each["factor"]): each["share"] for each in board.profile}
    assert shares["oort", 1.0] == 1.0  # the oracle is not the best of silos
    assert not any(name == "oracle" for name, _ in shares)
    assert board.lines()[-1][0] == "oracle (ceiling)"
    assert board.title == "Ladder 1: 2 methods and the oracle, 2 rungs, 1 published seed"
    assert "oracle" not in json.dumps(rank_chart(board).to_dict())
    assert "oracle" not in json.dumps(profile_chart(board).to_dict())
    assert json.dumps(heat_map(board).to_dict()).count("oracle (ceiling)") >= 2
    assert [line[0] for line in rung_lines(board, "silos")] == ["selector", "oort", "random", "oracle (ceiling)"]
    assert sentence(board).startswith("oort is first: 2.00")


def test_the_page_explains_itself() -> None:
    text = oracle_board().markdown()
    assert "Seeds 0 to 4 are for\ndevelopment" in text
    assert "| silos | Few. | fashion-mnist | 12 | 4 | 70.0 % | oort, 2.00 |" in text
    assert "| users |  | fashion-mnist | natural |" in text
    assert "| oort | 2.00 | 2.00 |" in text
    assert "| oort | +0.0 | +0.0 |" in text
    assert "| rung | oracle | oort | random |" in text
    assert "| silos | 4.00 | 50 % | 25 % |" in text
    assert "| users | 1.00 | 200 % | 100 % |" in text
    assert "| all rungs | 2.00 | 100 % | 50 % |" in text
    assert "oracle" not in Leaderboard([row("random"), row("oort")]).markdown()
    many = Leaderboard([row("random", seed=seed) for seed in PUBLISHED]).markdown()
    assert "The seeds here are 1000 to 1009." in many
    assert "1.00<br>[1.00, 1.00]" in many


def test_the_selector_of_the_page_climbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [code] = re.findall(r"```python\n(.*?)```", oracle_board().markdown(), flags=re.S)
    (tmp_path / "mine.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    config = Config(data={"clients": 8}, rounds={"rounds": 4, "k": 3}, evaluation={"every": 1})
    board = ladder("mine:LossPerSecond", [Rung("tiny", "Nothing.", config)], seeds=1)
    sys.modules.pop("mine", None)
    assert not board.failed
    assert "mine:LossPerSecond" in board.labels
