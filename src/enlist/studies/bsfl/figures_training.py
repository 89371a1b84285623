"""Figures in the simulator: test loss and accuracy against virtual time."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from enlist.studies.bsfl.plan import train_key
from enlist.studies.bsfl.settings import CIFAR, COLOURS, IID, METHODS, NON_IID
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Results
from enlist.studies.study import Figure

TIME = "virtual seconds"
TASKS = {"mlp": "An MLP", "cnn": "A CNN", CIFAR: "A CNN"}


def methods_of(results: Results, task: str, scenario: str) -> list[str]:
    """Methods that were trained on a task in a scenario.

    >>> from enlist.studies.bsfl.example import example_results
    >>> methods_of(example_results(), "cnn", NON_IID)[:3]
    ['bsfl-printed', 'bsfl-default', 'cs-ucb-q']
    """
    start = train_key(task, scenario, "")
    return [
        key.removeprefix(start) for key in results.keys(start) if key.removeprefix(start) not in ("alpha-0", "loss")
    ]


def data_of(results: Results, task: str, scenario: str) -> str:
    """The data set of a task, and that it stands in for another where it does.

    >>> from enlist.studies.bsfl.example import example_results
    >>> data_of(example_results(), "linear", IID)
    'linear-regression'
    """
    group = results[train_key(task, scenario, "bsfl-default")]
    name = str(group.settings["config"]["data"]["dataset"]["name"])
    return f"{name} in place of Fashion-MNIST" if name == "digits" else name


def linear(results: Results) -> Figure:
    """Figs. 5 and 8, right: linear regression.

    >>> from enlist.studies.bsfl.example import example_results
    >>> linear(example_results()).name
    'linear'
    """
    config = results[train_key("linear", IID, "bsfl-default")].settings["config"]
    floor = float(config["data"]["dataset"]["noise"]) ** 2
    label = f"test loss − {floor:g}"
    panels = [
        Panel(scenario, _curves(results, "linear", scenario, "loss", floor), TIME, label, log_y=True)
        for scenario in (IID, NON_IID)
    ]
    return Figure(
        "linear",
        "Linear regression, 5 of 20 clients (Figs. 5 and 8, right)",
        side_by_side(panels, "Test loss above that of the noise, against virtual time", COLOURS, 2, 350, 280),
        f"{config['data']['dataset']['samples'] // 20} samples per client on average, "
        f"{config['data']['dataset']['features']} inputs; noise alone gives a loss of {floor:g}. Mean and 95 % "
        "interval over seeds.",
        highlight=True,
    )


def pictures(task: str, paper: str, results: Results) -> Figure:
    """Figs. 6, 7, 9, 10: accuracy and loss of a model on pictures.

    >>> from enlist.studies.bsfl.example import example_results
    >>> pictures("mlp", "Figs. 6 and 9", example_results()).name
    'mlp'
    """
    scenarios = [scenario for scenario in (IID, NON_IID) if methods_of(results, task, scenario)] or [NON_IID]
    config = results[train_key(task, scenarios[0], "bsfl-default")].settings["config"]
    panels = [
        Panel(f"{scenario}{part}", _curves(results, task, scenario, name, since=since), TIME, f"test {name}")
        for name in ("accuracy", "loss")
        for since, part in ((0.0, ""), (0.5, ", second half"))
        for scenario in scenarios
    ]
    data, k, clients = data_of(results, task, scenarios[0]), config["rounds"]["k"], config["data"]["clients"]
    return Figure(
        task,
        f"{TASKS[task]} on {data}, {k} of {clients} clients ({paper})",
        side_by_side(panels, "On the test set, against virtual time", COLOURS, 2, 350, 210),
        "Mean and 95 % interval over seeds; everybody has the same virtual time. BSFL and CS-UCB begin alike: trying "
        f"every client once takes {-(-clients // k)} rounds, nearly all of them with a slow client.",
        highlight=True,
    )


def _curves(
    results: Results, task: str, scenario: str, name: str, floor: float = 0.0, since: float = 0.0
) -> list[dict[str, Any]]:
    """Curves of all methods above a floor, from a part of the time on, and from where every seed is known."""
    rows = []
    for key in methods_of(results, task, scenario):
        group = results[train_key(task, scenario, key)]
        time, values = group.column("time")[0], group.column(name)
        kept = np.isfinite(values).all(axis=0) & (time >= since * time[-1])
        rows += along(time[kept], values[:, kept] - floor, METHODS[key].label)
    return rows


PICTURES = [
    functools.partial(pictures, "mlp", "Figs. 6 and 9, with an MLP"),
    functools.partial(pictures, "cnn", "Figs. 6 and 9"),
    functools.partial(pictures, CIFAR, "Figs. 7 and 10"),
]
