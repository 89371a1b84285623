"""Figures: those of the report (Figs. 1 to 6) and of the slides, then an appendix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

import altair as alt
import numpy as np

from enlist._internal.typing import FloatArray
from enlist.report.profile import memory_unit, profile_charts
from enlist.report.sizes import size_histogram
from enlist.report.skew import class_bars, class_pies
from enlist.studies.charts import ChartStyle, boxes, curves, intervals, lines
from enlist.studies.darts.experiments import batch_arm
from enlist.studies.darts.measures import by_size, pass_seconds, profile_of
from enlist.studies.darts.settings import (
    BATCH,
    DEFAULT,
    METHODS,
    NEEDED,
    OORT,
    PRINTED,
    RANDOM,
    REPORTED,
    ROTATION,
    SHOWN,
    STRETCHED,
)
from enlist.studies.measures import FINAL_ACCURACY
from enlist.studies.panels import Panel, along, side_by_side
from enlist.studies.results import Results
from enlist.studies.rules import Arm, Contrast
from enlist.studies.study import Figure, possible

if TYPE_CHECKING:
    from enlist.simulation.profile import Profile

COLOURS = {RANDOM: "#8d99ae", PRINTED: "#e07a1f", STRETCHED: "#b5387a", DEFAULT: "#0b6e99", ROTATION: "#2a9d5c"}
VIRIDIS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d8c617")
BLUE = "#0b6e99"
WINDOW, FIRST, STEPS = 5, 20, 40
"""Rounds that curves are smoothed over, rounds that the report shows, and mini-batches that a picture shows."""


def figures(results: Results) -> Sequence[Figure]:
    """Every figure whose experiments have been run.

    >>> figures(Results({}))
    []
    """
    makers = [
        _pies,
        _bars,
        _sizes_held,
        _costs,
        _client_times,
        _client_accuracies,
        _deviations,
        _choice,
        _first_rounds,
        _all_rounds,
        _asked,
        _mini_batches,
        _chosen_size,
        _rounds_by_size,
        _ablations,
        _own_samples,
    ]
    return possible(makers, results)


def _pies(results: Results) -> Figure:
    """Fig. 1a."""
    seed, first = next(iter(results[RANDOM.key].outputs.items()))
    chart = class_pies(first["counts"], "Classes of each client, and its samples", first["class_names"])
    return Figure("class-pies", "Classes of each client (Fig. 1a)", chart, f"The population of seed {seed}.", True)


def _bars(results: Results) -> Figure:
    """Fig. 1b."""
    seed, first = next(iter(results[RANDOM.key].outputs.items()))
    chart = class_bars(first["counts"], "Samples of each client by class", first["class_names"])
    return Figure("class-bars", "Classes and sizes of clients (Fig. 1b)", chart, f"The population of seed {seed}.")


def _sizes_held(results: Results) -> Figure:
    """Fig. 2."""
    chart = size_histogram(results[RANDOM.key].column("samples").ravel(), "Samples per client")
    caption = f"Clients of {populations(results, RANDOM.key)}."
    return Figure("size-histogram", "How many samples clients hold (Fig. 2)", chart, caption)


def _costs(results: Results) -> Figure:
    """Fig. 3."""
    machine = results["profile"].each("machine")[0]
    caption = (
        f"Mean over {populations(results, 'profile')} with its 95 % interval. Single mini-batches were timed on this "
        f"machine ({machine}) while other experiments ran beside; memory is what the process's resident memory grows "
        "by during a step, mean over clients."
    )
    chart = _by_size_panels(results, "Time and memory by batch size", "time", "memory")
    return Figure("batch-costs", "Time and memory by batch size (Fig. 3)", chart, caption, highlight=True)


def _deviations(results: Results) -> Figure:
    """Fig. 5."""
    caption = f"Of time over single mini-batches, of memory over clients; mean over {populations(results, 'profile')}."
    title = "Standard deviations by batch size"
    chart = _by_size_panels(results, title, "time deviation", "memory deviation")
    return Figure("batch-deviations", f"{title} (Fig. 5)", chart, caption)


def _by_size_panels(results: Results, title: str, time: str, memory: str) -> alt.TopLevelMixin:
    found = [by_size(output) for output in results["profile"].outputs.values()]
    unit, size = memory_unit(max(float(each["memory"].max()) for each in found))
    sized = {time: (1e3, "ms", "time of a mini-batch"), memory: (1 / size, unit, "peak memory of a step")}
    panels = []
    for name, (scale, axis, words) in sized.items():
        values = scale * np.array([each[name] for each in found])
        rows = along(found[0]["size"], values, "mini-batches")
        panels.append(Panel(words, rows, "batch size", axis, steps=True, zero=True))
    return side_by_side(panels, title, {"mini-batches": BLUE})


def _client_times(results: Results) -> Figure:
    """Fig. 4a."""
    chart = _profile_chart(_first_profile(results), "time-per-client")
    caption = f"Seconds of a pass, median; the population of seed {results['profile'].seeds[0]}."
    return Figure("client-time", "Training time of each client (Fig. 4a)", chart, caption)


def _client_accuracies(results: Results) -> Figure:
    """Fig. 4b."""
    chart = _profile_chart(_first_profile(results), "accuracy")
    caption = f"Each client's own model on its own samples; the population of seed {results['profile'].seeds[0]}."
    return Figure("client-accuracy", "Accuracy of each client by batch size (Fig. 4b)", chart, caption)


def _choice(results: Results) -> Figure:
    """What the choice of a batch size comes from."""
    chart = _profile_chart(profile_of(list(results["profile"].outputs.values())), "score")
    caption = (
        "Time per sample, memory of a step and lack of accuracy, each brought to 0..1 over the batch sizes offered; "
        f"the least mean is taken. All clients of {populations(results, 'profile')}."
    )
    return Figure("batch-choice", "The choice of a batch size (section 2.2)", chart, caption, highlight=True)


def _first_profile(results: Results) -> Profile:
    return profile_of(list(results["profile"].outputs.values())[:1])


def _profile_chart(profile: Profile, name: str) -> alt.TopLevelMixin:
    from enlist.simulation.profile import scores

    return profile_charts(profile, scores(profile.rows, profile.weights))[name]


def _first_rounds(results: Results) -> Figure:
    """Fig. 6: UCB and random, population by population, and the report's numbers as points."""
    rows, thin, dots = [], [], []
    for arm in (RANDOM, PRINTED):
        accuracy = results[arm.key].column("accuracy")[:, :FIRST]
        rows += _means(accuracy, arm.name)
        # Two lines are drawn of the same seed number; they must not be joined.
        thin += [{**row, "line": f"{arm.name} {row['line']}"} for row in lines(accuracy, series=arm.name)]
        reported = {at: own for at, own in REPORTED[arm].items() if at <= accuracy.shape[1]}
        dots += [{"series": f"{arm.name}, in the report", "at": at, "mean": own} for at, own in reported.items()]
    look = ChartStyle("round", "accuracy", colours=_colours((RANDOM, PRINTED)), width=640, height=320)
    chart = curves(rows, "The first rounds, population by population", look, thin=thin)
    dark = dict(zip(dict.fromkeys(str(dot["series"]) for dot in dots), ("#2b2d42", "#7a1f0b"), strict=True))
    points = (
        alt.Chart(alt.InlineData(values=dots))
        .mark_point(filled=True, size=120, opacity=1, shape="diamond")
        .encode(
            x="at:Q",
            y=alt.Y("mean:Q", scale=alt.Scale(domain=[0, 1])),
            color=ChartStyle(colours=dark).colour(list(dark), "diamond"),
            tooltip=["series:N", alt.Tooltip("at:Q", title="round"), alt.Tooltip("mean:Q", format=".4f")],
        )
    )
    both = alt.layer(cast(alt.LayerChart, chart), points).resolve_scale(color="independent")
    caption = (
        f"Thin lines are single populations, thick ones the means of {populations(results, RANDOM.key)}. Points are "
        "all that the report gives in numbers: three rounds of one run each."
    )
    return Figure("first-rounds", "The first rounds, and the report's one run (Fig. 6)", both, caption, highlight=True)


