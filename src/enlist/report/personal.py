"""The report of personalised learning: the combination learned, its certainty, its gains and its costs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from enlist._internal.statistics import Summary
from enlist._internal.text import place_name
from enlist.errors import InputError
from enlist.report.charts import unchecked
from enlist.report.page import Section, publish
from enlist.report.personal_charts import (
    estimate_rows,
    increase_chart,
    overview_chart,
    possible,
    score_rows,
    series_chart,
    series_colours,
)
from enlist.report.personal_choices import (
    action_chart,
    action_rows,
    arm_colours,
    journey_chart,
    partner_chart,
    poisonous,
)
from enlist.runs.personal import BASELINES, PersonalTables, arm_scores, gain_scores, partner_scores, stage_scores
from enlist.runs.printing import UNKNOWN, percent, plural

Charts = dict[str, alt.TopLevelMixin]

NAMES = {"auc": "AUC", "accuracy": "accuracy", "loss": "loss"}
STAGES = {
    "personalised": "of these: as it was while combinations were chosen",
    "retrained": "of these: retrained with the combination fixed",
    "fine_tuned": "of these: fine-tuned on the target's samples",
}
MOST_ARMS = 15
CLEAR = 0.95


@unchecked()
def write_personal_report(
    runs: Sequence[PersonalTables], place: Path | str, title: str = "Personalised learning"
) -> Path:
    """Write the page, and next to it charts/ (PNG and SVG) and scores.json; returns the page's path.

    `place` is a folder, in which the page is named report.html, or the path of the page itself, ending in .html. Runs
    without a finished round are left out.

    >>> import tempfile
    >>> from enlist.runs.personal_example import example_personal
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_personal_report([example_personal(seed) for seed in range(2)], folder)
    ...     sorted(path.name for path in page.parent.iterdir())
    ['charts', 'report.html', 'scores.json']
    """
    sections, targets = personal_sections(runs), by_target(runs)
    stems = _stems(list(targets))
    charts = {name: chart for _, own in sections for name, chart in own.items()}
    whole = {f"{stems[target]}overview": overview_chart(own, f"test {_metric(own)}") for target, own in targets.items()}
    scores = {target: _scores(own) for target, own in targets.items()}
    return publish(place, title, lead(runs), [section for section, _ in sections], charts, scores, whole)


def personal_sections(runs: Sequence[PersonalTables]) -> list[tuple[Section, Charts]]:
    """The sections of the page, with their charts.

    >>> from enlist.runs.personal_example import example_personal
    >>> [section.heading for section, _ in personal_sections([example_personal()])][:2]
    ['What was learned', 'Which combination, and how certain']
    """
    targets = by_target(runs)
    if not targets:
        raise InputError("no run has finished a round yet; there is nothing to report.")
    several = len(targets) > 1
    sections = [(_overview(targets), Charts())] if several else []
    stems = _stems(list(targets))
    for target, own in targets.items():
        prefix = f"Worker {target}: " if several else ""
        for section, charts in (_result(own), _combination(own), _learning(own), _partners(own)):
            heading = prefix + (section.heading[0].lower() + section.heading[1:] if several else section.heading)
            named = {f"{stems[target]}{name}": chart for name, chart in charts.items()}
            sections.append((dataclasses.replace(section, heading=heading), named))
    return sections


def _stems(targets: Sequence[str]) -> dict[str, str]:
    """The prefix of the names of a target's charts."""
    return {target: f"{place_name(place, target)}-" if len(targets) > 1 else "" for place, target in enumerate(targets)}


def by_target(runs: Sequence[PersonalTables]) -> dict[str, list[PersonalTables]]:
    """Runs with at least one finished round, by target in order of appearance and then by seed.

    >>> from enlist.runs.personal_example import example_personal
    >>> [run.seed for run in by_target([example_personal(1), example_personal(0)])["2"]]
    [0, 1]
    """
    begun = [run for run in runs if len(run.rounds["round"]) and run.played.any()]
    names = dict.fromkeys(run.target for run in begun)
    return {name: sorted((run for run in begun if run.target == name), key=lambda run: run.seed) for name in names}


