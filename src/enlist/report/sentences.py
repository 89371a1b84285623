"""Sentences that describe the tables of runs: computed, and true for any runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from enlist.report.charts import Row
from enlist.report.kit import CROWD
from enlist.runs.printing import duration, level, percent, plural, score, target_name, titled
from enlist.runs.scores import BASELINE, times_completed, times_selected
from enlist.runs.tables import RunTables

MANY = 5  # with more selectors than this, only the first and the last are described


def size(runs: Sequence[RunTables], groups: int = 1) -> str:
    """What was run, in one sentence; `groups` is the number of configurations.

    >>> from enlist.runs.example import example_run
    >>> size([example_run(name, seed) for name in ("oort", "random") for seed in range(3)])
    '2 selectors, 3 seeds each: 12 clients, 4 of them selected in a round, 8 rounds.'
    """
    names = list(dict.fromkeys(run.selector for run in runs))
    seeds = [len([run for run in runs if run.selector == name]) for name in names]
    if groups > 1:
        seeds = [len({run.seed for run in runs if run.selector == name}) for name in names]
    who = plural(len(names), "selector") + f", {_between(seeds)} {'seed' if max(seeds) == 1 else 'seeds'} each"
    if len(runs) == 1:
        who = runs[0].name
    who = f"{plural(groups, 'configuration')}, {who}" if groups > 1 else who
    clients = _between([run.count for run in runs])
    means = [float(np.nanmean(run.rounds["selected"])) for run in runs]
    asked = f"{np.mean(means):.3g}"
    if groups > 1 and f"{min(means):.3g}" != f"{max(means):.3g}":
        asked = f"{min(means):.3g} to {max(means):.3g}"
    rounds = [len(run.rounds["round"]) for run in runs]
    length = f"{_between(rounds)} {'round' if max(rounds) == 1 else 'rounds'}"
    if max(run.count for run in runs) == 1:
        return f"{who}: 1 client, {length}."
    return f"{who}: {clients} clients, {asked} of them selected in a round, {length}."


def sweep(rows: Sequence[Row], keys: Sequence[str]) -> str:
    """Where the best final figure is, and where methods and baseline are distinguishable.

    >>> row = {"selector": "oort", "measure": "accuracy", "final": 0.8, "baseline": "random", "rounds.k": 5}
    >>> row |= {"speed_up": 2.0, "speed_up_low": 1.6, "speed_up_high": 2.5, "speed_up_bound": ""}
    >>> sweep([row, {**row, "rounds.k": 9, "final": 0.7, "speed_up_low": 0.9}], ["rounds.k"])
    'The best final accuracy is 80 %: oort with k = 5. Compared with random, oort is faster in 1 of 2 configurations.'
    """
    known = [row for row in rows if math.isfinite(row["final"])]
    if not known:
        return "Nothing was evaluated."
    words = []
    if len({row["measure"] for row in known}) == 1:
        best = (max if known[0]["measure"] == "accuracy" else min)(known, key=lambda row: float(row["final"]))
        where = titled({key: best[key] for key in keys})
        figure = f"final {best['measure']} is {level(round(best['final'], 3), best['measure'])}"
        words.append(f"The best {figure}: {best['selector']} with {where}.")
    alike = []
    for name in dict.fromkeys(row["selector"] for row in rows):
        own = [row for row in rows if row["selector"] == name and math.isfinite(row.get("speed_up_low", math.nan))]
        faster = sum(row["speed_up_low"] > 1 and row["speed_up_bound"] in ("", ">=") for row in own)
        slower = sum(row["speed_up_high"] < 1 and row["speed_up_bound"] in ("", "<=") for row in own)
        if faster or slower:
            better = " and ".join(
                f"{word} in {count}" for word, count in (("faster", faster), ("slower", slower)) if count
            )
            words.append(f"Compared with {own[0]['baseline']}, {name} is {better} of {len(own)} configurations.")
        elif own:
            alike.append(name)
    if alike:
        base = next(row["baseline"] for row in rows if row["baseline"])
        names = ", ".join(alike[:MANY]) + (f" and {len(alike) - MANY} more" if len(alike) > MANY else "")
        words.append(f"In no configuration do these seeds distinguish {base} from {names}.")
    return " ".join(words)


def speed(rows: Sequence[Row]) -> str:
    """How soon the target was reached, compared with the baseline where it ran with the same seeds.

    >>> row = {"selector": "oort", "measure": "accuracy", "target": 0.8, "seeds": 3, "reached": 3, "pairs": 3}
    >>> row |= {"baseline": "random"}
    >>> row |= {"speed_up": 2.0, "speed_up_low": 1.6, "speed_up_high": 2.5, "speed_up_bound": ""}
    >>> speed([row])
    "oort reaches 80 % in 0.50 of random's time (0.40 to 0.62 over 3 seeds)."
    """
    if not rows or not math.isfinite(rows[0]["target"]):
        return ""
    goal = target_name(rows[0])
    compared = [row for row in rows if math.isfinite(row.get("speed_up", math.nan)) and row["speed_up_bound"] != "?"]
    ranked = sorted(compared, key=lambda row: (row["speed_up_bound"] == "<=", -float(row["speed_up"])))
    shown = ranked if len(ranked) <= MANY else [*ranked[:3], ranked[-1]]
    words = [_against(row, goal) for row in shown]
    unsure = [row for row in shown if 1.0 / row["speed_up_high"] <= 1.0 <= 1.0 / row["speed_up_low"]]
    if len(unsure) == 1 == len(shown):
        words.append("The interval includes 1: these seeds do not distinguish the two.")
    elif unsure:
        names = _and([row["selector"] for row in unsure])
        of = f"The interval of {names} includes" if len(unsure) == 1 else f"The intervals of {names} include"
        words.append(
            f"{of} 1: these seeds do not distinguish {'it' if len(unsure) == 1 else 'them'} from "
            f"{unsure[0]['baseline']}."
        )
    if not compared:
        words += [
            f"{row['selector']} reaches {goal} after {row['rounds_to']:.3g} rounds and {duration(row['time_to'])}"
            + (f", on average over {row['seeds']} seeds." if row["seeds"] > 1 else ".")
            for row in rows[:MANY]
            if row["reached"] == row["seeds"]
        ]
    words += [_short_of(row, goal) for row in rows if 0 <= row["reached"] < row["seeds"]][:MANY]
    return " ".join(words)


def _against(row: Row, goal: str) -> str:
    share, low, high = 1.0 / row["speed_up"], 1.0 / row["speed_up_high"], 1.0 / row["speed_up_low"]
    known, base = math.isfinite(low), row["baseline"]
    span = f" ({low:.2f} to {high:.2f} over {row['pairs']} seeds)" if known else ""
    if row["speed_up_bound"] == ">=":
        return f"{row['selector']} reaches {goal} in at most {share:.2f} of {base}'s time{span}."
    if row["speed_up_bound"] == "<=":
        return f"{row['selector']} needs at least {share:.2f} of {base}'s time to {goal}{span}."
    return f"{row['selector']} reaches {goal} in {share:.2f} of {base}'s time{span}."


def _short_of(row: Row, goal: str) -> str:
    if row["seeds"] == 1:
        return f"{row['selector']} does not reach {goal}."
    if row["reached"] == 0:
        return f"{row['selector']} does not reach {goal} with any of {row['seeds']} seeds."
    return f"{row['selector']} reaches {goal} with only {row['reached']} of {row['seeds']} seeds."


def ending(rows: Sequence[Row]) -> str:
    """The final results of runs.

    >>> rows = [{"selector": "oort", "measure": "accuracy", "final": 0.91}]
    >>> ending([*rows, {"selector": "random", "measure": "accuracy", "final": 0.9}])
    'The final accuracy is highest for oort (91.0 %) and lowest for random (90.0 %).'
    """
    known = [row for row in rows if math.isfinite(row["final"])]
    if not known:
        return "Nothing was evaluated."
    by = known[0]["measure"]
    show = [score(row["final"], by) for row in known]
    if len(known) == 1:
        return f"The final {by} is {show[0]}."
    order = np.argsort([row["final"] for row in known], kind="stable")
    low, high = ((known[index]["selector"], show[index]) for index in (order[0], order[-1]))
    return f"The final {by} is highest for {high[0]} ({high[1]}) and lowest for {low[0]} ({low[1]})."


def preference(runs: Sequence[RunTables]) -> str:
    """Which clients were selected: the shares of requests to the fastest fifth and to the fifth with the most data.

    >>> from enlist.runs.example import example_run
    >>> preference([example_run(name, clients=100, rounds=30) for name in ("fedcs", "random")])
    'Of all requests, the fastest fifth of the clients got 91 % under fedcs and 24 % under random. ...'
    """
    words = []
    for column, sign in (("expected_latency", 1.0), ("num_examples", -1.0)):
        shares: dict[str, list[float]] = {}
        for run in runs:
            values = run.clients.get(column, np.full(run.count, np.nan))
            if not np.isnan(values).all():
                counts = times_selected(run)
                top = np.argsort(sign * values, kind="stable")[: max(run.count // 5, 1)]
                shares.setdefault(run.selector, []).append(float(counts[top].sum()) / max(float(counts.sum()), 1.0))
        words.append(_under({name: percent(float(np.mean(each))) for name, each in shares.items()}) if shares else "")
    fast, rich = words
    first = f"Of all requests, the fastest fifth of the clients got {fast}." if fast else ""
    second = f"The fifth with the most data got {rich}{'.' if fast else ' of all requests.'}" if rich else ""
    return f"{first} {second}".strip()


def evenness(runs: Sequence[RunTables]) -> str:
    """What the less active half of the clients contributed.

    >>> from enlist.runs.example import example_run
    >>> evenness([example_run(name, clients=100, rounds=60, k=10) for name in ("fedcs", "random")])
    'The less active half of the clients sent 0 % of all updates under fedcs and 14 % under random.'
    """
    shares: dict[str, list[float]] = {}
    for run in runs:
        counts = np.sort(times_completed(run))
        half = float(counts[: run.count // 2].sum())
        shares.setdefault(run.selector, []).append(half / max(float(counts.sum()), 1.0))
    words = _under({name: percent(float(np.mean(each))) for name, each in shares.items()})
    return f"The less active half of the clients sent {words.replace(' %', ' % of all updates', 1)}."


def outcomes(rows: Sequence[Row]) -> str:
    """The share of selected clients that delivered in time.

    >>> outcomes([{"selector": "oort", "completed": 0.9, "arrived": 0.0}])
    'Of the selected clients, 90 % delivered in time.'
    """
    known = [row for row in rows if math.isfinite(row["completed"])]
    if not known:
        return ""
    text = f"Of the selected clients, {_under({row['selector']: percent(row['completed']) for row in known})}."
    text = text.replace(" %", " % delivered in time", 1)
    merged = {row["selector"]: f"{row['arrived']:,.3g}" for row in known if row["arrived"] > 0}
    return text + (f" Late updates that were merged afterwards: {_under(merged)}." if merged else "")


def data(tables: RunTables) -> str:
    """How much data clients hold, and how skewed it is.

    >>> from enlist.runs.example import example_run
    >>> data(example_run())
    'A client holds 19 to 209 samples, half of the clients at most 106. On average 54 % of them are of one class.'
    """
    samples = tables.clients["num_examples"]
    low, middle, high = np.nanmin(samples), np.nanmedian(samples), np.nanmax(samples)
    text = f"A client holds {low:,.0f} to {high:,.0f} samples, half of the clients at most {middle:,.0f}."
    if low == high:
        text = f"Every client holds {low:,.0f} samples."
    if not tables.classes:
        return text
    counts = np.stack([tables.clients[name] for name in tables.classes], axis=1)
    held = counts.sum(axis=1)
    share = float(np.mean(counts.max(axis=1)[held > 0] / held[held > 0])) if (held > 0).any() else math.nan
    return f"{text} On average {percent(share)} of them are of one class."


def devices(tables: RunTables) -> str:
    """How much the devices differ.

    >>> from enlist.runs.example import example_run
    >>> devices(example_run())
    'For an update, the fastest tenth of the clients needs at most 1.34 s, the slowest tenth at ...'
    """
    latency = tables.clients.get("expected_latency", np.empty(0))
    latency = latency[np.isfinite(latency)]
    if not len(latency):
        return ""
    low, high = np.quantile(latency, [0.1, 0.9])
    if high <= 1.001 * low:
        return f"All clients need about the same time for an update: {duration(float(low))}."
    return (
        f"For an update, the fastest tenth of the clients needs at most {duration(float(low))}, the slowest tenth at "
        f"least {duration(float(high))}"
        + (f", {high / low:.2g} times as long." if low > 0 and high / low < 100 else ".")
    )


def presence(runs: Sequence[RunTables]) -> str:
    """How many clients were available.

    >>> from enlist.runs.example import example_run
    >>> presence([example_run()])
    'At the start of a round, 9 of 12 clients were available.'
    """
    available = np.concatenate([run.rounds["available"] for run in runs])
    available = available[np.isfinite(available)]
    clients = _between([run.count for run in runs])
    if not len(available):
        return ""
    if available.min() == available.max() == max(run.count for run in runs):
        return f"All {clients} clients were always available."
    return (
        f"At the start of a round, {_between([int(available.min()), int(available.max())])} of {clients} clients were "
        "available."
    )


def unfinished(runs: Sequence[RunTables]) -> str:
    """A warning about unfinished runs.

    >>> import dataclasses
    >>> from enlist.runs.example import example_run
    >>> unfinished([dataclasses.replace(example_run(), result=None)])
    'Not finished: random, seed 0 (8 rounds so far).'
    """
    open_runs = [run for run in runs if run.result is None or run.result.get("status", "finished") != "finished"]
    names = [f"{run.name} ({plural(len(run.rounds['round']), 'round')} so far)" for run in open_runs]
    more = f" and {len(names) - MANY} more" if len(names) > MANY else ""
    return f"Not finished: {'; '.join(names[:MANY])}{more}." if names else ""


def bands(methods: int) -> str:
    """What lines and bands mean, with this many methods.

    >>> bands(3)
    'Lines are means over seeds, bands their 95 % intervals.'
    """
    crowded = " A click on a method in the legend shows its band." if methods > CROWD else ""
    return f"Lines are means over seeds, bands their 95 % intervals.{crowded}"


def _under(values: Mapping[str, str]) -> str:
    """'3 under oort, 5 under fedcs and 9 under random'; if many, the first ones and random; for one just '3'."""
    names = list(values)
    if len(names) == 1:
        return values[names[0]]
    if len(names) > MANY:
        names = [*[name for name in names if name != BASELINE][: MANY - 1], *([BASELINE] if BASELINE in values else [])]
    words = [f"{values[name]} under {name}" for name in names]
    return _and(words)


def _and(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else words[0]


def _between(numbers: Sequence[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