def _all_rounds(results: Results) -> Figure:
    """Fig. 6 and beyond: all methods over all rounds, and the lead of two of them over random."""
    arms = _run(results, tuple(METHODS))
    shared = results.common([arm.key for arm in arms])
    smooth = {arm: _smoothed(shared[arm.key].column("accuracy")) for arm in arms}
    means = [row for arm in arms for row in _curve(smooth[arm], arm.name, band=False)]
    led = [arm for arm in (PRINTED, DEFAULT) if arm in arms]
    leads = [row for arm in led for row in _curve(100 * (smooth[arm] - smooth[RANDOM]), arm.name)]
    panels = [
        Panel("accuracy", means, "round", "test accuracy"),
        Panel("lead over random", leads, "round", "points of accuracy"),
    ]
    chart = side_by_side(
        panels, "UCB against random selection, 3 of 12 clients a round", _colours(arms), width=360, height=270
    )
    caption = (
        f"Test accuracy of the common model, mean of the last {WINDOW} rounds, over {populations(shared, RANDOM.key)}; "
        "the lead is paired and has its 95 % interval."
    )
    return Figure(
        "ucb-against-random", "UCB against random selection (Fig. 6, and beyond)", chart, caption, highlight=True
    )


def _asked(results: Results) -> Figure:
    """How often clients are asked, from the most asked to the least."""
    arms = _run(results, (RANDOM, PRINTED, STRETCHED, DEFAULT))
    rows = [
        {"group": str(rank + 1), "series": arm.name, "value": float(times)}
        for arm in arms
        for selected in results[arm.key].each("selected")
        for rank, times in enumerate(np.sort(selected)[::-1])
    ]
    look = ChartStyle("clients, the most asked first", "times asked", colours=_colours(arms), width=760, zero=True)
    chart = boxes(rows, "How often clients are asked", look)
    caption = "A box for every rank over populations. A rotation is flat; whoever has favourites is steep."
    return Figure("times-asked", "How often clients are asked", chart, caption, highlight=True)


