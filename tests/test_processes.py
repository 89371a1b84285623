"""Worker processes: threads of linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np
import threadpoolctl

from enlist.processes import one_core
from enlist.simulation import Config, Simulation
from enlist.simulation.callbacks import Callback


def threads() -> set[int]:
    np.ones((4, 4)) @ np.ones((4, 4))
    return {each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"}


def test_one_core_and_then_as_before() -> None:
    with threadpoolctl.threadpool_limits(2, user_api="blas"):
        before = threads()
        with one_core():
            assert threads() == {1}
        assert threads() == before


def test_selectors_of_a_simulation_compute_in_one_thread() -> None:
    seen: list[set[int]] = []

    class Watch(Callback):
        def on_round(self, simulation: Any, row: Any, participations: Any) -> None:
            seen.append(threads())

    config = Config(data={"clients": 8}, rounds={"rounds": 2, "k": 3})
    Simulation(config, callbacks=[Watch()]).run()
    assert seen == [{1}, {1}]
