"""Methods side by side, seed by seed: the target, every score with its interval, and the speed-up over a baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from enlist._internal.statistics import Summary, geometric_mean
from enlist.errors import InputError, unknown
from enlist.runs.scores import BASELINE, check_target, counts_energy, energy_until, measure, run_scores, time_to, total
from enlist.runs.tables import RunTables


def default_target(runs: Sequence[RunTables], baseline: str = BASELINE) -> float:
    """The target that all configurations name; without one, the final accuracy that the baseline has with every seed.

    The latter is rounded down to a whole percent; without a baseline, it is what all runs reach in the end. For
    regression it is the final loss, rounded up to two digits. NaN if nothing was evaluated, and for real federations,
    which are not run to reach whatever they happen to have reached.

    >>> from enlist.runs.example import example_run
    >>> default_target([example_run(seed=seed) for seed in range(3)])
    0.72
    """
    by = measure(runs)
    named = configured_target(runs)
    if named is not None:
        return named
    if all(run.federation for run in runs):
        return math.nan
    reference = [run for run in runs if run.selector == baseline] or list(runs)
    finals = [run_scores(run, by)["final"] for run in reference]
    if not finals or not np.isfinite(finals).all():
        return math.nan
    if by == "accuracy":
        return math.floor(100.0 * min(finals) + 1e-9) / 100.0
    step = 10.0 ** (math.floor(math.log10(max(finals))) - 1) if max(finals) > 0 else 1.0
    return float(f"{math.ceil(max(finals) / step - 1e-9) * step:.12g}")


def configured_target(runs: Sequence[RunTables]) -> float | None:
    """The target that the configurations of all runs agree on; None if they do not, or name none.

    >>> from enlist.runs.example import example_run
    >>> configured_target([example_run()]) is None
    True
    """
    sections = [run.config.get("evaluation") for run in runs]
    targets = {section.get("target") if isinstance(section, Mapping) else None for section in sections}
    target = targets.pop() if len(targets) == 1 else None
    return float(target) if isinstance(target, int | float) else None


def comparison_rows(
    runs: Sequence[RunTables], target: float | None = None, window: int = 1, baseline: str | None = None
) -> list[dict[str, Any]]:
    """One row per method: every score with its 95 % interval over seeds (`_low`, `_high`), and the speed-up.

    The speed-up is the virtual time that the baseline took to the target over the time of this method, seed by seed;
    the row has the geometric mean with the interval of Student's t on logarithms. If one of the two never reached the
    target, its total time is used, although it would have taken longer: `speed_up_bound` is then '>=' (the baseline did
    not), '<=' (the method did not) or '?' (both happened, with different seeds). Seeds with which neither did are left
    out: `pairs` is the number that count, and `reached` the number of seeds with which the method reached the
    target. In the same way, `rounds_to` and `time_to` are lower bounds, without an interval, if `reached` is less than
    `seeds`; so is `energy_to`, the joules that clients have spent until then, in runs that count them.

    Parameters
    ----------
    runs : sequence of RunTables
        Runs of several methods and seeds.
    target : float, optional
        The accuracy (of a regression, the loss) to reach; by default `default_target`.
    window : int, default 1
        Evaluations whose mean must meet the target.
    baseline : str, optional
        The method that the others are compared with; by default "random", if it is among them.

    >>> from enlist.runs.example import example_run
    >>> runs = [example_run(name, seed) for name in ("fedcs", "random") for seed in range(3)]
    >>> row = comparison_rows(runs, target=0.7)[0]
    >>> row["selector"], row["reached"], row["seeds"], row["speed_up_bound"], round(row["speed_up"], 2)
    ('fedcs', 2, 3, '<=', 1.11)
    """
    names = list(dict.fromkeys(run.selector for run in runs))
    if baseline is not None and baseline not in names:
        raise unknown("method", baseline, names, owner="the comparison")
    base = BASELINE if baseline is None else baseline
    by = measure(runs)
    target = default_target(runs, base) if target is None else check_target(target, by)
    by_selector: dict[str, dict[int, RunTables]] = {}
    for run in runs:
        seeds = by_selector.setdefault(run.selector, {})
        if run.seed in seeds:
            raise InputError(
                f"two runs are of selector '{run.selector}' with seed {run.seed} ({seeds[run.seed].folder} and "
                f"{run.folder}); report on one experiment at a time."
            )
        seeds[run.seed] = run
    reached = {(run.selector, run.seed): time_to(run, target, window, by) for run in runs}
    totals = {(run.selector, run.seed): total(run) for run in runs}
    rows = []
    for selector, seeds in by_selector.items():
        keys = [(selector, seed) for seed in seeds]
        row: dict[str, Any] = {"selector": selector, "seeds": len(seeds), "measure": by, "target": target}
        row["baseline"] = base if base in by_selector else None
        row["reached"] = sum(reached[key] is not None for key in keys)
        for position, name in enumerate(("rounds_to", "time_to")):
            whole = Summary.of([(reached[key] or totals[key])[position] for key in keys])
            row |= (whole if row["reached"] == len(seeds) else Summary(whole.mean, math.nan, math.nan)).columns(name)
        if all(map(counts_energy, seeds.values())):
            spent = [energy_until(seeds[key[1]], (reached[key] or totals[key]).rounds) for key in keys]
            whole = Summary.of(spent)
            whole = whole if row["reached"] == len(seeds) else Summary(whole.mean, math.nan, math.nan)
            row |= whole.columns("energy_to")
        if selector != base and base in by_selector:
            row |= speed_up(by_selector[base], seeds, target, window, by)
        each = [run_scores(run, by) for run in seeds.values()]
        for name in dict.fromkeys(name for found in each for name in found):
            row |= Summary.of([found.get(name, math.nan) for found in each]).columns(name)
        rows.append(row)
    return rows


def speed_up(
    base: Mapping[int, RunTables], own: Mapping[int, RunTables], target: float, window: int = 1, by: str = "accuracy"
) -> dict[str, Any]:
    """How much sooner runs reach a target than others do, paired by seed; the columns that `comparison_rows` explains.

    >>> from enlist.runs.example import example_run
    >>> base, own = ({seed: example_run(name, seed) for seed in range(3)} for name in ("random", "fedcs"))
    >>> speed_up(base, own, target=0.6)["pairs"]
    3
    """
    ratios, bounds = [], set()
    for seed in (seed for seed in own if seed in base):
        there, here = (time_to(runs[seed], target, window, by) for runs in (base, own))
        above, below = (there or total(base[seed])).seconds, (here or total(own[seed])).seconds
        if (there is None and here is None) or not (above > 0 and below > 0):
            continue
        ratios.append(above / below)
        bounds |= {">="} if there is None else {"<="} if here is None else set()
    summary = geometric_mean(ratios) if ratios else Summary(math.nan, math.nan, math.nan)
    row: dict[str, Any] = summary.columns("speed_up")
    return row | {"speed_up_bound": "?" if len(bounds) > 1 else "".join(bounds), "pairs": len(ratios)}