def _mini_batches(results: Results) -> Figure:
    """Slides: accuracy on each mini-batch just before the client learns from it."""
    rows, outputs = [], list(results["profile"].outputs.values())
    sizes = np.unique(outputs[0]["batch"]).astype(int).tolist()
    for size in sizes:
        right = np.full((len(outputs), STEPS), np.nan)
        for output, row in zip(outputs, right, strict=True):
            own = (output["batch"] == size) & (output["passed"] == 0)
            for step in range(STEPS):
                if (own & (output["step"] == step)).any():
                    row[step] = output["right"][own & (output["step"] == step)].mean()
        rows += _means(right[:, np.isfinite(right).all(axis=0)], str(size))
    look = ChartStyle("mini-batch", "accuracy", colours=_by_size(sizes), legend="batch size", width=520)
    caption = (
        "On each mini-batch of the first pass just before it is learned from; mean over those clients of "
        f"{populations(results, 'profile')} that have so many mini-batches."
    )
    chart = curves(rows, "Accuracy per mini-batch", look)
    return Figure("minibatch-accuracy", "Accuracy per mini-batch for each batch size (slides)", chart, caption)


def _chosen_size(results: Results) -> Figure:
    """Slides: accuracy and time of a round of random selection at batch size 16."""
    shared = results.common([RANDOM.key, "profile"])
    taken = []
    for seed, output in shared[RANDOM.key].outputs.items():
        seconds = pass_seconds(shared["profile"].outputs[seed], BATCH) * output["samples"]
        taken.append(seconds[output["who"].astype(np.int64)].sum(axis=1))
    accuracy = shared[RANDOM.key].column("accuracy")
    panels = [
        Panel("accuracy of the common model", _curve(accuracy, "random"), "round", "test accuracy"),
        Panel("training time of a round", _curve(np.array(taken), "random"), "round", "s on this machine", zero=True),
    ]
    chart = side_by_side(panels, f"Random selection at batch size {BATCH}", {"random": BLUE})
    caption = (
        f"Mean over {populations(shared, RANDOM.key)} with its 95 % interval. Time: that of the three clients, one "
        "after the other, by what a sample took in the profile."
    )
    return Figure("batch-16", f"Accuracy and time with batch size {BATCH} (slides)", chart, caption)


