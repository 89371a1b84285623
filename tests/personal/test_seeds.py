"""Several seeds of personalised learning on an engine: how they stand, and whose their folders are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from enlist.cli.personal_live import PersonalBar
from enlist.engine.local import ThisProcess
from enlist.errors import TrustError
from enlist.personal import PersonalConfig, every_seed, load
from enlist.personal import seeds as module
from tests.ray_helpers import hidden

SMALL: dict[str, Any] = {
    "workers": {"dataset": {"name": "telecom", "rows": 4000}},
    "rounds": {"rounds": 2, "epochs": 1, "pretrain": 1},
    "after": {"baselines": True},
}


class Elsewhere(ThisProcess):
    """This process, as if it were another machine."""

    shares_memory = False


def test_seeds_tell_how_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PULSE", 0.0)
    config, news = PersonalConfig(**SMALL), []
    bar = PersonalBar(Console(quiet=True), config, 2)

    def show(seed: int, state: dict[str, Any]) -> None:
        bar.show(seed, state)
        news.append((seed, state["stage"], state["ended"], state["share"], bar.progress.tasks[0].completed))

    ends = every_seed(config, tmp_path / "mine", 2, "local", targets=["2"], progress=show)
    assert list(ends) == [(0, None), (1, None)]
    stages = ["personalised", "local", "fedavg"]
    expected = [(seed, stage, ended) for seed in (0, 1) for ended, stage in enumerate(stages) for _ in range(2)]
    assert [each[:3] for each in news] == expected
    assert [each[3] for each in news] == [0.5, 1.0] * 6
    assert [each[4] for each in news] == pytest.approx([number / 12 for number in range(1, 13)])


def test_what_comes_back_from_another_machine_is_this_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(module, "TaskFolder", hidden)  # as if no machine saw the folder of the driver
    (tmp_path / "own_personal_net.py").write_text("from torch import nn\n\ndef net():\n    return nn.Linear(153, 2)\n")
    monkeypatch.syspath_prepend(tmp_path)
    model = {"name": "python", "factory": "own_personal_net:net"}
    config = PersonalConfig(**{**SMALL, "model": model, "after": {"baselines": False}})
    for name, engine in (("alone", "local"), ("sent", Elsewhere())):
        assert list(every_seed(config, tmp_path / name, 1, engine, targets=["2"])) == [(0, None)]
    for table in ("rounds.csv", "arms.csv", "model.safetensors", "result.json"):
        one, other = (tmp_path / name / "seed-0" / "0001-2" / table for name in ("alone", "sent"))
        assert one.read_bytes() == other.read_bytes()
    made = tmp_path / "sent" / "seed-0" / "0001-2"
    assert load(made / "config.json").model == config.model
    (made / "origin.json").unlink()
    with pytest.raises(TrustError, match="add --trust"):
        load(made / "config.json")
    sys.modules.pop("own_personal_net")