def personal_table(runs: Sequence[PersonalTables]) -> list[list[str]]:
    """Header and one line per target: what was learned, its certainty, gains with 95 % intervals, and the cost.

    >>> from enlist.runs.personal_example import example_personal
    >>> for line in personal_table([example_personal(seed) for seed in range(3)]):
    ...     print(" | ".join(line))
    target | combination | seeds | probability | test AUC | over local only | over federated averaging | messages | ...
    2 | 2+3 | 3/3 | 98 % | 0.725 ± 0.002 | +0.084 [+0.080, +0.089] | +0.065 [+0.059, +0.071] | 95 | 120
    """
    targets = by_target(runs)
    metric = _metric(runs)
    rows = []
    for target, own in targets.items():
        best, scores = learned(own), gain_scores(own)
        row = {
            "target": target,
            "combination": best["arm"],
            "seeds": f"{best['named']}/{len(own)}",
            "probability": percent(best["probability"]),
            f"test {metric}": _with_half(scores.get("personalised"), own[0].metric),
        }
        row |= {f"over {title}": _gain(scores.get(f"{name}_gain"), own[0].metric) for name, title in BASELINES.items()}
        row |= {
            "messages": _count(scores.get("communication")),
            "messages of FedAvg": _count(scores.get("fedavg_communication")),
        }
        rows.append(row)
    kept = [name for name in rows[0] if any(row[name] != UNKNOWN for row in rows)]
    return [kept, *([row[name] for name in kept] for row in rows)]


def learned(runs: Sequence[PersonalTables]) -> dict[str, Any]:
    """The scores of the combination that most seeds of a target learned; among equals, the more probable one.

    >>> from enlist.runs.personal_example import example_personal
    >>> learned([example_personal(seed) for seed in range(3)])["arm"]
    '2+3'
    """
    return max(arm_scores(runs), key=lambda row: (row["named"], row["probability"]))


def lead(runs: Sequence[PersonalTables]) -> str:
    """What was run, in one sentence.

    >>> from enlist.runs.personal_example import example_personal
    >>> lead([example_personal(seed) for seed in range(3)])
    'Rule ucb over 3 combinations of 4 workers, for worker 2, 15 rounds at most, 3 seeds.'
    """
    targets = by_target(runs)
    run = next(iter(targets.values()))[0]
    rule = run.config.get("rule") or {}
    rounds = (run.config.get("rounds") or {}).get("rounds", len(run.rounds["round"]))
    whom = f"for worker {run.target}" if len(targets) == 1 else f"for each of {len(targets)} workers"
    seeds = max(len(own) for own in targets.values())
    return (
        f"Rule {rule.get('kind', '?')} over {plural(len(run.labels), 'combination')} of "
        f"{len(run.workers['worker'])} workers, {whom}, {plural(rounds, 'round')} at most, {plural(seeds, 'seed')}."
    )


def verdict(runs: Sequence[PersonalTables]) -> str:
    """Computed sentences on what was learned for one target, its certainty, its gains and its cost.

    >>> from enlist.runs.personal_example import example_personal
    >>> verdict([example_personal(seed) for seed in range(3)])
    'For worker 2 the combination 2+3 was learned, by 3 of 3 seeds; it is the best with a probability of 98 %. ...'
    """
    best, scores, run = learned(runs), gain_scores(runs), runs[0]
    metric = _metric(runs)
    found = f"For worker {run.target} the combination {best['arm']} was learned"
    found += "" if len(runs) == 1 else f", by {best['named']} of {len(runs)} seeds"
    doubt = "" if best["probability"] >= CLEAR else ", so others may be as good"
    words = [f"{found}; it is the best with a probability of {percent(best['probability'])}{doubt}."]
    if "personalised" in scores:
        words.append(f"Its model reaches a test {metric} of {_level(scores['personalised'].mean, run.metric)}.")
    compared = [
        _against(scores[f"{name}_gain"], f"{title} ({_level(scores[name].mean, run.metric)})", run.metric)
        for name, title in BASELINES.items()
        if name in scores
    ]
    words += [f"That is {'; and it is '.join(compared)}."] if compared else []
    if "fedavg_communication" in scores:
        spent, other = scores["communication"].mean, scores["fedavg_communication"].mean
        share = percent(spent / other)
        words.append(f"It took {spent:,.0f} messages, {share} of the {other:,.0f} that federated averaging took.")
    return " ".join(words)


