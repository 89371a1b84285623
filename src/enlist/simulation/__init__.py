"""Simulated federated training: rounds on a virtual clock, the tables a run leaves, and scores read from them.

>>> from enlist.simulation import Config, Simulation
>>> config = Config(data={"clients": 10}, rounds={"rounds": 2, "k": 3})
>>> Simulation(config).run()["rounds"]
2
"""

from __future__ import annotations

from enlist.simulation.callbacks import Callback, MLflow, Progress, Recorder, TensorBoard
from enlist.simulation.comparison import Comparison, compare, run_in
from enlist.simulation.config import Config, load, parse
from enlist.simulation.folder import RunFolder
from enlist.simulation.population import Population, build
from enlist.simulation.simulation import Simulation, placed
from enlist.simulation.tables import find_runs, read_run

__all__ = [
    "Callback",
    "Comparison",
    "Config",
    "MLflow",
    "Population",
    "Progress",
    "Recorder",
    "RunFolder",
    "Simulation",
    "TensorBoard",
    "build",
    "compare",
    "find_runs",
    "load",
    "parse",
    "placed",
    "read_run",
    "run_in",
]
