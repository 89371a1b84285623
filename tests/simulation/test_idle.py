"""What is written while workers train: the same bytes in the same order, and nothing is lost or kept for ever."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from enlist.errors import StateFileError
from enlist.simulation import Callback, Simulation
from enlist.training.idle import IdleTasks
from tests.simulation.simulation_helpers import Kill, assert_same, config, continue_run
from tests.simulation.test_resume import world


class Lost(Callback):
    """Ends the run after a round; what was to be written later is lost, as after a SIGKILL."""

    def __init__(self, round: int) -> None:
        self.round = round

    def on_round(self, simulation: Simulation, record: Any) -> None:
        if record.row["round"] == self.round:
            assert simulation.trainer.crew is not None
            simulation.trainer.crew.meanwhile.waiting.clear()
            raise Kill


class Lengths(Callback):
    """Rows of rounds.csv that are on disk when a round ends, and errands that wait."""

    def __init__(self, path: Path) -> None:
        self.path = path / "rounds.csv"
        self.rows: list[int] = []
        self.waiting: list[int] = []

    def on_round(self, simulation: Simulation, record: Any) -> None:
        text = self.path.read_text() if self.path.exists() else ""
        self.rows.append(max(len(text.splitlines()) - 1, 0))
        crew = simulation.trainer.crew
        self.waiting.append(0 if crew is None else len(crew.meanwhile.waiting))


def test_a_round_is_written_while_the_next_one_trains(tmp_path: Path) -> None:
    for workers, behind in ((0, 0), (2, 1)):
        path = tmp_path / str(workers)
        lengths = Lengths(path)
        continue_run(path, config(rounds={"rounds": 5}), lengths, workers=workers)
        assert lengths.rows == [round - behind for round in range(1, 6)]
        assert lengths.waiting == [2 * behind] * 5, "rows and a checkpoint, never more than those of one round"
    assert_same(tmp_path / "0", tmp_path / "2")


@pytest.mark.parametrize("protocol", ["synchronous", "buffered"])
@pytest.mark.parametrize("eager", [True, False])
def test_what_a_kill_takes_is_done_again(tmp_path: Path, protocol: str, eager: bool) -> None:
    settings = world("oort") if protocol == "synchronous" else config(rounds={"rounds": 8, "protocol": "buffered"})
    continue_run(tmp_path / "whole", settings)
    for round, workers in ((1, 1), (4, 2), (6, 2)):
        with pytest.raises(Kill):
            continue_run(tmp_path / "killed", settings, Lost(round), eager=eager, workers=workers)
    continue_run(tmp_path / "killed", settings, workers=1)
    assert_same(tmp_path / "whole", tmp_path / "killed")


def test_a_disk_that_is_full_ends_the_run_and_leaves_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from enlist.runs.appending import TableFile

    settings, write, calls = config(), TableFile.write, iter(range(100))

    def full(table: TableFile, text: str) -> None:
        if next(calls) == 4:
            raise OSError(28, "No space left on device")
        write(table, text)

    continue_run(tmp_path / "whole", settings)
    with monkeypatch.context() as patch:
        patch.setattr(TableFile, "write", full)
        with pytest.raises(StateFileError, match="No space left on device"):
            continue_run(tmp_path / "full", settings, workers=2)
    continue_run(tmp_path / "full", settings, workers=2)
    assert_same(tmp_path / "whole", tmp_path / "full")


def test_after_an_errand_that_fails_workers_answer_as_before() -> None:
    def fail() -> None:
        raise ValueError("no room")

    with Simulation(config(), workers=2) as simulation, Simulation(config()) as plain:
        done: list[str] = []
        simulation.meanwhile(fail)
        simulation.meanwhile(lambda: done.append("after a failure"))
        before = simulation.trainer.models[0].parameters.clone()
        with pytest.raises(ValueError, match="no room"):
            simulation.trainer.evaluate(0, "test")
        assert not done
        assert simulation.trainer.evaluate(0, "test") == plain.trainer.evaluate(0, "test")
        assert np.array_equal(before.numpy(), simulation.trainer.models[0].parameters.numpy())


def test_errands_are_done_in_order_by_the_end_of_the_next_round() -> None:
    done: list[int] = []
    with Simulation(config(), workers=1) as simulation:
        for number in range(3):
            simulation.meanwhile(lambda number=number: done.append(number))  # type: ignore[misc]
        assert not done
        simulation.step()
        assert done == [0, 1, 2]
        simulation.meanwhile(lambda: done.append(3))
    assert done == [0, 1, 2, 3], "closing does what is left"


def test_an_errand_that_is_interrupted_takes_the_others_with_it() -> None:
    errands = IdleTasks()

    def interrupt() -> None:
        raise KeyboardInterrupt

    errands.add(interrupt)
    errands.add(lambda: pytest.fail("it rests on the one before"))
    with pytest.raises(KeyboardInterrupt):
        errands.run()
    errands.run()
