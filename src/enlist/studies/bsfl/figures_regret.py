"""Figures in the arena: regret, its fits, larger populations, who is selected, sensitivity."""

from __future__ import annotations

import numpy as np

from enlist.statistics import Summary
from enlist.studies.bsfl.claims_regret import limits
from enlist.studies.bsfl.fits import SETTLED, SHAPES, fit
from enlist.studies.bsfl.growth import NOTED, PRESETS, bsfl, larger, read, sizes
from enlist.studies.bsfl.plan import regret_key
from enlist.studies.bsfl.settings import (
    COLOURS,
    DEFAULT,
    IID,
    METHODS,
    NON_IID,
    PRINTED,
    REGRET_RIVALS,
    SENSITIVITY,
    own,
)
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Group, Results
from enlist.studies.study import Figure
from enlist.typing import FloatArray

FIT_COLOURS = {"BSFL": "#0b6e99", "a + b ln n": "#c8553d", "a + b √n": "#2a9d5c", "noticeable losses only": "#8d99ae"}
REGRET, BOUND, WITH_GAP, TRIVIAL = "regret", "Theorem 1", f"Theorem 1 if Δmin were {NOTED[PRINTED]:g}", "n·Δmax"
BOUND_COLOURS = {REGRET: "#0b6e99", BOUND: "#c8553d", WITH_GAP: "#e07a1f", TRIVIAL: "#8d99ae"}
JUDGES = {PRINTED: "reward as printed", DEFAULT: "reward with normalised g (our default)"}
PARAMETERS = {"alpha": "alpha, weight of g", "beta": "beta, power of g", "bonus_scale": "bonus scale"}


def small(results: Results) -> Figure:
    """Figs. 5 and 8, left: regret at the paper's size.

    >>> from enlist.studies.bsfl.example import example_results
    >>> small(example_results()).name
    'regret'
    """
    size = sizes(results)[0]
    panels = [
        Panel(
            f"{scenario}, {JUDGES[reward]}",
            _curves(results, size, scenario, reward, SETTLED if reward == DEFAULT else 0.0),
            "round",
            "regret",
            log_y=reward == DEFAULT,
        )
        for reward in (PRINTED, DEFAULT)
        for scenario in (IID, NON_IID)
    ]
    return Figure(
        "regret",
        f"Regret, {read(size)} clients (Figs. 5 and 8, left)",
        side_by_side(panels, "Cumulated pseudo-regret against the genie", COLOURS),
        "Mean and 95 % interval over seeds. Each preset of BSFL is judged by the reward that it maximises. Eq. 7 as "
        "printed would be linear even for the genie; this is what its proof uses. Below, the axis is logarithmic, "
        "because BSFL's curve would not be told from 0, and the first twentieth of the rounds is left out.",
        highlight=True,
    )


def fitted(results: Results) -> Figure:
    """BSFL's regret at the paper's size on a logarithmic axis, with fits.

    >>> from enlist.studies.bsfl.example import example_results
    >>> fitted(example_results()).name
    'regret-fit'
    """
    size = sizes(results)[0]
    panels = []
    for reward in (PRINTED, DEFAULT):
        for scenario in (IID, NON_IID):
            group = bsfl(results, size, scenario, reward)
            rounds, values = group.column("rounds")[0], group.column("pseudo")
            rows = along(rounds, values, "BSFL")
            rows += along(rounds, group.column(f"noticeable/{NOTED[reward]:g}"), "noticeable losses only")
            for shape in ("ln n", "√n"):
                a, b, _ = fit(rounds, values.mean(axis=0), shape)
                used = rounds >= SETTLED * rounds[-1]
                rows += along(rounds[used], (a + b * SHAPES[shape](rounds[used]))[None], f"a + b {shape}")
            title = f"{scenario}, {PRESETS[reward]}; noticeable: at least {NOTED[reward]:g}"
            panels.append(Panel(title, rows, "round", "regret", log_x=True))
    return Figure(
        "regret-fit",
        f"Is the regret logarithmic? {read(size)} clients",
        side_by_side(panels, "BSFL's regret on a logarithmic axis, where ln n is a straight line", FIT_COLOURS),
        "Fits leave out the first twentieth of the rounds. Grey: only the rounds that lost a noticeable amount, as "
        "Theorem 1 assumes all losses to be.",
        highlight=True,
    )


def large(results: Results) -> Figure:
    """Regret at sizes that the paper could not measure.

    >>> from enlist.studies.bsfl.example import example_results
    >>> large(example_results()).name
    'regret-large'
    """
    panels = [
        Panel(
            f"{read(size)}, {scenario}, {PRESETS[reward]}",
            _curves(results, size, scenario, reward),
            "round",
            "regret",
            log_x=True,
            log_y=True,
        )
        for size in larger(results)
        for reward in (PRINTED, DEFAULT)
        for scenario in (IID, NON_IID)
    ]
    return Figure(
        "regret-large",
        "Regret of larger populations",
        side_by_side(panels, "Cumulated pseudo-regret, both axes logarithmic", COLOURS, 4, 210, 180),
        "On these axes linear growth has slope 1, a square root 1/2. At first every client is tried once.",
        highlight=True,
    )


