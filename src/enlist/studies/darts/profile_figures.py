"""Figures of the mini-batch profile, and of random selection with several batch sizes (Figs. 3 to 5, and slides)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np

from enlist.report.profile import profile_charts
from enlist.studies.charts import Look, curves, lines, tiles
from enlist.studies.darts import costs, scores
from enlist.studies.darts.bounded import amounts, means, shares
from enlist.studies.darts.profile_rules import pooled_best
from enlist.studies.darts.profiles import pooled
from enlist.studies.darts.settings import BATCH, RANDOM
from enlist.studies.darts.weightings import WEIGHTINGS, offers
from enlist.studies.results import Results
from enlist.studies.study import Figure
from enlist.typing import FloatArray

if TYPE_CHECKING:
    from enlist.simulation.profile import Profile

VIRIDIS = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d8c617")
MACHINE = "Times of this machine ({machine}), measured while other experiments ran beside."


def profile_figures(results: Results) -> list[Figure]:
    """The profile over all populations, and of the clients of the first.

    >>> from enlist.studies.darts.example import example_results
    >>> [figure.name for figure in profile_figures(example_results())][:4]
    ['batch-choice', 'weightings', 'batch-time', 'batch-memory']
    """
    outcomes = list(results["profile"].outcomes.values())
    every, first = pooled(outcomes), pooled(outcomes[:1])
    whole, single = _charts(every), _charts(first)
    where = MACHINE.format(machine=every.machine)
    many = f"{len(every.clients)} clients of {len(outcomes)} populations"
    one = f"The population of seed {results['profile'].seeds[0]}."
    return [
        Figure(
            "batch-choice",
            "The choice of a batch size",
            whole["score"],
            "Time per sample, memory of a step and lack of accuracy, each brought to 0..1 over the batch sizes "
            "offered. The score is their mean, and the least is taken. Accuracy is that of each client alone on the "
            f"samples that it trained on. {many}.",
            highlight=True,
        ),
        _weightings(every),
        Figure(
            "batch-time",
            "Time per mini-batch (Fig. 3a)",
            whole["time-per-batch"],
            f"{many}; bars are one standard deviation to either side. {where}",
        ),
        Figure(
            "batch-memory",
            "Memory of a training step (Fig. 3b)",
            whole["memory"],
            f"{many}. The peak of all tensors that a step makes, counted.",
        ),
        Figure(
            "time-deviation",
            "Standard deviation of time (Fig. 5)",
            whole["time-deviation"],
            f"Over all passes of {many}. {where}",
        ),
        Figure("memory-deviation", "Standard deviation of memory (Fig. 5)", whole["memory-deviation"], f"Over {many}."),
        Figure(
            "client-time", "Mean training time of each client (Fig. 4a)", single["time-per-client"], f"{one} {where}"
        ),
        Figure(
            "client-accuracy",
            "Accuracy of each client by batch size (Fig. 4b)",
            single["accuracy"],
            f"{one} Each client's own model on its own samples after {first.rounds} passes; lines are means.",
        ),
        _minibatches(results),
    ]


def _weightings(every: Profile) -> Figure:
    """The batch size that every weighting takes, of all sizes and of all but one."""
    from enlist.simulation.profile import choose

    rows = [
        {"at": time, "line": memory, "series": str(choose(some, (time, memory, accuracy))), "panel": name}
        for name, some in offers(every.rows).items()
        for time, memory, accuracy in WEIGHTINGS
    ]
    colours = _by_size([row.batch for row in every.rows])
    look = Look("weight of time, tenths", "weight of memory, tenths", 220, 220, colours, legend="batch size")
    return Figure(
        "weightings",
        "The batch size that is taken, by weights",
        tiles(rows, "The batch size that is taken", look),
        "Accuracy weighs what is left of ten tenths: all of them in the upper left corner. The parts of the score are "
        "scaled over the sizes offered, so leaving one out may change which of the others is best.",
        highlight=True,
    )


def _minibatches(results: Results) -> Figure:
    """Accuracy on each mini-batch just before the client learns from it."""
    group = results["minibatches"]
    accuracy = group.column("accuracy").mean(axis=2)
    sizes = group.settings["sizes"]
    rows = [row for at, size in enumerate(sizes) for row in means(accuracy[:, at], str(size))]
    look = Look("mini-batch", "accuracy", colours=_by_size(sizes), legend="batch size", width=520)
    return Figure(
        "minibatch-accuracy",
        "Accuracy per mini-batch for each batch size (slides)",
        curves(rows, "Accuracy on a mini-batch before learning from it", look),
        f"Every client begins with the same model. Means over the 12 clients of {len(group.seeds)} populations.",
    )


def rounds_figures(results: Results) -> list[Figure]:
    """Accuracy and training time over rounds of random selection, for every batch size and for the chosen one.

    >>> from enlist.studies.darts.example import example_results
    >>> [figure.name for figure in rounds_figures(example_results())]
    ['random-accuracy', 'random-time', 'chosen-accuracy', 'chosen-time']
    """
    keys = {int(key.split("/")[1]): key for key in results.keys("batch/")} | {BATCH: RANDOM}
    sizes = sorted(keys)
    common = sorted(set.intersection(*(set(results[key].seeds) for key in keys.values())))
    learned = {size: scores.at_seeds(results, keys[size], common, "accuracy") for size in sizes}
    taken = {size: costs.training_times(results, keys[size], size, common) for size in sizes}
    colours = _by_size(sizes)
    accuracy = [row for size in sizes for row in means(learned[size], str(size))]
    seconds = [row for size in sizes for row in means(1e3 * taken[size], str(size))]
    averaged, seeds = (f"{what} over {len(common)} populations." for what in ("Means", "Mean and 95 % band"))
    summed = "Time of a round: that of the three clients, one after the other, by what a sample took in the profile."
    best = pooled_best(results)
    chosen = best if best in keys else BATCH
    look = Look("round", "test accuracy", colours=colours, legend="batch size", width=520)
    return [
        Figure(
            "random-accuracy",
            "Random selection with each batch size: accuracy (slides)",
            curves(accuracy, "Random selection: accuracy of the common model", look),
            averaged,
        ),
        Figure(
            "random-time",
            "Random selection with each batch size: time (slides)",
            curves(
                seconds,
                "Random selection: training time of a round",
                Look("round", "ms on this machine", colours=colours, legend="batch size", width=520, zero=True),
            ),
            f"{averaged} {summed}",
        ),
        Figure(
            "chosen-accuracy",
            f"Random selection with batch size {chosen}, which the rule takes: accuracy (slides)",
            _with_single(
                learned[chosen], shares, f"Batch size {chosen}: accuracy of the common model", "test accuracy"
            ),
            f"Thin lines are single populations. {seeds}",
        ),
        Figure(
            "chosen-time",
            f"Random selection with batch size {chosen}, which the rule takes: time (slides)",
            _with_single(1e3 * taken[chosen], amounts, f"Batch size {chosen}: time of a round", "ms on this machine"),
            f"Thin lines are single populations. {seeds} {summed}",
        ),
    ]


def _with_single(values: FloatArray, rows: Callable[..., list[Any]], title: str, axis: str) -> alt.TopLevelMixin:
    look = Look("round", axis, colours={"mean": "#0b6e99"}, named=False, width=520, zero="ms" in axis)
    return curves(rows(values, series="mean"), title, look, thin=lines(values, series="mean"))


def _charts(result: Profile) -> dict[str, alt.TopLevelMixin]:
    from enlist.simulation.profile import scores as parts_of

    return profile_charts(result, parts_of(result.rows, result.weights))


def _by_size(sizes: Sequence[int]) -> dict[str, str]:
    places = np.linspace(0, len(VIRIDIS) - 1, len(sizes)).round().astype(int)
    return {str(size): VIRIDIS[place] for size, place in zip(sizes, places, strict=True)}
