"""The log of a run, played into the bare selector: the same selections, and the same selector in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from enlist.books import cut
from enlist.books import replay as replay_into
from enlist.cli.app import app
from enlist.errors import InputError
from enlist.runs.folder import RunFolder
from enlist.simulation import Config, Simulation, build, replay
from enlist.simulation.setup import make_selector
from tests.simulation.simulation_helpers import config

WORLD: dict[str, Any] = {
    "data": {"clients": 12, "partition": "dirichlet"},
    "devices": {"kind": "phones"},
    "availability": {"kind": "bernoulli"},
    "failures": {"crash": 0.1},
    "membership": {"joins": [{"round": 4, "clients": 3}]},
}
LATE: dict[str, Any] = {"rounds": 12, "k": 3, "over_commit": 1.7, "late": "merge", "deadline": 60.0, "max_lateness": 3}
CASES: dict[str, Config] = {
    "oort": config(**WORLD, selector="oort", rounds=LATE),
    "refl": config(**WORLD, selector="refl", rounds={**LATE, "forecast": 0.9, "adaptive_target": True}),
    "power-of-choice": config(**WORLD, selector="power-of-choice", rounds={"rounds": 8, "k": 3}),
    "darts-ucb": config(**WORLD, selector="darts-ucb", rounds={"rounds": 8, "k": 3, "deadline": 60.0}),
    "safa": config(**WORLD, selector="safa", rounds={**LATE, "protocol": "safa", "over_commit": 1.0}),
    "guarded": config(
        **WORLD,
        selector="tempo",
        rounds=LATE,
        hostile=[
            {"kind": "sign-flip", "share": 0.3, "factor": 20.0},
            {"kind": "lie", "share": 0.2, "about": "latency", "factor": 0.1},
        ],
        server={"norm_bound": 3.0, "exclude": 2},
    ),
}


def everything(selector: Any) -> Any:
    leaves = [*selector.state.leaves(), *selector.counts.leaves()]
    openings = {number: opening.outcome.tolist() for number, opening in selector.openings.items()}
    shown = {path: np.asarray(value).tobytes() for path, value in leaves}
    return shown, openings, selector.rng.bit_generator.state, selector.round


@pytest.mark.parametrize("name", CASES)
def test_a_replay_gives_the_same_selections_and_the_same_selector(name: str, tmp_path: Path) -> None:
    settings, log = CASES[name], tmp_path / "log.jsonl"
    simulation = Simulation(settings, log=log)
    simulation.run()
    bare = make_selector(settings, build(settings))
    rounds = list(replay_into(log, bare))
    assert [now.round for now, _ in rounds] == list(range(1, simulation.round + 1))
    assert all(now.clients.tolist() == then.tolist() for now, then in rounds)
    assert everything(bare) == everything(simulation.selector)


def test_a_log_does_not_change_a_run_and_names_everything_that_was_told(tmp_path: Path) -> None:
    settings, log = CASES["oort"], tmp_path / "log.jsonl"
    logged, plain = Simulation(settings, log=log), Simulation(settings)
    assert logged.run() == plain.run()
    assert everything(logged.selector) == everything(plain.selector)
    entries = [json.loads(line) for line in log.read_text().splitlines()]
    outcomes = {code for entry in entries if entry["event"] == "tell" for code in entry["feedback"]["outcome"]}
    assert outcomes >= {0, 1, 3, 4}  # completed, late, failed, arrived
    assert sum(entry["event"] == "join" for entry in entries) == 1


def test_another_selector_does_not_follow_the_log(tmp_path: Path) -> None:
    settings, log = config(rounds={"rounds": 3, "k": 4}), tmp_path / "log.jsonl"
    Simulation(settings, log=log).run()
    with pytest.raises(InputError, match=r"the replay differs from the log from round 1 on"):
        list(replay(settings.replace(seed=9), log))


@pytest.mark.parametrize("name", ["oort", "safa"])
def test_a_run_that_was_killed_goes_on_with_its_log(name: str, tmp_path: Path) -> None:
    """Checkpoint after round 5, killed after round 7: the log of rounds 6 and 7 is written again."""
    settings, whole, log = CASES[name], tmp_path / "whole.jsonl", tmp_path / "log.jsonl"
    Simulation(settings, log=whole).run()
    with RunFolder.open(tmp_path / "run", settings.model_dump(mode="json"), resume=False) as folder:
        with Simulation(settings, log=log) as killed:
            for _ in range(7):
                killed.step()
                if killed.round == 5:
                    folder.save(killed.round, *killed.saved(), killed.parts())
        checkpoint = folder.load()
    assert checkpoint is not None
    with log.open("a") as file:
        file.write('{"event": "as')  # killed while it wrote a line
    again = Simulation(settings, log=log)
    again.restore(checkpoint)
    again.run()
    assert log.read_text() == whole.read_text()


def test_a_log_is_never_mixed_with_another(tmp_path: Path) -> None:
    settings, log = CASES["power-of-choice"], tmp_path / "log.jsonl"
    log.write_text("something\n")
    with pytest.raises(InputError, match=r"log\.jsonl holds a log already; name a new file"):
        Simulation(settings, log=log).run()
    assert log.read_text() == "something\n"


def test_a_log_that_does_not_reach_the_checkpoint_is_refused(tmp_path: Path) -> None:
    settings, log = CASES["power-of-choice"], tmp_path / "log.jsonl"
    with pytest.raises(InputError, match=r"log\.jsonl does not exist, but the run resumes after round 3"):
        cut(log, 3)
    with Simulation(settings, log=log) as simulation:
        for _ in range(2):
            simulation.step()
    before = log.read_text()
    with pytest.raises(InputError, match=r"log\.jsonl does not reach round 3"):
        cut(log, 3)
    assert log.read_text() == before
    cut(log, 0)
    assert log.read_text() == ""


def test_the_command_writes_a_log_and_goes_on_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text('selector = "oort"\n[data]\nclients = 8\n[rounds]\nrounds = 3\nk = 3\n')
    words = ["run", "run.toml", "--output", "out", "--workers", "0", "--log", "log.jsonl", "--quiet"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert len(list(replay("out/config.json", "log.jsonl"))) == 3
    done = CliRunner().invoke(app, [*words, "--resume", "--set", "rounds.rounds=5"])
    assert done.exit_code == 0, done.output
    assert [selection.round for selection, _ in replay("run.toml", "log.jsonl")] == [1, 2, 3, 4, 5]
