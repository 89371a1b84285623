"""Figures, as pure functions of the results: Figs. 2 to 10 of the paper, and an appendix."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import altair as alt
import numpy as np

from enlist._internal.statistics import Summary, share
from enlist._internal.typing import FloatArray
from enlist.studies.bsfl.annealing import ALSA, BETAS, CODE, ONE_SIDED, PRINTED, SA, curve
from enlist.studies.bsfl.experiments import train_key
from enlist.studies.bsfl.rules import score
from enlist.studies.bsfl.settings import (
    ALPHA,
    ALPHAS,
    APPENDIX,
    CIFAR,
    COLOURS,
    COUNTED,
    EXISTING,
    IID,
    LARGE,
    METHODS,
    NON_IID,
    PAPERS,
    SMALL,
    TWO_SPEEDS,
)
from enlist.studies.charts import ChartStyle, intervals
from enlist.studies.measures import final
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Replicates, Results
from enlist.studies.study import Figure, possible

BOTH = (IID, NON_IID)
TIME = "virtual seconds"
GRID = 60
"""Points in time, evenly spaced, at which curves of trainings are drawn."""
WALKERS = {SA: "SA", ALSA: "ALSA (Eq. 19)", ONE_SIDED: "ALSA, one-sided as in the code"}
WALKER_COLOURS = {"SA": "#e07a1f", "ALSA (Eq. 19)": "#0b6e99", "ALSA, one-sided as in the code": "#2a9d5c"}
WALKER_COLOURS |= {"exact optimum": "#2b2d42"}
TEMPERATURES = {PRINTED: "temperature of Theorem 2", CODE: "temperature of the code"}
BANDS = "Mean and 95 % interval over seeds."


def stepwise(ends: FloatArray, values: FloatArray, time: FloatArray) -> FloatArray:
    """What was last known by each point in time; NaN before anything was.

    >>> stepwise(np.array([1.0, 2.0, 3.0]), np.array([0.5, np.nan, 0.7]), np.array([0.5, 2.5, 3.0]))
    array([nan, 0.5, 0.7])
    """
    known = np.isfinite(values)
    if not known.any():
        return np.full(len(time), np.nan)
    places = np.searchsorted(ends[known], time, side="right") - 1
    return np.where(places >= 0, values[known][np.maximum(places, 0)], np.nan)


def over_time(group: Replicates, name: str) -> tuple[FloatArray, FloatArray]:
    """(points,) virtual time, and (seeds, points) a column as last known by then, from where every seed is known."""
    time = group.settings["config"]["rounds"]["seconds"] * np.arange(1, GRID + 1) / GRID
    values = np.array([stepwise(each["end"], each[name], time) for each in group.outputs.values()])
    known = np.isfinite(values).all(axis=0)
    return time[known], values[:, known]


def trained(results: Results, task: str, scenario: str, name: str, methods: Iterable[str], floor: float = 0.0) -> Panel:
    """A panel of trainings: a column of rounds above a floor, against virtual time."""
    rows: list[dict[str, Any]] = []
    for key in methods:
        time, values = over_time(results[train_key(task, scenario, key)], name)
        rows += along(time, values - floor, METHODS[key].label)
    label = f"test {name}" + (f" − {floor:g}" if floor else "")
    return Panel(f"{scenario}: {label}", rows, TIME, label, log_y=floor > 0)


def regrets(results: Results, world: str, scenario: str, name: str = "pseudo", log_x: bool = False) -> Panel:
    """A panel of regret, each method under the reward that it is judged by."""
    rows = []
    for key in PAPERS[scenario]:
        group = results[f"regret/{world}/{scenario}/{key}"]
        rows += along(group.column("rounds")[0], group.column(name), METHODS[key].label)
    said = "regret" if name == "pseudo" else f"regret of losses ≥ {COUNTED:g}"
    return Panel(f"{scenario}: {said}", rows, "round", said, log_x=log_x)


def generalisation(results: Results) -> Figure:
    """Fig. 2; needs no results."""
    clients, k = 20, 5
    panels = []
    for normalised, title in ((False, "as printed (Eq. 3)"), (True, "our default: relative to the target, cut to ±1")):
        rows = []
        for beta in BETAS:
            shares, values = curve(clients, k, beta, normalised)
            rows += along(shares, values[None], f"beta = {beta}")
        panels.append(Panel(title, rows, "share of rounds selected, c/t", "g"))
    ramp = ("#0b6e99", "#2a9d5c", "#e07a1f", "#c8553d")
    colours = {f"beta = {beta}": colour for beta, colour in zip(BETAS, ramp, strict=True)}
    title = f"What a client's selection is worth, {k} of {clients} clients"
    caption = (
        f"Zero at the target {k / clients:g}. As printed g is at most the target, so that alpha depends on K and m."
    )
    return Figure("fig-2", "Generalisation function (Fig. 2)", side_by_side(panels, title, colours), caption, True)


def graphs(results: Results) -> Figure:
    """Fig. 3: the states of one instance, with the edges of SA and of ALSA."""
    group = results["graph"]
    output = next(iter(group.outputs.values()))
    energy, edges, kept = output["energy"], output["edges"], output["kept"]
    # Across, a golden-angle walk by rank, so that states of similar energy lie apart.
    place = [float(one) for one in (np.argsort(np.argsort(energy)) * 0.6180339887) % 1.0]
    nodes = [{"x": one, "y": float(high)} for one, high in zip(place, energy, strict=True)]
    y = alt.Y("y:Q", title="energy", scale=alt.Scale(zero=False, nice=False, padding=8))
    x = alt.X("x:Q", axis=None, scale=alt.Scale(padding=8))
    charts = []
    for walker, mask in ((SA, np.ones(len(edges), bool)), (ALSA, kept)):
        lines = [
            {"x": place[a], "y": float(energy[a]), "x2": place[b], "y2": float(energy[b])}
            for a, b in edges[mask].tolist()
        ]
        colour = WALKER_COLOURS[WALKERS[walker]]
        drawn = alt.Chart(alt.InlineData(values=lines)).mark_rule(color=colour, opacity=0.28, strokeWidth=0.8)
        dots = alt.Chart(alt.InlineData(values=nodes)).mark_circle(size=42, color="#2b2d42", opacity=1)
        layered = alt.layer(drawn.encode(x=x, y=y, x2="x2:Q", y2="y2:Q"), dots.encode(x=x, y=y))
        said = f"{WALKERS[walker]}: {int(mask.sum())} edges"
        heading = alt.TitleParams(said, fontSize=12, fontWeight="normal", frame="group")
        charts.append(layered.properties(width=380, height=320, title=heading))
    title = (
        f"States of one instance, {group.settings['k']} of {group.settings['clients']} clients, and their neighbours"
    )
    return Figure(
        "fig-3",
        "Graphs of SA and ALSA (Fig. 3)",
        alt.hconcat(*charts, spacing=30).properties(title=alt.TitleParams(title, anchor="start")),
        f"All {len(energy)} states, by energy; across, only so that edges can be told apart.",
        highlight=True,
    )


def energies(results: Results) -> Figure:
    """Fig. 4: the energy of the state that SA and ALSA are in, and the optimum."""
    panels = []
    for temperature, said in TEMPERATURES.items():
        rows = []
        for walker, name in WALKERS.items():
            group = results[f"energy/{temperature}/{walker}"]
            rows += along(group.column("steps")[0], group.column("energy"), name)
        steps = group.column("steps")[0]
        rows += along(steps, np.repeat(group.column("optimum")[:, None], len(steps), axis=1), "exact optimum")
        panels.append(Panel(said, rows, "step", "energy of the state"))
    title = f"Energy over steps, {group.settings['k']} of {group.settings['clients']} clients"
    return Figure(
        "fig-4",
        "Energy over steps (Fig. 4)",
        side_by_side(panels, title, WALKER_COLOURS, 2, 350, 260),
        "Mean and 95 % interval over instances. The paper prints the neighbourhood of Eq. 19 and the temperature of "
        "Theorem 2; code that carries its experiments has a one-sided neighbourhood and another temperature.",
        highlight=True,
    )


def races(results: Results) -> Figure:
    """How often a walker beats SA, by size."""
    rows = []
    for temperature, walker in ((PRINTED, ALSA), (PRINTED, ONE_SIDED), (CODE, ALSA), (CODE, ONE_SIDED)):
        group = results[f"race/{temperature}/{walker}"]
        for clients, k in group.each("sizes")[0].tolist():
            wins, ties, losses = score(group, clients, clients)
            found = share(wins, wins + ties + losses)
            rows.append(
                {
                    "name": f"{k} of {clients}",
                    "series": f"{'Eq. 19' if walker == ALSA else 'one-sided'}, {TEMPERATURES[temperature]}",
                    "mean": found.mean,
                    "low": found.low,
                    "high": found.high,
                }
            )
    chart = intervals(rows, "Share of instances won against SA", ChartStyle("share", width=520, columns=1), 0.983)
    caption = "Equally many steps for both, ties are not won; Wilson's 95 % intervals. Dashed: the paper's 98.3 %."
    return Figure("races", "How often ALSA beats SA (the 98.3 %)", chart, caption)


def small(number: int, scenario: str, results: Results) -> Figure:
    """Figs. 5 and 8: regret, and linear regression, with 5 of 20 clients."""
    config = results[train_key("linear", scenario, "bsfl")].settings["config"]
    floor = float(config["data"]["dataset"]["noise"]) ** 2
    panels = [
        regrets(results, SMALL, scenario),
        trained(results, "linear", scenario, "loss", PAPERS[scenario], floor),
    ]
    title = f"5 of 20 clients, {scenario}: regret over rounds, and test loss above the noise's over virtual time"
    return Figure(
        f"fig-{number}",
        f"Regret and linear regression, {scenario} (Fig. {number})",
        side_by_side(panels, title, COLOURS, 2, 350, 250),
        f"{BANDS} BSFL as printed has alpha = {ALPHA[SMALL]:g}, our choice. Regret is counted in the printed reward, "
        f"that of our default in its own. The noise alone gives a loss of {floor:g}.",
        highlight=True,
    )


def two_speeds(results: Results) -> Figure:
    """Regret where there is one gap, and the horizon of the proof is within reach."""
    panels = [regrets(results, TWO_SPEEDS, scenario, "counted", log_x=True) for scenario in BOTH]
    return Figure(
        "two-speeds",
        "Regret within the proof's horizon, 5 of 20 clients",
        side_by_side(panels, "All fast clients are equally fast; a logarithm is a straight line", COLOURS, 2, 350, 230),
        f"{BANDS} Only rounds that lost at least {COUNTED:g} count: of smaller losses Theorem 1 says nothing within so "
        "many rounds.",
        highlight=True,
    )


def pictures(task: str, model: str, figure: str, results: Results) -> Figure:
    """Figs. 6, 7, 9, 10: loss and accuracy of a model on pictures."""
    scenarios = [each for each in BOTH if train_key(task, each, "bsfl") in results] or [NON_IID]
    group = results[train_key(task, scenarios[0], "bsfl")]
    panels = []
    for scenario in scenarios:
        there = [key for key in PAPERS[scenario] if train_key(task, scenario, key) in results]
        panels += [trained(results, task, scenario, name, there) for name in ("loss", "accuracy")]
    clients, k = group.settings["config"]["data"]["clients"], group.settings["config"]["rounds"]["k"]
    return Figure(
        task,
        f"{model} on {pictures_of(group)}, {k} of {clients} clients ({figure})",
        side_by_side(panels, "On the test set, against virtual time", COLOURS, 2, 350, 210),
        f"{BANDS} Seeds: {len(group.seeds)}. BSFL as printed has alpha = {ALPHA[LARGE]:g}, our choice. BSFL and CS-UCB "
        f"begin alike: trying every client once takes {-(-clients // k)} rounds.",
        highlight=True,
    )


def pictures_of(group: Replicates) -> str:
    """The data set of a training, and that it stands in for another where it does."""
    name = str(group.settings["config"]["data"]["dataset"]["name"])
    return f"{name} in place of Fashion-MNIST" if name == "digits" else name


def alphas(results: Results) -> Figure:
    """The curve of alpha: rounds, evenness, and what the MLP ends with."""
    panels = []
    for name, label in (("round_time", "round time / deadline"), ("jain", "Jain index")):
        rows = [_point(results[f"alpha/printed/{one:g}"].column(name), one) for one in ALPHAS["printed"]]
        panels.append(Panel("arena, iid", rows, "alpha", label, steps=True))
    for name in ("accuracy", "loss"):
        rows = [
            _point(ends(results[train_key("mlp", NON_IID, f"alpha={one:g}")], name), one) for one in ALPHAS["printed"]
        ]
        panels.append(Panel("MLP, non-iid", rows, "alpha", f"final test {name}", steps=True))
    clients, k = (results["alpha/printed/0"].settings[name] for name in ("clients", "k"))
    return Figure(
        "alpha",
        f"What alpha does, {k} of {clients} clients",
        side_by_side(panels, "BSFL as printed, alpha alone changed", COLOURS, 2, 330, 180),
        f"{BANDS} The paper prints no alpha; {ALPHA[LARGE]:g} is our choice, made on other seeds. As printed, |g| is "
        f"at most {k / clients:g} for whoever was never selected.",
        highlight=True,
    )


def _point(values: FloatArray, alpha: float) -> dict[str, Any]:
    found = Summary.of(values.tolist())
    low, high = (found.mean, found.mean) if len(values) < 3 else (found.low, found.high)
    return {"series": METHODS["bsfl"].label, "at": alpha, "mean": found.mean, "low": low, "high": high}


def ends(group: Replicates, name: str) -> FloatArray:
    """Means of the last three evaluations, a seed each."""
    return np.array([final(each, name) for each in group.outputs.values()])


def selections(results: Results) -> Figure:
    """Who is selected in the end, the fastest client first."""
    panels = []
    for scenario in BOTH:
        rows = []
        for key in PAPERS[scenario]:
            late = results[f"regret/{SMALL}/{scenario}/{key}"].column("late")
            rows += along(np.arange(1.0, late.shape[1] + 1), late, METHODS[key].label)
        panels.append(Panel(scenario, rows, "client, fastest first", "share of rounds"))
    title = "Share of the last tenth of the rounds that each client takes part in, 5 of 20"
    chart = side_by_side(panels, title, COLOURS)
    return Figure("selections", "Who is selected in the end", chart, "The last tenth of the clients is slow.")


def others(results: Results) -> Figure:
    """Rivals that the paper does not have: Oort as printed, and our defaults."""
    panels = [
        trained(
            results, "mlp", scenario, "accuracy", ("bsfl", *dict.fromkeys((*EXISTING[scenario][:1], "oort", *APPENDIX)))
        )
        for scenario in BOTH
    ]
    title = "MLP: test accuracy against virtual time"
    return Figure("others", "Rivals that the paper does not have", side_by_side(panels, title, COLOURS), BANDS)


def settings_of_their_own(results: Results) -> Figure:
    """Data quality, and clients that are available only in part."""
    rows: list[dict[str, Any]] = []
    names = {key: METHODS[key].label for key in ("bsfl", "bsfl-default")} | {"bsfl-eq-3": "BSFL, Eq. 3 (no quality)"}
    for key, name in names.items():
        time, values = over_time(results[train_key("quality", IID, key)], "accuracy")
        rows += along(time, values, name)
    panels = [
        Panel("wrong labels: test accuracy", rows, TIME, "test accuracy"),
        trained(results, "part-time", NON_IID, "accuracy", PAPERS[NON_IID]),
    ]
    colours = COLOURS | {names["bsfl-eq-3"]: "#b5838d"}
    title = "MLP with wrong labels (iid), and with clients that come and go (non-iid)"
    chart = side_by_side(panels, title, colours)
    return Figure("quality", "Data quality and availability", chart, BANDS, highlight=True)


MAKERS: list[Callable[[Results], Figure]] = [
    generalisation,
    graphs,
    energies,
    functools.partial(small, 5, IID),
    functools.partial(small, 8, NON_IID),
    two_speeds,
    functools.partial(pictures, "mlp", "An MLP", "Figs. 6 and 9, with an MLP"),
    functools.partial(pictures, "cnn", "A small CNN", "Fig. 9"),
    functools.partial(pictures, "cnn-dropout", "The paper's kind of CNN", "Fig. 9"),
    functools.partial(pictures, CIFAR, "A CNN", "Figs. 7 and 10"),
    alphas,
    settings_of_their_own,
    races,
    selections,
    others,
]


def figures(results: Results) -> Sequence[Figure]:
    """Every figure whose experiments have been run.

    >>> [figure.name for figure in figures(Results({}))]
    ['fig-2']
    """
    return possible(MAKERS, results)
