"""The leaderboard as a self-contained page in Markdown: docs/ladder.md."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from enlist.ladder.leaderboard import CEILING, Leaderboard
from enlist.ladder.page import COLUMNS, HEAT, PROFILE, RANKS, RULES, sentence
from enlist.ladder.printing import difference, ratio
from enlist.ladder.rung import DEVELOPMENT, FOLDER, NAMES, PUBLISHED, VERSION, Rung
from enlist.runs.printing import UNKNOWN, percent, plural
from enlist.runs.scores import BASELINE

Row = Mapping[str, Any]

WHAT = """The ladder is a benchmark of client selection: which clients should take part in the next round of federated
learning? A single federation can flatter a method, so there are {rungs}, called rungs, and they do not change. On each
rung, every method trains the same model on the same populations, devices and random events. The ladder measures the
virtual time until a method is as accurate as random selection is in the end. A speed-up of 2 means half the time
of random."""
SEEDS = """This is version {version} of rungs and seeds. The seeds here are {seeds}. Seeds {development} are for
development and tuning. Seeds {published} are for publication: they are never used for tuning, and each version of a
method runs on them once."""
RUN = """`enlist ladder` runs it. The package contains the results of many methods, so only the methods that you name
and the baseline, random, are run. The known results are shown beside them, marked with *.

```
pip install "enlist[sim]"
enlist ladder --show                                     what the rungs are
enlist ladder --selectors mine:LossPerSecond             a class in mine.py, on the development seeds
enlist ladder --selectors mine:LossPerSecond --published the same seeds as here, for a table to publish
enlist ladder --selectors all --alone                    all selectors, from scratch: takes an hour or more
```

Your own selector is a class with two methods, here in `mine.py`:

```python
from dataclasses import dataclass
import numpy as np
import enlist

@dataclass
class LossState(enlist.State):
    worth: np.ndarray = enlist.column(1e9)                        # clients that were never selected come first

class LossPerSecond(enlist.Selector):
    State = LossState

    def choose(self, request):
        worth = request.of(self.state.worth) / (1 + request.of(self.counts.selected))
        return request.pick(np.argsort(-worth)[: request.k])

    def learn(self, told):
        worth = told.column("loss") / told.latency
        self.state.worth[told.clients] = np.nan_to_num(worth)     # NaN where a client was lost
```

