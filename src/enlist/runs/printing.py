"""Scores for people to read: durations, shares, bounds, and the table of a comparison."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]

SIGN = {">=": "≥ ", "<=": "≤ "}
UNKNOWN = "–"
MINUTE, HOUR, DAY = 60, 3_600, 86_400
LENGTHS = {"s": 1, "min": MINUTE, "h": HOUR, "d": DAY}


def duration(seconds: float, units: int = 2) -> str:
    """A span of time, in at most two units, or in one.

    >>> [duration(seconds) for seconds in (0.25, 59.2, 245, 11_520, 190_000)]
    ['0.25 s', '59.2 s', '4 min 5 s', '3 h 12 min', '2 d 5 h']
    >>> duration(11_520, units=1)
    '3.2 h'
    """
    if not math.isfinite(seconds):
        return UNKNOWN
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    for above, big, small in ((HOUR, "min", "s"), (DAY, "h", "min"), (math.inf, "d", "h")):
        whole = round(seconds / LENGTHS[small]) * LENGTHS[small]
        if whole < above:
            count, rest = divmod(whole, LENGTHS[big])
            if units == 1:
                return f"{seconds / LENGTHS[big]:.2g} {big}"
            return f"{count} {big} {rest // LENGTHS[small]} {small}" if rest else f"{count} {big}"
    return UNKNOWN


def time_unit(seconds: float) -> tuple[str, float]:
    """The unit for an axis that goes up to this many seconds, and its length in seconds.

    >>> time_unit(7000), time_unit(20_000)
    (('minutes', 60.0), ('hours', 3600.0))
    """
    units = (("seconds", 1.0), ("minutes", 60.0), ("hours", 3600.0), ("days", 86_400.0))
    return [unit for unit in units if seconds >= 2.5 * unit[1] or unit[1] == 1.0][-1]


def percent(share: float, digits: int = 0) -> str:
    """A share in percent.

    >>> percent(0.8), percent(0.8125, digits=1), percent(0.004), percent(0.0004)
    ('80 %', '81.2 %', '0.4 %', '<0.1 %')
    """
    if not math.isfinite(share):
        return UNKNOWN
    value = 100.0 * share
    if 0 < value < 0.05:
        return "<0.1 %"
    return f"{value:.1g} %" if 0 < value < 0.5 * 10.0**-digits else f"{value:.{digits}f} %"


def plural(number: int, noun: str) -> str:
    """A number with its noun.

    >>> plural(1, "seed"), plural(3, "seed")
    ('1 seed', '3 seeds')
    """
    return f"{number:,} {noun}" + ("" if number == 1 else "s")


def level(value: float, by: str = "accuracy") -> str:
    """A target or result: an accuracy in percent, a loss as it is.

    >>> level(0.8), level(0.825), level(0.31, "loss")
    ('80 %', '82.5 %', '0.31')
    """
    if by != "accuracy":
        return f"{value:.3g}" if math.isfinite(value) else UNKNOWN
    return f"{100.0 * value:.4g} %" if math.isfinite(value) else UNKNOWN


def score(value: float, by: str = "accuracy") -> str:
    """A result as tables show it: an accuracy in percent with one digit, a loss with three.

    >>> score(0.9471), score(0.3142, "loss")
    ('94.7 %', '0.314')
    """
    return percent(value, 1) if by == "accuracy" else level(value, by)


def target_name(row: Row) -> str:
    """The target, as a title.

    >>> target_name({"target": 0.8, "measure": "accuracy"}), target_name({"target": 0.3, "measure": "loss"})
    ('80 %', 'loss 0.3')
    """
    return ("" if row["measure"] == "accuracy" else "loss ") + level(row["target"], row["measure"])


def comparison_table(rows: Sequence[Row], keys: Sequence[str] = ()) -> list[list[str]]:
    """Header and one line per selector, from `comparison_rows`; `keys` are columns of the rows to begin with.

    ± is half a 95 % interval over seeds, brackets hold one. `2/3` means that two of three seeds reached the target: the
    figure is then a bound. A column without any known value is left out.

    >>> from enlist.runs.example import example_run
    >>> from enlist.runs.comparing import comparison_rows
    >>> runs = [example_run(name, seed) for name in ("fedcs", "random") for seed in range(3)]
    >>> for line in comparison_table(comparison_rows(runs, target=0.7)):
    ...     print(" | ".join(line[:4]))
    selector | rounds to 70 % | time to 70 % | speed-up over random
    fedcs | ≥ 6.7 (2/3) | ≥ 2 min 19 s (2/3) | ≤ 1.11 [0.33, 3.68]
    random | 5.3 ± 2.9 | 2 min 38 s ± 2.7 min | –
    """
    goals, measures = {target_name(row) for row in rows}, {str(row["measure"]) for row in rows}
    goal = target_name(rows[0]) if len(goals) == 1 else "target"
    by = measures.pop() if len(measures) == 1 else "figure"
    base = next((row["baseline"] for row in rows if row["baseline"]), None)
    most = max(row["bytes_down"] + row["bytes_up"] for row in rows)
    unit, size = next(((name, size) for name, size in (("GB", 1e9), ("MB", 1e6)) if most >= size), ("kB", 1e3))
    columns = {short: [written(row[key]) for row in rows] for key, short in short_names(keys).items()}
    columns |= {"selector": [row["selector"] for row in rows]}
    columns |= {goal: [target_name(row) for row in rows]} if len(goals) > 1 else {}
    columns |= {
        f"rounds to {goal}": [_reached(row, "rounds_to") for row in rows],
        f"time to {goal}": [_reached(row, "time_to") for row in rows],
        f"energy to {goal}": [_reached(row, "energy_to") if "energy_to" in row else UNKNOWN for row in rows],
        f"speed-up over {base or 'the baseline'}": [speed_up(row) for row in rows],
        f"final {by}": [_final(row) for row in rows],
        "round time": [duration(row["round_time"]) for row in rows],
        "late / dropped / failed": [_outcomes(row) for row in rows],
        "seen": [percent(row["coverage"]) for row in rows],
        "Jain": [f"{row['jain']:.2f}" for row in rows],
        f"{unit} sent": [_sent(row, size) for row in rows],
        "energy": [joules(row["energy"]) if "energy" in row else UNKNOWN for row in rows],
        "worst tenth of clients": [_half_interval(row, "accuracy_worst_tenth") for row in rows],
        "spread over clients": [_half_interval(row, "accuracy_spread") for row in rows],
    }
    metrics = dict.fromkeys(name for row in rows for name in row if name.startswith("metric_"))
    for name in (name for name in metrics if any(f"{name}_low" in row for row in rows)):
        short = name.removeprefix("metric_")
        columns[name if short in columns else short] = [_half_interval(row, name, share=False) for row in rows]
    kept = {title: cells for title, cells in columns.items() if any(cell != UNKNOWN for cell in cells)}
    return [list(kept), *(list(line) for line in zip(*kept.values(), strict=True))]


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Short names of keys for tables and charts: their last parts, as many as it takes to distinguish them.

    >>> short_names(["rounds.k", "server.optimiser.lr", "training.lr"])
    {'rounds.k': 'k', 'server.optimiser.lr': 'optimiser.lr', 'training.lr': 'training.lr'}
    """
    found = {}
    for key in keys:
        parts = key.split(".")
        ends = (".".join(parts[-count:]) for count in range(1, len(parts) + 1))
        others = [other for other in keys if other != key]
        found[key] = next((end for end in ends if not any(f".{other}".endswith(f".{end}") for other in others)), key)
    return found


