"""Figures on the problem of Eq. 13: g, graphs of states, energies over steps, who wins."""

from __future__ import annotations

import altair as alt
import numpy as np

from enlist.statistics import Summary, share
from enlist.studies.bsfl.claims_annealing import TIE, wins
from enlist.studies.bsfl.claims_problem import solver_milliseconds
from enlist.studies.bsfl.further import COLD, HEAD_START
from enlist.studies.bsfl.generalisation import BETAS, curve
from enlist.studies.bsfl.solving import ALSA, SA
from enlist.studies.charts import Look, intervals
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Results
from enlist.studies.study import Figure

SA_COLOUR, ALSA_COLOUR, OPTIMUM = "#e07a1f", "#0b6e99", "#2b2d42"
CLIENTS, K = 20, 5


def generalisation(results: Results) -> Figure:
    """Fig. 2: g against the share of rounds that a client was selected in; needs no results.

    >>> generalisation(Results({})).name
    'generalisation'
    """
    panels = []
    for normalised, title in ((False, "as printed (Eq. 3)"), (True, "our default: relative to the target, cut to ±1")):
        rows = []
        for beta in BETAS:
            shares, values = curve(CLIENTS, K, beta, normalised)
            rows += along(shares, values[None], f"beta = {beta}")
        panels.append(Panel(title, rows, "share of rounds selected, c/t", "g"))
    colours = {f"beta = {beta}": colour for beta, colour in zip(BETAS, _RAMP, strict=True)}
    return Figure(
        "generalisation",
        "Generalisation function (Fig. 2)",
        side_by_side(panels, f"What a client's selection is worth, {K} of {CLIENTS} clients", colours),
        f"Zero at the target {K / CLIENTS:g}. The larger beta, the flatter g is around the target; as printed it is "
        "at most the target itself, so that alpha means something else for every K and m.",
    )


_RAMP = ("#0b6e99", "#2a9d5c", "#e07a1f", "#c8553d")


def graphs(results: Results) -> Figure:
    """Fig. 3: the states of a small instance, with the edges of SA and of ALSA.

    >>> from enlist.studies.bsfl.example import example_results
    >>> graphs(example_results()).name
    'graphs'
    """
    group = results["graph"]
    outcome = next(iter(group.outcomes.values()))
    energy, edges, kept = outcome["energy"], outcome["edges"], outcome["kept"]
    place = _places(energy)
    charts = []
    for title, mask, colour in ((SA, np.ones(len(edges), bool), SA_COLOUR), (ALSA, kept, ALSA_COLOUR)):
        lines = [
            {"x": place[a], "y": float(energy[a]), "x2": place[b], "y2": float(energy[b])}
            for a, b in edges[mask].tolist()
        ]
        nodes = [{"x": one, "y": float(high)} for one, high in zip(place, energy, strict=True)]
        y = alt.Y("y:Q", title="energy", scale=alt.Scale(zero=False, nice=False, padding=8))
        x = alt.X("x:Q", axis=None, scale=alt.Scale(padding=8))
        drawn = alt.Chart(alt.InlineData(values=lines)).mark_rule(color=colour, opacity=0.28, strokeWidth=0.8)
        dots = alt.Chart(alt.InlineData(values=nodes)).mark_circle(size=42, color=OPTIMUM, opacity=1)
        layered = alt.layer(drawn.encode(x=x, y=y, x2="x2:Q", y2="y2:Q"), dots.encode(x=x, y=y))
        heading = alt.TitleParams(f"{title}: {int(mask.sum())} edges", fontSize=12, fontWeight="normal", frame="group")
        charts.append(layered.properties(width=380, height=360, title=heading))
    clients, k = group.settings["clients"], group.settings["k"]
    title = f"States of one instance, {k} of {clients} clients, and which of them are neighbours"
    return Figure(
        "graphs",
        "Graphs of SA and ALSA (Fig. 3)",
        alt.hconcat(*charts, spacing=30).properties(title=alt.TitleParams(title, anchor="start")),
        f"All {len(energy)} states, by energy; across, only so that edges can be told apart. ALSA keeps "
        f"{100 * kept.mean():.0f} % of the edges.",
    )


def _places(energy: np.ndarray) -> list[float]:
    """Positions across: a golden-angle walk by rank, so that states of similar energy lie apart."""
    ranks = np.argsort(np.argsort(energy))
    return [float(one) for one in (ranks * 0.6180339887) % 1.0]


def energies(results: Results) -> Figure:
    """Fig. 4: the energy of the state that SA and ALSA are in, and the optimum.

    >>> from enlist.studies.bsfl.example import example_results
    >>> energies(example_results()).name
    'energies'
    """
    group = results["energy"]
    steps = group.column("steps")[0]
    rows = [row for name in (SA, ALSA) for row in along(steps, group.column(name), name)]
    optimum = np.repeat(group.column("optimum")[:, None], len(steps), axis=1)
    rows += along(steps, optimum, "exact optimum")
    clients, k = group.settings["clients"], group.settings["k"]
    colours = {SA: SA_COLOUR, ALSA: ALSA_COLOUR, "exact optimum": OPTIMUM}
    walks = {name: 1e3 * float(np.median(group.column(f"{name}_seconds"))) for name in (SA, ALSA)}
    title = f"{k} of {clients} clients: energy of the state that SA and ALSA are in, and the optimum"
    return Figure(
        "energies",
        "Energy over steps (Fig. 4)",
        side_by_side([Panel("", rows, "step", "energy of the state")], title, colours, 1, 620, 300),
        "Mean and 95 % interval over instances, at the printed temperature. The exact solver took "
        f"{solver_milliseconds(results):.1f} ms, SA's walk {walks[SA]:.0f} ms, ALSA's {walks[ALSA]:.0f} ms.",
        highlight=True,
    )


def races(results: Results) -> Figure:
    """How often ALSA beats SA, by size, and under what further experiments changed.

    >>> from enlist.studies.bsfl.example import example_results
    >>> races(example_results()).name
    'races'
    """
    named = {
        results["race"].key: "printed temperature",
        "race/time": "printed temperature, equal time",
        "race/met": "printed temperature, instances met by BSFL",
        "race/cold": f"{COLD:g} of the temperature",
        "race/one-sided": f"{COLD:g} of the temperature, one-sided ALSA",
    }
    rows = []
    for key, name in named.items():
        if key not in results:
            continue
        group = results[key]
        higher = group.column("runner") > group.column("sa") + TIE
        for place, (clients, k) in enumerate(group.each("sizes")[0].tolist()):
            at_size = higher[:, place]
            rows.append(_row(f"{k} of {clients}", name, share(int(at_size.sum()), at_size.size)))
        rows.append(_row("all", name, wins(group)))
    chart = intervals(
        rows, "Instances in which ALSA met a higher energy than SA", Look("share", width=560, columns=2), 0.983
    )
    return Figure(
        "races",
        "How often ALSA beats SA (the 98.3 %)",
        chart,
        f"Equally many steps for both; in equal time SA has {HEAD_START} for one of ALSA's. 95 % intervals of Wilson. "
        "The dashed line is the paper's 98.3 %.",
    )


def _row(name: str, series: str, found: Summary) -> dict[str, object]:
    return {"name": name, "series": series, "mean": found.mean, "low": found.low, "high": found.high}
