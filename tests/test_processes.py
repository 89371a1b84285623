"""Worker processes: threads of linear algebra."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
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


SELECTING = """
import hashlib, os, sys

if sys.argv[1] == "one":
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
import numpy as np

import enlist
from enlist.processes import one_core

rng, count = np.random.default_rng(0), 2000
selector = enlist.create("fedsuv", enlist.Clients(features=rng.normal(size=(count, 6))), seed=3)
with one_core():
    for _ in range(20):
        picked = selector.ask(k=20, deadline=10.0)
        latency, loss, gain = rng.uniform(0.1, 1, (3, 20))
        selector.tell(picked, enlist.Feedback(latency=latency, loss_rms=loss, accuracy_gain=gain))
print(hashlib.sha256(selector.state.utility.mean.tobytes()).hexdigest())
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="cores cannot be withheld from a process here")
def test_the_number_of_cores_does_not_change_the_bits() -> None:
    found = {
        cores: subprocess.run([sys.executable, "-c", SELECTING, cores], capture_output=True, text=True, check=True)
        for cores in ("one", "all")
    }
    assert found["one"].stdout == found["all"].stdout