def written(value: Any) -> str:
    """A value of a key as tables, charts and folders show it.

    >>> [written(value) for value in (0.1, 1.0, None, True, [32, 16], "iid")]
    ['0.1', '1', '–', 'true', '[32, 16]', 'iid']
    """
    if value is None:
        return UNKNOWN
    if isinstance(value, float):
        return f"{value:.12g}"
    return value if isinstance(value, str) else json.dumps(value, default=str)


def titled(values: Row) -> str:
    """Keys with their values, in words.

    >>> titled({"rounds.k": 5, "data.partition.alpha": 0.1})
    'k = 5, alpha = 0.1'
    """
    names = short_names(list(values))
    return ", ".join(f"{names[key]} = {written(value)}" for key, value in values.items())


def as_text(lines: Sequence[Sequence[str]]) -> str:
    """Lines of cells as a table of plain text.

    >>> print(as_text([["selector", "seen"], ["oort", "75 %"]]))
    selector  seen
    oort      75 %
    """
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def as_html(lines: Sequence[Sequence[str]], header: bool = True) -> str:
    """Lines of cells as a table for a notebook; the first may be its header.

    >>> as_html([["a < b"], ["1"]])
    '<table><tr><th>a &lt; b</th></tr><tr><td>1</td></tr></table>'
    """
    kinds = ["th" if header and not index else "td" for index in range(len(lines))]
    cells = (
        "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in line)
        for kind, line in zip(kinds, lines, strict=True)
    )
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in cells)}</table>"