[write-a-selector.md](write-a-selector.md) continues from there, and [simulation.md](simulation.md#the-ladder) has every
option. To bring a selector into this table, run it on the published seeds, merge its folder with
`python -m benchmarks.ladder FOLDER`, which also writes this page, and open a pull request."""
BUDGET = """A rung has a budget of virtual time and of rounds. If a run that never reaches the target counted with its
own time, short rounds without progress would look fast, so it counts with the whole budget."""
SHARE = """The oracle knows what no method can know, so it shows what could be gained. The table shows its speed-up, and
the share of it that the leading methods reach."""
OVERALL = "all rungs"
FIRST = 3
"""Methods in the table of the oracle's speed-up, apart from random."""


def markdown(board: Leaderboard, charts: str = "ladder") -> str:
    """docs/ladder.md, with pictures in the folder `charts`: standings.png, heat-map.png, ranks.png, profile.png.

    >>> from enlist.ladder.charts import example
    >>> markdown(example()).splitlines()[0]
    '# The ladder'
    """
    parts = [
        "# The ladder",
        WHAT.format(rungs=plural(len(board.rungs), "federation")),
        f"**{sentence(board)}**",
        *([f"**{board.notice}**"] if board.notice else []),
        _seeds(board),
        "## Standings",
        f"{board.title}.{fewer(board)}",
        table(board.lines()),
        f"'Speed-up' is the geometric mean over rungs, 'worst rung' the lowest and where. {COLUMNS} {board.footnote}",
        f"![Mean speed-up over random of every method, with its interval]({charts}/standings.png)",
        f"![Speed-up over random of every method on every rung]({charts}/heat-map.png)",
        f"{HEAT} {board.footnote}",
        f"![Mean ranks of the methods over the rungs]({charts}/ranks.png)",
        f"{RANKS} {_apart(board)}",
        f"![Performance profiles of the leading methods]({charts}/profile.png)",
        PROFILE,
        "## The rungs",
        "What is hard about each rung, its mean target over seeds, and its fastest method.",
        table(_rungs(board)),
        "## Speed-up on each rung",
        "Over random, in virtual time to the target; below it the 95 % interval over seeds.",
        table(_matrix(board, lambda row: ratio(row, "speed_up"))),
        "## Final accuracy on each rung",
        "Minus that of random, in points, paired by seed; below it the 95 % interval.",
        table(_matrix(board, difference)),
        *_oracle(board),
        "## How it is scored",
        RULES,
        BUDGET,
        "Accuracies are compared at the end of the budget, paired by seed. Ranks are by speed-up.",
        "## Run it, and add your own selector",
        RUN,
    ]
    return "\n\n".join(part.strip() for part in parts if part) + "\n"


def fewer(board: Leaderboard) -> str:
    """A sentence on methods that were run with fewer seeds, or "". Two methods are paired by their common seeds.

    >>> from enlist.ladder.results import COLUMNS
    >>> some = dict.fromkeys(COLUMNS, 0.5) | {"rung": "silos", "data": "digits", "reached": 1, "rounds": 9}
    >>> runs = (("random", 0), ("random", 1), ("oort", 0))
    >>> fewer(Leaderboard([some | {"selector": name, "seed": seed} for name, seed in runs]))
    ' With fewer, so far: 1 seed: `oort`.'
    """
    counts = sorted(set(board.fewer_seeds.values()), reverse=True)
    groups = [
        f"{plural(count, 'seed')}: " + ", ".join(f"`{name}`" for name, own in board.fewer_seeds.items() if own == count)
        for count in counts
    ]
    return f" With fewer, so far: {'; '.join(groups)}." if groups else ""


def _seeds(board: Leaderboard) -> str:
    development, published = (f"{seeds[0]} to {seeds[-1]}" for seeds in (DEVELOPMENT, PUBLISHED))
    found = sorted({row["seed"] for row in board.results})
    seeds = f"{found[0]} to {found[-1]}" if len(found) > 1 else str(found[0])
    return SEEDS.format(version=VERSION, seeds=seeds, development=development, published=published)


def _apart(board: Leaderboard) -> str:
    apart = board.critical_difference
    return f"That is, if they are at least {apart:.2f} apart." if math.isfinite(apart) else ""


def _rungs(board: Leaderboard) -> list[list[str]]:
    lines = [["rung", "what is hard", "data", "clients", "a round", "target", "fastest"]]
    for rung in board.rungs:
        target = {row["seed"]: row["target"] for row in board.results if row["rung"] == rung}
        own = [row for row in board.rows if row["rung"] == rung and row["selector"] != CEILING and row["speed_up"] > 0]
        best = max(own, key=lambda row: row["speed_up"], default=None)
        first = UNKNOWN if best is None else f"{board.name(best['selector'])}, {best['speed_up']:.2f}"
        mean = percent(sum(target.values()) / len(target), 1)
        lines.append([rung, board.hard.get(rung, ""), board.data[rung], *_size(rung), mean, first])
    return lines


def _size(rung: str) -> tuple[str, str]:
    """The clients and the clients per round of a rung of the package; some data sets have their own clients."""
    if rung not in NAMES:
        return UNKNOWN, UNKNOWN
    config = Rung.read(FOLDER / f"{rung}.toml").config
    return f"{config.data.clients:,}" if config.data.clients else "natural", str(config.rounds.k)


def _matrix(board: Leaderboard, cell: Callable[[Row], str]) -> list[list[str]]:
    """Methods by rungs, with intervals on a second line."""
    found = {(row["selector"], row["rung"]): cell(row).replace(" [", "<br>[") for row in board.rows}
    rows = [[board.name(label), *(found.get((label, rung), UNKNOWN) for rung in board.rungs)] for label in board.labels]
    return [["selector", *board.rungs], *rows]


def _oracle(board: Leaderboard) -> list[str]:
    """The share of the oracle's speed-up that the leading methods reach, if there is an oracle."""
    if CEILING not in board.labels:
        return []
    return ["## Share of the oracle's speed-up", SHARE, table(oracle_lines(board))]


def oracle_lines(board: Leaderboard) -> list[list[str]]:
    """Per rung and over all, the oracle's speed-up and the share of it that the leading methods reach.

    >>> from enlist.ladder.charts import example
    >>> more = {**example().results[0], "selector": "oracle", "seconds": 45.0}
    >>> oracle_lines(Leaderboard([*example().results, more]))
    [['rung', 'oracle', 'oort', 'random'], ['silos', '2.00', '75 %', '50 %'], ['all rungs', '2.00', '75 %', '50 %']]
    """
    first = [*[name for name in board.contestants if name != BASELINE][:FIRST], BASELINE]
    gains = {(row["selector"], row["rung"]): row["speed_up"] for row in board.rows}
    gains |= {
        (row["selector"], OVERALL): row["speed_up"] for row in board.standings if row["rungs"] == len(board.rungs)
    }
    lines = [["rung", CEILING, *(board.name(label) for label in first)]]
    for rung in [*board.rungs, OVERALL]:
        most = gains.get((CEILING, rung), math.nan)
        shares = [percent(gains.get((label, rung), math.nan) / most) for label in first]
        lines.append([rung, UNKNOWN if math.isnan(most) else f"{most:.2f}", *shares])
    return lines


def table(lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table, with its header first.

    >>> print(table([["rung", "fastest"], ["silos", "tempo"]]))
    | rung | fastest |
    |---|---|
    | silos | tempo |
    """
    head, *rows = ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]
    return "\n".join([head, "|" + "---|" * len(lines[0]), *rows])