def _rounds_by_size(results: Results) -> Figure:
    """Random selection and UCB as printed with each batch size, all rounds."""
    sizes = sorted({BATCH, *(int(key.split("/")[1]) for key in results.keys("batch/"))})
    shared = results.common([batch_arm(arm, size).key for size in sizes for arm in (RANDOM, PRINTED)])
    panels = []
    for arm in (RANDOM, PRINTED):
        learned = {size: _smoothed(shared[batch_arm(arm, size).key].column("accuracy")) for size in sizes}
        rows = [row for size, values in learned.items() for row in _curve(values, str(size), band=False)]
        panels.append(Panel(arm.name, rows, "round", "test accuracy"))
    chart = side_by_side(panels, "Accuracy over rounds by batch size", _by_size(sizes))
    caption = f"Means of the last {WINDOW} rounds over {populations(shared, RANDOM.key)}."
    return Figure("batch-rounds", "Random selection and UCB with each batch size (slides)", chart, caption)


def _ablations(results: Results) -> Figure:
    """Lead over random in the end, of UCB as printed and of what differs from it in one setting."""
    arms = _run(results, (RANDOM, PRINTED, *NEEDED, *SHOWN, STRETCHED, DEFAULT, ROTATION, OORT))
    rows = []
    for arm in arms[1:]:
        lead = Contrast("greater", FINAL_ACCURACY, arm, [RANDOM], 0.0).compare(results, arm, RANDOM).summary
        rows.append({"name": arm.name, "series": "lead", **vars(lead)})
    chart = intervals(rows, "Final accuracy, lead over random", ChartStyle(x="points of accuracy", width=460), rule=0.0)
    caption = (
        f"Paired differences with 95 % intervals over {populations(results, RANDOM.key)}. Other ε and random starts "
        "are those of UCB as printed."
    )
    return Figure("ablations", "Appendix: settings of UCB", chart, caption)


def _own_samples(results: Results) -> Figure:
    """Two accuracies of the same runs: the common model's, and that of clients on their own samples."""
    group = results[RANDOM.key]
    series = {
        "clients of the round on their own samples": group.column("local_accuracy").mean(axis=2),
        "common model on the test set": group.column("accuracy"),
    }
    rows = [row for name, values in series.items() for row in _curve(values, name)]
    chart = side_by_side(
        [Panel("random selection", rows, "round", "accuracy")],
        "Two accuracies of the same runs",
        dict(zip(series, ("#6a4c93", COLOURS[RANDOM]), strict=True)),
        width=520,
    )
    caption = "The report does not say whose accuracy its Table 2 has. Mean with its 95 % interval."
    return Figure("own-samples", "Appendix: whose accuracy is it?", chart, caption)


def populations(results: Results, key: str) -> str:
    """How many there are.

    >>> from enlist.studies.results import Replicates, Output
    >>> populations(Results({"profile": Replicates("profile", {}, {3: Output({}, {}, 1.0)})}), "profile")
    '1 population'
    """
    count = len(results[key].seeds)
    return f"{count} population{'s' * (count != 1)}"


def _curve(values: FloatArray, series: str, band: bool = True) -> list[dict[str, Any]]:
    """Rows of (seeds, rounds); several bands in one picture would hide each other."""
    rows = along(np.arange(1.0, values.shape[1] + 1), values, series)
    return rows if band else [{**row, "low": row["mean"], "high": row["mean"]} for row in rows]


def _means(values: FloatArray, series: str) -> list[dict[str, Any]]:
    return [{"series": series, "at": at + 1, "mean": float(mean)} for at, mean in enumerate(values.mean(axis=0))]


def _smoothed(values: FloatArray) -> FloatArray:
    """(seeds, rounds) means of the last five rounds, or of as many as there are."""
    sums = np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1)
    ends = np.arange(1, values.shape[1] + 1)
    starts = np.maximum(ends - WINDOW, 0)
    return np.asarray((sums[:, ends] - sums[:, starts]) / (ends - starts))


def _by_size(sizes: Sequence[int]) -> dict[str, str]:
    places = np.linspace(0, len(VIRIDIS) - 1, len(sizes)).round().astype(int)
    return {str(size): VIRIDIS[place] for size, place in zip(sizes, places, strict=True)}


def _run(results: Results, arms: Sequence[Arm]) -> list[Arm]:
    """Those that have been run, behind the first, which has to be there."""
    results[arms[0].key]  # raises if it is missing, which costs the picture
    return [arm for arm in arms if arm.key in results]


def _colours(arms: Sequence[Arm]) -> dict[str, str]:
    return {arm.name: COLOURS[arm] for arm in arms}