def _against(gain: Summary, reference: str, metric: str) -> str:
    size = _signed(abs(gain.mean), metric).removeprefix("+") + (" points" if metric == "accuracy" else "")
    span = f"95 % interval {_span(gain.low, gain.high, metric)}"
    if math.isnan(gain.low):
        return f"{size} {'better' if gain.mean >= 0 else 'worse'} than {reference}, based on only one seed"
    if gain.low > 0:
        return f"{size} better than {reference}, {span}"
    if gain.high < 0:
        return f"{size} worse than {reference}, {span}"
    return f"not distinguishable from {reference} with these seeds, {_signed(gain.mean, metric)}, {span}"


def _overview(targets: Mapping[str, Sequence[PersonalTables]]) -> Section:
    table = personal_table([run for own in targets.values() for run in own])
    text = "Each worker was the target in turn. The results:"
    return Section("All targets", text, table, note=_note(next(iter(targets.values()))))


def _result(runs: Sequence[PersonalTables]) -> tuple[Section, Charts]:
    scores, run = gain_scores(runs), runs[0]
    metric = _metric(runs)
    open_runs = [str(run.seed) for run in runs if run.result is None or run.result.get("status") == "stopped"]
    note = _note(runs) + (f" Not finished yet: seed {', '.join(open_runs)}." if open_runs else "")
    if not scores:
        return Section("What was learned", verdict(runs), note=note), {}
    header = ["model", f"test {metric}", "gain of the personalised one", "messages"]
    rows = [["personalised", _with_half(scores["personalised"], run.metric), UNKNOWN, _count(scores["communication"])]]
    for name, summary in stage_scores(runs).items():
        title = STAGES.get(name, f"of these: {name.replace('_', ' ')}")
        rows.append([title, _with_half(summary, run.metric), UNKNOWN, UNKNOWN])
    for name, title in BASELINES.items():
        if name in scores:
            messages = _count(scores.get("fedavg_communication")) if name == "fedavg" else "0"
            rows.append(
                [title, _with_half(scores[name], run.metric), _gain(scores[f"{name}_gain"], run.metric), messages]
            )
    return Section("What was learned", verdict(runs), [header, *rows], note=note), {}


def _note(runs: Sequence[PersonalTables]) -> str:
    note = "Models are chosen on the target's validation samples and reported on its test samples."
    note += " Gains are in percentage points." if runs[0].metric == "accuracy" else ""
    if len(runs) > 1:
        return note + f" Intervals are 95 % over {len(runs)} seeds (Student's t); gains are paired by seed."
    if any(name in (runs[0].result or {}) for name in BASELINES):
        note += " Intervals are 95 % over the target's test samples (bootstrap), as there is a single seed."
    return note


def _combination(runs: Sequence[PersonalTables]) -> tuple[Section, Charts]:
    scores = sorted(arm_scores(runs), key=lambda row: (-row["named"], -row["probability"], -row["played"]))
    poisoned = poisonous(runs)
    header = ["combination", "named by seeds", "probability best", "mean increase", "95 % interval", "kept in rounds"]
    removed = any(row["removed"] for row in scores)
    header += ["eliminated in seeds"] if removed else []
    table = [header]
    for row in scores[:MOST_ARMS]:
        mark = " (poisonous)" if poisoned & set(row["arm"].split("+")) else ""
        span = _span(row["low"], row["high"], runs[0].metric) if math.isfinite(row["low"]) else UNKNOWN
        mean = _signed(row["increase"], runs[0].metric) if math.isfinite(row["increase"]) else "never played"
        cells = [row["arm"] + mark, f"{row['named']}/{len(runs)}", percent(row["probability"]), mean, span]
        cells += [percent(row["played"])] + ([str(row["removed"])] if removed else [])
        table.append(cells)
    charts: Charts = {}
    if any(math.isfinite(row["increase"]) for row in scores):
        charts["increases"] = increase_chart(runs, "How much better than the target's local model")
    estimates = estimate_rows(runs)
    if estimates:
        charts["estimates"] = series_chart(
            estimates, "The rule's estimates", "round", "estimated reward", arm_colours(runs)
        )
    text = (
        "An increase is the validation score of the aggregate minus that of the target's own model of the same round. "
        "The probability of being the best combination is computed from all credited increases."
    )
    note = "" if len(scores) <= MOST_ARMS else f"The table shows {MOST_ARMS} of {len(scores)} combinations."
    return Section("Which combination, and how certain", text, table, list(charts.values()), note), charts