def bounds(results: Results) -> Figure:
    """BSFL's regret beside Theorem 1's bound, and beside what nobody can exceed.

    >>> from enlist.studies.bsfl.example import example_results
    >>> bounds(example_results()).name
    'bound'
    """
    panels = []
    for size in sizes(results):
        for scenario in (IID, NON_IID):
            group = bsfl(results, size, scenario, PRINTED)
            rounds = group.column("rounds")[0]
            used = rounds >= SETTLED * rounds[-1]
            rows = along(rounds[used], np.log10(np.maximum(group.column("pseudo")[:, used], 1e-9)), REGRET)
            for name, limit in _limits(group, rounds[used]).items():
                rows += along(rounds[used], np.log10(limit)[None], name)
            panels.append(Panel(f"{read(size)}, {scenario}", rows, "round", "log10 of regret"))
    return Figure(
        "bound",
        "Theorem 1's bound beside the regret",
        side_by_side(panels, "BSFL as printed: regret, bound, and what nobody can exceed", BOUND_COLOURS, 2, 350, 160),
        "The bound goes by the least loss of a round, Δmin, squared; also shown is what it would be if no loss were "
        f"less than {NOTED[PRINTED]:g}. Mean of logarithms over seeds; the first twentieth of the rounds is left out.",
        highlight=True,
    )


def _limits(group: Group, rounds: FloatArray) -> dict[str, FloatArray]:
    found = {
        name: np.array([limits(group, least, int(one))[0] for one in rounds])
        for name, least in ((BOUND, None), (WITH_GAP, NOTED[PRINTED]))
    }
    return {**found, TRIVIAL: np.array([limits(group, None, int(one))[1] for one in rounds])}


def _curves(results: Results, size: str, scenario: str, reward: str, since: float = 0.0) -> list[dict[str, object]]:
    rows = []
    for key in (own(reward), *REGRET_RIVALS[scenario, reward]):
        group = results[regret_key(size, scenario, reward, key)]
        rounds = group.column("rounds")[0]
        used = rounds >= since * rounds[-1]
        rows += along(rounds[used], group.column("pseudo")[:, used], METHODS[key].label)
    return rows


def selections(results: Results) -> Figure:
    """Who is selected in the end, the fastest client first.

    >>> from enlist.studies.bsfl.example import example_results
    >>> selections(example_results()).name
    'selections'
    """
    size = sizes(results)[0]
    panels = []
    for reward in (PRINTED, DEFAULT):
        rows = []
        for key in (own(reward), *REGRET_RIVALS[IID, reward]):
            late = results[regret_key(size, IID, reward, key)].column("late")
            rows += along(np.arange(1.0, late.shape[1] + 1), late, METHODS[key].label)
        panels.append(Panel(f"iid, {PRESETS[reward]}", rows, "client, fastest first", "share of rounds"))
    return Figure(
        "selections",
        f"Who is selected in the last tenth of the rounds, {read(size)} clients",
        side_by_side(panels, "Share of rounds that each client takes part in", COLOURS),
        "The last tenth of the clients is slow.",
    )


def sensitivity(results: Results) -> Figure:
    """Round time and evenness against alpha, beta and the bonus scale.

    >>> from enlist.studies.bsfl.example import example_results
    >>> sensitivity(example_results()).name
    'sensitivity'
    """
    measures = {"round_time": "round time / deadline", "jain": "Jain index"}
    panels = []
    for measure, label in measures.items():
        for name, title in PARAMETERS.items():
            rows = [
                _point(results[f"sensitivity/{preset}/{name.replace('_', '-')}={value:g}"], measure, value, preset)
                for preset in (PRINTED, DEFAULT)
                for value in SENSITIVITY[preset][name]
            ]
            panels.append(Panel("", rows, title, label, steps=True))
    group = results[f"sensitivity/{PRINTED}/alpha=0"]
    clients, k = group.settings["clients"], group.settings["k"]
    return Figure(
        "sensitivity",
        f"Sensitivity, {k} of {clients} clients",
        side_by_side(panels, "One parameter at a time, the others as in the preset", COLOURS, 3, 240, 190),
        f"{group.settings['rounds']:,} rounds in the arena, mean and 95 % interval over seeds. As printed, g is at "
        f"most {k / clients:g}, so that alpha has to be large to matter.",
    )


def _point(group: Group, measure: str, value: float, preset: str) -> dict[str, object]:
    found: Summary = group.summary(measure)
    low, high = (found.mean, found.mean) if np.isnan(found.low) else (found.low, found.high)
    return {"series": METHODS[own(preset)].label, "at": value, "mean": found.mean, "low": low, "high": high}
