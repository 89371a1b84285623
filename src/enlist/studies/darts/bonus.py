"""The width of the bonus: final accuracy on seeds for tuning and on held-out seeds, as a table and a figure."""

from __future__ import annotations

from typing import Any

from enlist.studies.charts import Look, intervals, within
from enlist.studies.claims import shown
from enlist.studies.darts import scores
from enlist.studies.darts.rules import scaled
from enlist.studies.darts.settings import BONUSES, DEFAULT, DEFAULT_BONUS, METHODS, PRINTED, RANDOM
from enlist.studies.results import Results
from enlist.studies.study import Figure, Table


def bonus_keys() -> list[tuple[str, str, str]]:
    """Label, key on the seeds for tuning, and key on the others, of every width.

    >>> bonus_keys()[2]
    ('c = 0.3 (our default)', 'tuning/c=0.3', 'select/default')
    """
    found = []
    for c in BONUSES:
        own = c == DEFAULT_BONUS
        found.append((f"c = {c:g}{' (our default)' * own}", f"tuning/c={c:g}", DEFAULT if own else f"bonus/c={c:g}"))
    return [*found, ("as printed (c = 1.41, gains not stretched)", "tuning/printed", PRINTED), ("random", "", RANDOM)]


def tuned_best(results: Results) -> tuple[str, str, str] | None:
    """Label and keys of the setting with the highest final accuracy on the seeds for tuning; None if there are none.

    >>> from enlist.studies.darts.example import example_results
    >>> tuned_best(example_results())[1].startswith("tuning/"), tuned_best(Results({})) is None
    (True, True)
    """
    tried = [each for each in bonus_keys() if each[1] in results]
    return max(tried, key=lambda each: scores.mean(results, each[1], scores.final).mean, default=None)


def tuning(results: Results) -> Table:
    """Final accuracy and evenness by the width of the bonus, on seeds for tuning and on others.

    >>> from enlist.studies.darts.example import example_results
    >>> sum(row["best on seeds for tuning"] for row in tuning(example_results()).rows)
    1
    """
    best = tuned_best(results)
    rows: list[dict[str, Any]] = []
    for each in bonus_keys():
        label, tuned, held_out = each
        if held_out not in results and held_out not in METHODS:
            continue
        tried = scores.mean(results, tuned, scores.final) if tuned in results else None
        lead = None if held_out == PRINTED else scores.gap(results, held_out, PRINTED, scores.final)
        rows.append(
            {
                "setting": label,
                "seeds for tuning, %": tried and shown(scaled(tried, 100.0), 1),
                "best on seeds for tuning": each == best,
                "held-out seeds, %": shown(scaled(scores.mean(results, held_out, scores.final), 100.0), 1),
                "lead over the printed rule, points": lead and shown(scaled(lead, 100.0), 1, sign=True),
                "Jain": shown(scores.mean(results, held_out, scores.evenness), 2),
            }
        )
    return Table(
        "bonus",
        "The width of the bonus, on seeds for tuning and on held-out seeds",
        rows,
        f"Final accuracy with 95 % intervals over {_count(results)}, on which all verdicts rest; leads are paired. A "
        "width would be chosen by the seeds for tuning and judged by the others. Our default was not chosen by this "
        f"table: c = {DEFAULT_BONUS:g}, with gains stretched to 0..1 between their 5 % and 95 % quantiles, was set "
        "before the study by a bandit without training, where it gives more picks to the best clients ('darts' in "
        "docs/verify.md).",
        highlight=True,
    )


def bonus_figure(results: Results) -> Figure:
    """Final accuracy of every width, on seeds for tuning and on held-out seeds.

    >>> from enlist.studies.darts.example import example_results
    >>> bonus_figure(example_results()).name
    'bonus'
    """
    rows = []
    for label, tuned, held_out in bonus_keys():
        for series, key in (("seeds for tuning", tuned), ("held-out seeds", held_out)):
            if key in results:
                found = scores.mean(results, key, scores.final)
                rows += within([{"name": label, "series": series, **vars(found)}], 0.0, 1.0)
    return Figure(
        "bonus",
        "The width of the bonus",
        intervals(rows, "Final accuracy by the width of the bonus", Look(x="test accuracy", width=460)),
        f"Means with 95 % intervals over {_count(results)}. Our default was not chosen by them.",
    )


def _count(results: Results) -> str:
    """How many seeds there are of each kind."""
    held_out = len(results[PRINTED].seeds)
    tuned = f"{len(results['tuning/printed'].seeds)} seeds for tuning and " if "tuning/printed" in results else ""
    return f"{tuned}{held_out} held-out seed{'s' * (held_out != 1)}"
