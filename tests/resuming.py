"""Runs that are stopped and continued with other numbers of workers, against the same run in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from enlist.simulation import Config, simulate

OWN = {"environment.json", "wall.csv"}
"""Files that say where and how fast a run was made."""
UNEVEN = Config(
    data={"clients": 8, "partition": {"kind": "dirichlet", "alpha": 0.5, "min_size": 4}},
    model={"name": "logistic"},
    training={"batch": 10},
    rounds={
        "rounds": 6,
        "k": 3,
        "over_commit": 1.4,
        "late": "merge",
        "deadline": {"kind": "percentile", "percentile": 60.0},
    },
    devices={"kind": "phones"},
    failures={"crash": 0.2},
)
"""Clients that differ in size and labels; some are late, and some crash."""


def assert_resumes(folder: Path, config: Config, stops: Sequence[int]) -> None:
    """The run stopped after these rounds, with 2 and 0 workers by turns, leaves the same bytes as the whole one."""
    simulate(config, folder=folder / "whole")
    for number, rounds in enumerate([*stops, config.rounds.rounds]):
        part = config.replace({"rounds.rounds": rounds})
        simulate(part, folder=folder / "cut", workers=0 if number % 2 else 2, resume=number > 0)
    whole, cut = (
        {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
        for path in (folder / "whole", folder / "cut")
    )
    names = sorted(name for name in whole if Path(name).name not in OWN)
    assert any(name.endswith("participations.csv") for name in names)
    assert [name for name in names if whole[name] != cut.get(name)] == []