def _learning(runs: Sequence[PersonalTables]) -> tuple[Section, Charts]:
    up = f"test {_metric(runs)}"
    rounds, messages = score_rows(runs, "rounds"), score_rows(runs, "messages")
    limits = possible(runs)
    charts: Charts = {
        "rounds": series_chart(rounds, "Over rounds", "round", up, series_colours(rounds), limits=limits),
        "messages": series_chart(
            messages, "Over messages", "messages sent", up, series_colours(messages), limits=limits
        ),
    }
    text = "Scores of the model that each round ends with. "
    text += "Lines are means over seeds, bands their 95 % intervals." if len(runs) > 1 else ""
    note = "A message is one transfer between the server and a worker, whatever it carries."
    return Section("Learning curves", text.strip(), charts=list(charts.values()), note=note), charts


def _partners(runs: Sequence[PersonalTables]) -> tuple[Section, Charts]:
    rows, colours = action_rows(runs), arm_colours(runs)
    up = f"test {_metric(runs)}"
    charts: Charts = {
        "actions": action_chart(rows, "The combination kept in each round", colours),
        "journey": journey_chart(rows, "Scores by the combination kept", up, colours, possible(runs)),
        "partners": partner_chart(runs, "Partners, early and late"),
    }
    text = "In a round that tries all combinations, the kept one is the one whose model is trained further."
    bad = [row for row in partner_scores(runs) if row["poison"]]
    if bad:
        words = [f"{row['worker']} in {percent(row['early'])} and {percent(row['late'])}" for row in bad]
        text += " Poisonous workers were in the kept combination in these shares of early and late rounds: "
        text += f"{'; '.join(words)}."
    note = "Early is the first third of the rounds, late the last third."
    return Section("Combinations kept", text, charts=list(charts.values()), note=note), charts


def _scores(runs: Sequence[PersonalTables]) -> dict[str, Any]:
    summaries = {
        name: [score.mean, score.low, score.high] if isinstance(score, Summary) else score
        for name, score in gain_scores(runs).items()
    }
    found = {"combination": learned(runs)["arm"], "scores": summaries}
    return {**found, "arms": arm_scores(runs), "partners": partner_scores(runs)}


def _metric(runs: Sequence[PersonalTables]) -> str:
    return NAMES.get(runs[0].metric, runs[0].metric)


def _level(value: float, metric: str) -> str:
    """Format a score: accuracies in percent, others as they are."""
    return percent(value, 1) if metric == "accuracy" else f"{value:.3f}"


def _signed(value: float, metric: str) -> str:
    """Format a difference of scores; of accuracies in percentage points."""
    return f"{100 * value:+.1f}" if metric == "accuracy" else f"{value:+.3f}"


def _span(low: float, high: float, metric: str) -> str:
    return f"[{_signed(low, metric)}, {_signed(high, metric)}]"


def _with_half(summary: Summary | None, metric: str) -> str:
    if summary is None:
        return UNKNOWN
    half = (summary.high - summary.low) / 2.0
    return _level(summary.mean, metric) + (f" ± {_level(half, metric)}" if math.isfinite(half) else "")


def _gain(summary: Summary | None, metric: str) -> str:
    if summary is None:
        return UNKNOWN
    span = "" if math.isnan(summary.low) else f" {_span(summary.low, summary.high, metric)}"
    return f"{_signed(summary.mean, metric)}{span}"


def _count(summary: Summary | None) -> str:
    return UNKNOWN if summary is None else f"{summary.mean:,.0f}"
