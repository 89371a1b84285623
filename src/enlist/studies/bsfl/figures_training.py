"""Figures in the simulator: test loss and accuracy against virtual time."""

from __future__ import annotations

from collections.abc import Sequence

from enlist.studies.bsfl.panels import Panel, along, side_by_side
from enlist.studies.bsfl.plan import train_key
from enlist.studies.bsfl.settings import CIFAR, COLOURS, IID, METHODS, NON_IID
from enlist.studies.results import Results
from enlist.studies.study import Figure

TASKS = {"mlp": "an MLP", "cnn": "a CNN", CIFAR: "a CNN"}


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
    key = next(iter(results.keys(train_key(task, scenario, ""))))
    name = str(results[key].settings["config"]["data"]["dataset"]["name"])
    return f"{name} in place of Fashion-MNIST" if name == "digits" else name


def linear(results: Results) -> Figure:
    """Figs. 5 and 8, right: linear regression.

    >>> from enlist.studies.bsfl.example import example_results
    >>> linear(example_results()).name
    'linear'
    """
    panels = [_panel(results, "linear", scenario, "loss", log_y=True) for scenario in (IID, NON_IID)]
    return Figure(
        "linear",
        "Linear regression, 5 of 20 clients (Figs. 5 and 8, right)",
        side_by_side(panels, "Test loss against virtual time", COLOURS, 2, 350, 280),
        "20 samples per client on average, 50 inputs; noise alone gives 0.25. Mean and 95 % interval over seeds.",
        highlight=True,
    )


def pictures(results: Results, task: str, paper: str) -> Figure | None:
    """Figs. 6, 7, 9, 10: accuracy and loss of a model on pictures; nothing if it was not trained.

    >>> from enlist.studies.bsfl.example import example_results
    >>> pictures(example_results(), "mlp", "Figs. 6, 9").name, pictures(example_results(), "cifar10", "Figs. 7, 10")
    ('mlp', None)
    """
    scenarios = [scenario for scenario in (IID, NON_IID) if methods_of(results, task, scenario)]
    if not scenarios:
        return None
    panels = [_panel(results, task, scenario, name) for name in ("accuracy", "loss") for scenario in scenarios]
    config = results[train_key(task, scenarios[0], "bsfl-default")].settings["config"]
    data, k, clients = data_of(results, task, scenarios[0]), config["rounds"]["k"], config["data"]["clients"]
    return Figure(
        task,
        f"{TASKS[task][0].upper()}{TASKS[task][1:]} on {data}, {k} of {clients} clients ({paper})",
        side_by_side(panels, "On the test set, against virtual time", COLOURS, 2, 350, 260),
        "Mean and 95 % interval over seeds; everybody has the same virtual time. Trying every client once takes "
        f"{-(-clients // k)} rounds, nearly all with a slow client among them.",
        highlight=True,
    )


def _panel(results: Results, task: str, scenario: str, name: str, log_y: bool = False) -> Panel:
    rows = []
    for key in methods_of(results, task, scenario):
        group = results[train_key(task, scenario, key)]
        rows += along(group.column("time")[0], group.column(name), METHODS[key].label)
    return Panel(scenario, rows, "virtual seconds", f"test {name}", log_y=log_y)


def all_figures(results: Results) -> Sequence[Figure]:
    """Every figure of a training.

    >>> from enlist.studies.bsfl.example import example_results
    >>> [figure.name for figure in all_figures(example_results())]
    ['linear', 'mlp', 'cnn']
    """
    found = [
        linear(results),
        pictures(results, "mlp", "Figs. 6 and 9, with an MLP"),
        pictures(results, "cnn", "Figs. 6 and 9"),
        pictures(results, CIFAR, "Figs. 7 and 10"),
    ]
    return [figure for figure in found if figure is not None]
