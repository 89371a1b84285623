"""docs/choosing.md: which selector do I take? Written by `python -m benchmarks.ladder` from the known results."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from enlist.ladder import Leaderboard
from enlist.ladder.leaderboard import CEILING
from enlist.ladder.markdown import fewer, table
from enlist.ladder.printing import ratio
from enlist.runs.printing import plural
from enlist.runs.scores import BASELINE

OURS = "tempo"
NEAR = 0.9
"""Whoever is not certainly slower than this times the fastest counts as near it."""
HALF = -0.005
"""Half a point of accuracy."""

FEW = 5
"""Seeds below which a reader is warned of intervals."""

Row = Mapping[str, Any]

TITLE = "# Which selector should I use?"
ANSWER = """**Use `tempo`.** It needs only the available clients and their latencies, so no app has to change. It uses
losses if replies carry them, and device features if they are informative. It has two settings, which you can leave at
their defaults.

```python
import enlist
from enlist.flower import with_selector
from flwr.serverapp.strategy import FedAdam

selector = enlist.create("tempo", enlist.Clients(count=1000), seed=7)
strategy = with_selector(FedAdam(), k=20)                # Flower: tempo is the default
```
"""
PICTURE = "![Speed-up over random of every method on every rung of the ladder](ladder/heat-map.png)"
CAPTION = """*Blue is faster than random, red slower: virtual time to 97 % of the final accuracy of random. Each
column is a federation that is hard in its own way; see [ladder.md](ladder.md). {seeds}*"""
PUBLISHED = "These seeds were never used for tuning."
PRESETS = """A name with a colon is a preset: the settings of a paper or of its code, where they differ from our
default. Presets were run on two development seeds (`enlist ladder --selectors oort:oort-code,oort,... --seeds 2`). If a
preset did better there than the default, the best one was run on the published seeds as well."""
WORK = """`pyramidfl` also decides how much each client trains: slow clients may do only half of the local work. No
other method here does this, so part of its speed comes from shorter training, not from a better selection."""
DEVELOPMENT = """These are the development seeds: `tempo` was tuned on them, and runs on the published seeds are not
complete."""
OTHERS = (
    ("if", "use", "because"),
    ("you want the baseline that papers use", "`random`", "it is what most frameworks do"),
    (
        "you write about a paper's method",
        "that method, and its preset `paper`",
        "defaults are chosen to work well, presets follow the paper: [selectors.md](selectors.md) has the differences",
    ),
    (
        "every client must have a given share of the rounds",
        "`cs-ucb-q`, `rbcs-f`",
        "they guarantee it; `tempo` never stops selecting a client, but guarantees no share",
    ),
    (
        "every client may train all the time",
        "`safa`",
        "it chooses among the updates that have arrived; no other selector does",
    ),
    ("latency cannot be measured, or means little", "`random`, `refl`", "`tempo` would have nothing to learn from"),
    (
        "you want to know what each client brings to the server's accuracy",
        "`darts-ucb`",
        "with tens of clients and an evaluation every round, it learns exactly that",
    ),
)


def page(board: Leaderboard) -> str:
    """The page, from a leaderboard of published seeds."""
    pairs = board.against(OURS)
    parts = [
        TITLE,
        ANSWER,
        PICTURE,
        CAPTION.format(seeds=PUBLISHED if board.published else DEVELOPMENT),
        "## The evidence",
        _rests_on(board, pairs),
        PRESETS if any(":" in name for name in board.contestants) else "",
        "## Where another selector was faster",
        _faster(board, pairs),
        WORK if "pyramidfl" in board.contestants else "",
        "## When to use another selector",
        _others(board),
        "`enlist compare CONFIG.toml --selectors tempo,random,...` answers the question for a simulated federation "
        "like yours, and `with_selector(..., shadow=True)` for your real one, without changing its selection.",
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def _rests_on(board: Leaderboard, pairs: Sequence[Row]) -> str:
    standing = {row["selector"]: row for row in board.standings}
    ours = standing[OURS]
    next_best = next(name for name in board.contestants if name != OURS)
    own = {row["rung"]: row for row in board.rows if row["selector"] == OURS}
    slower = [rung for rung, row in own.items() if row["speed_up_high"] < 1.0]
    worse = [rung for rung, row in own.items() if row["final_difference_high"] < HALF]
    fastest = {rung: min((row for row in pairs if row["rung"] == rung), key=lambda row: row["ratio"]) for rung in own}
    first = [rung for rung, row in fastest.items() if row["ratio"] >= 1.0]
    close = [rung for rung, row in fastest.items() if row["ratio"] >= NEAR]
    near = [rung for rung in own if all(row["ratio_high"] >= NEAR for row in pairs if row["rung"] == rung)]
    wide = f" With {board.seeds} seeds they are wide, and little is certain." if board.seeds < FEW else ""
    lines = [
        f"{board.title}; brackets are 95 % intervals over seeds.{wide}{fewer(board)}",
        f"* It reaches the target {ratio(ours, 'speed_up')} times as fast as random, in the geometric mean over "
        f"{plural(len(own), 'rung')}. The next, `{next_best}`, reaches {ratio(standing[next_best], 'speed_up')}: "
        f"`tempo` is {ours['speed_up'] / standing[next_best]['speed_up']:.2f} times as fast.",
        f"* It is the fastest on {len(first)} of {len(own)} rungs, and within a tenth of the fastest on {len(close)}, "
        f"by means over seeds. By paired intervals, no other selector is certainly more than a tenth faster on "
        f"{len(near)}.",
        f"* It is certainly slower than random {_named(slower)}, and certainly less accurate in the end, by half a "
        f"point or more, {_named(worse)}. At worst it is {ours['worst']:.2f} times as fast as random "
        f"(`{ours['worst_rung']}`).",
    ]
    if CEILING in standing:
        share = ours["speed_up"] / standing[CEILING]["speed_up"]
        lines.append(
            f"* An oracle with the same objective, which knows how long every client takes, when it goes offline and "
            f"which labels are wrong, reaches {ratio(standing[CEILING], 'speed_up')}: `tempo` reaches "
            f"{100 * share:.0f} % of that."
        )
    return "\n".join([lines[0], "", *lines[1:]])


def _others(board: Leaderboard) -> str:
    """The table of other methods, with their speed-ups over random on the ladder."""
    standing = {row["selector"]: row for row in board.standings}
    rows = [(*OTHERS[0], "times as fast as random")]
    for case, methods, reason in OTHERS[1:]:
        known = [standing[name] for name in re.findall(r"`(.+?)`", methods) if name in standing]
        rows.append((case, methods, reason, ", ".join(ratio(row, "speed_up") for row in known)))
    return table(rows)


def _named(rungs: Sequence[str]) -> str:
    return "on no rung" if not rungs else "on " + ", ".join(f"`{rung}`" for rung in rungs)


def _faster(board: Leaderboard, pairs: Sequence[Row]) -> str:
    """Rungs on which somebody has a higher mean, by how much, and whether that is certain."""
    rows = []
    for rung in board.rungs:
        others = [row for row in pairs if row["rung"] == rung and row["ratio"] < 1.0]
        if not others:
            continue
        best = min(others, key=lambda row: row["ratio"])
        turned = {"r": 1 / best["ratio"], "r_low": 1 / best["ratio_high"], "r_high": 1 / best["ratio_low"]}
        certain = [row["selector"] for row in others if row["ratio_high"] < 1.0 and row["selector"] != BASELINE]
        named = ", ".join(f"`{name}`" for name in certain) or "none"
        rows.append((f"`{rung}`", board.hard.get(rung, ""), f"`{best['selector']}`", ratio(turned, "r"), named))
    head = ("rung", "what is hard", "fastest there", "times as fast as `tempo`", "certainly faster than `tempo`")
    return table([head, *rows]) if rows else "Nowhere on the ladder."
