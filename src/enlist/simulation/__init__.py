"""Simulated federated training: rounds of real training on a virtual clock.

>>> from enlist.simulation import Config, Simulation
>>> config = Config(data={"clients": 10}, rounds={"rounds": 2, "k": 3})
>>> Simulation(config).run()["rounds"]
2
"""

from __future__ import annotations

from enlist.simulation.callbacks import Callback, MLflow, Progress, Recorder, TensorBoard
from enlist.simulation.comparison import Comparison, compare
from enlist.simulation.config import Config, load, parse
from enlist.simulation.jobs import run_in
from enlist.simulation.population import Population, build
from enlist.simulation.results import ComparisonResult, Run
from enlist.simulation.round.rows import RoundRecord
from enlist.simulation.running import read, simulate
from enlist.simulation.setup import placed
from enlist.simulation.simulation import Simulation
from enlist.simulation.sweep import Sweep, SweepResult, sweep

__all__ = [
    "Callback",
    "Comparison",
    "ComparisonResult",
    "Config",
    "MLflow",
    "Population",
    "Progress",
    "Recorder",
    "RoundRecord",
    "Run",
    "Simulation",
    "Sweep",
    "SweepResult",
    "TensorBoard",
    "build",
    "compare",
    "load",
    "parse",
    "placed",
    "read",
    "run_in",
    "simulate",
    "sweep",
]