def speed_up(row: Row) -> str:
    """The speed-up over the baseline of a row, with its interval; '–' where there is none.

    >>> speed_up({"speed_up": 1.5, "speed_up_low": 1.2, "speed_up_high": 1.9, "speed_up_bound": ">="})
    '≥ 1.50 [1.20, 1.90]'
    """
    value = row.get("speed_up", math.nan)
    if not math.isfinite(value) or row["speed_up_bound"] == "?":
        return UNKNOWN
    low, high = row["speed_up_low"], row["speed_up_high"]
    span = f" [{low:.2f}, {high:.2f}]" if math.isfinite(low) else ""
    return f"{SIGN.get(row['speed_up_bound'], '')}{value:.2f}{span}"


def joules(amount: float) -> str:
    """An amount of energy, to three digits.

    >>> joules(532.1), joules(1_234_567.0), joules(float("nan"))
    ('532 J', '1.23 MJ', '–')
    """
    if not math.isfinite(amount):
        return UNKNOWN
    unit, size = next(((name, size) for name, size in (("MJ", 1e6), ("kJ", 1e3)) if amount >= size), ("J", 1.0))
    return f"{amount / size:.3g} {unit}"


def _reached(row: Row, name: str) -> str:
    ways: dict[str, tuple[Callable[[float], str], Callable[[float], str]]]
    ways = {"time_to": (duration, _about), "energy_to": (joules, joules)}
    show, show_half = ways.get(name, (_rounds, _rounds))
    if not math.isfinite(row["target"]):
        return UNKNOWN
    if row["reached"] == 0:
        return f"never (0/{row['seeds']})"
    if row["reached"] < row["seeds"]:
        return f"≥ {show(row[name])} ({row['reached']}/{row['seeds']})"
    half = (row[f"{name}_high"] - row[f"{name}_low"]) / 2.0
    return show(row[name]) + (f" ± {show_half(half)}" if math.isfinite(half) else "")


def _about(seconds: float) -> str:
    return duration(float(f"{seconds:.2g}"), units=1)


def _rounds(number: float) -> str:
    return f"{number:.1f}" if number < 10 and number != int(number) else f"{number:,.0f}"


def _final(row: Row) -> str:
    return _half_interval(row, "final", share=row["measure"] == "accuracy")


def _half_interval(row: Row, name: str, share: bool = True) -> str:
    """A score with half of its interval; a share in percent."""
    value = row.get(name, math.nan)
    half = (row[f"{name}_high"] - row[f"{name}_low"]) / 2.0 if name in row else math.nan
    if not math.isfinite(value):
        return UNKNOWN
    if not share:
        return f"{value:.3g}" + (f" ± {half:.2g}" if math.isfinite(half) else "")
    return f"{100 * value:.1f}" + (f" ± {100 * half:.1f}" if math.isfinite(half) else "") + " %"


def _outcomes(row: Row) -> str:
    shares = [row[name] for name in ("late", "dropped", "failed")]
    return " / ".join(percent(share).removesuffix(" %") for share in shares) + " %" if row["selected"] else UNKNOWN


def _sent(row: Row, size: float) -> str:
    sent = row["bytes_down"] + row["bytes_up"]
    return f"{sent / size:.3g}" if math.isfinite(sent) else UNKNOWN
