"""The leaderboard: methods over all rungs, made from one row per run."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.statistics import Summary, critical_difference, geometric_mean, mean_ranks, paired_difference
from enlist.errors import InputError, unknown
from enlist.ladder.known import comparable, known_results, own_rungs, same_run, version_of
from enlist.ladder.printing import points, ratio
from enlist.ladder.results import read_results, write_results
from enlist.ladder.rung import FOLDER, NAMES, PUBLISHED, VERSION, Rung, rungs
from enlist.runs.frames import columns_of, frame
from enlist.runs.printing import UNKNOWN, percent, plural
from enlist.runs.scores import BASELINE

Row = Mapping[str, Any]
NOTHING = Summary(math.nan, math.nan, math.nan)
CEILING = "oracle"
"""The method with knowledge that no other can have: it shows what could be gained, and does not compete."""
FACTORS = np.round(np.geomspace(1.0, 5.0, 41), 4)
"""Factors of the best speed-up, along a performance profile."""


class Leaderboard:
    """Methods over all rungs: speed-ups, accuracies, ranks, profiles. Returned by `ladder`, and by `read` for a folder.

    Parameters
    ----------
    results : sequence of dict
        One row per run, as `enlist.ladder.results` describes.
    known : sequence of dict, default ()
        Known results, as from `known_results`. Those with matching methods, rungs, seeds and data sets are shown
        with `results`, and marked.
    hard : mapping of str to str
        Rung to the sentence on what is hard about it.
    failed : mapping
        (rung, label, seed) -> why that run failed.
    published : bool, default False
        Whether the seeds are those for publication.

    >>> from enlist.ladder.results import COLUMNS
    >>> some = dict.fromkeys(COLUMNS, 0.5) | {"rung": "silos", "seed": 0, "data": "digits", "reached": 1, "rounds": 9}
    >>> rows = [some | {"selector": "random", "seconds": 90.0}, some | {"selector": "oort", "seconds": 60.0}]
    >>> board = Leaderboard(rows)
    >>> board.standings[0]["selector"], board.standings[0]["speed_up"]
    ('oort', 1.5)
    """

    def __init__(
        self,
        results: Sequence[Row],
        *,
        known: Sequence[Row] = (),
        hard: Mapping[str, str] | None = None,
        failed: Mapping[tuple[str, str, int], str] | None = None,
        published: bool = False,
    ) -> None:
        self.results = list(results)
        self.hard, self.failed, self.published = dict(hard or {}), dict(failed or {}), published
        if not any(row["selector"] == BASELINE for row in self.results):
            raise InputError("no run of random was finished, and all methods are compared with it; see what failed.")
        found = dict.fromkeys(row["rung"] for row in self.results)
        self.rungs = [name for name in NAMES if name in found] + [name for name in found if name not in NAMES]
        self.data = {row["rung"]: row["data"] for row in self.results}
        """Rung -> the data set that it was run with."""
        fitting = comparable(self.results, known)
        self.known = [row for row in fitting if row["selector"] != BASELINE]
        """The known results that are shown: not run here, and not in `results`."""
        self._by = _by_method([*self.results, *self.known])
        self._known_random = _by_method(row for row in fitting if row["selector"] == BASELINE)

    def _random(self, rung: str, selector: str) -> Mapping[int, Row]:
        """The runs of random that a method is compared with, by seed: those that were run with it."""
        there = self._known_random if selector in self.known_labels else self._by
        return there.get((rung, BASELINE), {})

    @functools.cached_property
    def known_labels(self) -> frozenset[str]:
        """The methods with known results that were not run here."""
        return frozenset(row["selector"] for row in self.known)

    @functools.cached_property
    def contestants(self) -> list[str]:
        """The ranked methods, in the order of the table: all except the oracle."""
        return [name for name in self.labels if name != CEILING]

    def name(self, label: str) -> str:
        """The name of a method in tables and charts: known ones and the ceiling are marked."""
        return label + (" (ceiling)" if label == CEILING else "") + (" *" if label in self.known_labels else "")

    @functools.cached_property
    def labels(self) -> list[str]:
        """The methods, in the order of the table."""
        return [row["selector"] for row in self.standings]

    @functools.cached_property
    def seeds(self) -> int:
        """The largest number of seeds of a method."""
        return max(len(runs) for runs in self._by.values())

    @functools.cached_property
    def rows(self) -> list[dict[str, Any]]:
        """One dict per rung and method: scores with their 95 % intervals (`_low`, `_high`).

        known            1 if the results come with the package and were not run here
        speed_up         virtual time of random to the target over the method's, geometric mean over seeds
        speed_up_rounds  the same of rounds
        reached          number of its `seeds` with which the method reached the target
        final            final accuracy, mean over seeds; `final_difference` is minus that of random, paired by seed
        wasted           share of selected clients whose update was never merged
        worst_tenth      accuracy of the worst tenth of the clients; NaN if it was not measured
        server_ms        processor time of the selector per round
        """
        return [self._row(rung, runs) for (rung, _), runs in self._by.items()]

    def _row(self, rung: str, runs: Mapping[int, Row]) -> dict[str, Any]:
        own = list(runs.values())
        base = self._random(rung, own[0]["selector"])
        pairs = [(base[seed], row) for seed, row in runs.items() if seed in base]
        row: dict[str, Any] = {"rung": rung, "selector": own[0]["selector"], "seeds": len(own), "data": own[0]["data"]}
        row["known"] = int(row["selector"] in self.known_labels)
        row["reached"] = int(sum(each["reached"] for each in own))
        for name, column in (("speed_up", "seconds"), ("speed_up_rounds", "rounds")):
            ratios = [there[column] / here[column] for there, here in pairs if there[column] and here[column]]
            row |= (geometric_mean(ratios) if ratios else NOTHING).columns(name)
        row["final"] = float(np.mean([each["final"] for each in own]))
        finals = [[each["final"] for each in side] for side in zip(*pairs, strict=True)] if pairs else []
        difference = paired_difference(finals[1], finals[0]) if finals else NOTHING
        row |= difference.columns("final_difference")
        for name in ("wasted", "worst_tenth", "server_ms"):
            row[name] = _mean([each[name] for each in own])
        return row

    def against(self, label: str) -> list[dict[str, Any]]:
        """How much faster a method is than each of the others on each rung: geometric mean of ratios paired by seed.

        One dict per rung and other method, without the oracle: `ratio` is above 1 if `label` is faster, with its 95 %
        interval (`ratio_low`, `ratio_high`).

        >>> from enlist.ladder.charts import example
        >>> [(row["selector"], row["ratio"]) for row in example().against("oort")]
        [('random', 1.5)]
        """
        if label not in self.labels:
            raise unknown("method", label, self.labels, owner="the leaderboard")
        rows = []
        for rung in self.rungs:
            own = self._by.get((rung, label), {})
            for other in self.contestants:
                theirs = self._by.get((rung, other), {})
                ratios = [row["seconds"] / own[seed]["seconds"] for seed, row in theirs.items() if seed in own]
                if other != label and ratios:
                    rows.append({"rung": rung, "selector": other, **geometric_mean(ratios).columns("ratio")})
        return rows

    @functools.cached_property
    def standings(self) -> list[dict[str, Any]]:
        """One dict per method over all rungs, best first; the oracle is last.

        speed_up           geometric mean over rungs; the interval is over seeds, for this set of rungs
        worst, worst_rung  the lowest speed-up, and where
        rank               mean rank by speed-up; the oracle has none
        rungs              number of rungs on which it was run; methods that lack some come last
        final_difference   mean over rungs, `worst_difference` the lowest
        """
        table: dict[str, dict[str, dict[str, Any]]] = {}
        for row in self.rows:
            table.setdefault(row["selector"], {})[row["rung"]] = row
        ranked = [name for name in table if name != CEILING]
        scores = [[table[name].get(rung, {}).get("speed_up", math.nan) for name in ranked] for rung in self.rungs]
        ranks = dict(zip(ranked, mean_ranks(scores).tolist(), strict=True))
        found = [self._standing(name, own, ranks.get(name, math.nan)) for name, own in table.items()]
        return sorted(
            found, key=lambda row: (row["selector"] == CEILING, -row["rungs"], -_or(row["speed_up"], -math.inf))
        )

    def _standing(self, name: str, own: Mapping[str, Row], rank: float) -> dict[str, Any]:
        worst = min(own.values(), key=lambda row: _or(row["speed_up"], math.inf))
        row: dict[str, Any] = {
            "selector": name,
            "known": int(name in self.known_labels),
            "rungs": len(own),
            "seeds": max(each["seeds"] for each in own.values()),
        }
        for score, column in (("speed_up", "seconds"), ("speed_up_rounds", "rounds")):
            over_seeds = self._over_seeds(name, list(own), column)
            mean = geometric_mean([each[score] for each in own.values()]).mean
            row |= Summary(mean, over_seeds.low, over_seeds.high).columns(score)
        row |= {"worst": worst["speed_up"], "worst_rung": worst["rung"], "rank": rank}
        row["final_difference"] = _mean([each["final_difference"] for each in own.values()])
        row["worst_difference"] = min(_or(each["final_difference"], math.inf) for each in own.values())
        for score in ("wasted", "worst_tenth", "server_ms"):
            row[score] = _mean([each[score] for each in own.values()])
        row["reached"] = sum(each["reached"] for each in own.values()) / sum(each["seeds"] for each in own.values())
        return row

    def _over_seeds(self, name: str, rungs: Sequence[str], column: str) -> Summary:
        """The geometric mean over rungs, seed by seed; only for seeds that every rung has."""
        pairs = [(self._random(rung, name), self._by[rung, name]) for rung in rungs]
        shared = set.intersection(*({*base} & {*own} for base, own in pairs))
        means = [
            geometric_mean([base[seed][column] / own[seed][column] for base, own in pairs]).mean
            for seed in sorted(shared)
        ]
        return geometric_mean(means) if means else NOTHING

    @property
    def critical_difference(self) -> float:
        """The difference of mean ranks that is significant at 5 % (Nemenyi); NaN for a single method."""
        return critical_difference(len(self.contestants), len(self.rungs))

    @functools.cached_property
    def profile(self) -> list[dict[str, Any]]:
        """The performance profile: per method and factor, the share of rungs on which it is within that factor of the
        best speed-up. Dolan, Moré: Benchmarking optimization software with performance profiles, 2002."""
        rows = [row for row in self.rows if row["selector"] != CEILING]
        best = {rung: max(_or(row["speed_up"], 0.0) for row in rows if row["rung"] == rung) for rung in self.rungs}
        own: dict[str, list[float]] = {name: [] for name in self.contestants}
        for row in rows:
            own[row["selector"]].append(best[row["rung"]] / row["speed_up"] if row["speed_up"] > 0 else math.inf)
        return [
            {
                "selector": name,
                "factor": float(factor),
                "share": sum(b <= factor + 1e-9 for b in behind) / len(self.rungs),
            }
            for name, behind in own.items()
            for factor in FACTORS
        ]

    @property
    def table(self) -> Any:
        """The standings as a data frame."""
        return _frame(self.standings)

    @property
    def by_rung(self) -> Any:
        """One row per rung and method, as a data frame: the content of leaderboard.csv."""
        return _frame(self.rows)

    @functools.cached_property
    def fewer_seeds(self) -> dict[str, int]:
        """Methods that were run with fewer seeds than others on some rung, with their number of seeds."""
        least = {name: min(row["seeds"] for row in self.rows if row["selector"] == name) for name in self.labels}
        return {name: seeds for name, seeds in least.items() if seeds < self.seeds}

    @property
    def title(self) -> str:
        """What was run."""
        kind = "published" if self.published else "development"
        known = len(self.known_labels - {CEILING})
        methods = plural(len(self.contestants) - known, "method") + (f" run here and {known} known" if known else "")
        methods += " and the oracle" if CEILING in self.labels else ""
        return f"Ladder {VERSION}: {methods}, {plural(len(self.rungs), 'rung')}, {plural(self.seeds, f'{kind} seed')}"

    @property
    def notice(self) -> str:
        """A note on data: rungs on which digits replace Fashion-MNIST. Empty if there are none."""
        meant = {name: Rung.read(FOLDER / f"{name}.toml").data for name in self.rungs if name in NAMES}
        others = [name for name in meant if self.data[name] != meant[name]]
        if not others:
            return ""
        return (
            f"Fashion-MNIST (Debian's package dataset-fashion-mnist) was missing: {len(others)} of {len(self.rungs)} "
            "rungs use the digits of scikit-learn instead, and are not comparable with results on Fashion-MNIST."
        )

    @property
    def footnote(self) -> str:
        """The meaning of the marks of methods: * for known ones, and the ceiling. Empty if there are none."""
        said = []
        if self.known:
            said.append("* known: comes with the package, was not run here; compared with the random run with it.")
            pairs = [
                (row, self._by[place][seed]) for place, runs in self._known_random.items() for seed, row in runs.items()
            ]
            others = sum(not same_run(there, here) for there, here in pairs)
            if others:
                said.append(
                    f"Random came out differently here in {others} of {len(pairs)} runs, as it may with another "
                    "processor or version of PyTorch."
                )
        if CEILING in self.labels:
            said.append("The oracle knows what no method can know: it shows what could be gained, and has no rank.")
        return " ".join(said)

    def lines(self) -> list[list[str]]:
        """The standings as a table with a header, without columns that are empty or the same for all."""
        lines = [self._line(row) for row in self.standings]
        measured = any(math.isfinite(row["worst_tenth"]) for row in self.standings)
        uneven = len({row["seeds"] for row in self.standings}) > 1
        shown = [name for name in lines[0] if (name != "worst tenth" or measured) and (name != "seeds" or uneven)]
        return [shown, *([line[name] for name in shown] for line in lines)]

    def _line(self, row: Row) -> dict[str, str]:
        return {
            "selector": self.name(row["selector"]),
            "speed-up": ratio(row, "speed_up"),
            "worst rung": f"{row['worst']:.2f} {row['worst_rung']}",
            "in rounds": f"{row['speed_up_rounds']:.2f}",
            "mean rank": UNKNOWN if math.isnan(row["rank"]) else f"{row['rank']:.1f}",
            "reached": percent(row["reached"]),
            "accuracy": points(row["final_difference"]),
            "at worst": points(row["worst_difference"]),
            "wasted": percent(row["wasted"]),
            "worst tenth": percent(row["worst_tenth"]),
            "server ms": UNKNOWN if math.isnan(row["server_ms"]) else f"{row['server_ms']:.2f}",
            "rungs": f"{row['rungs']}/{len(self.rungs)}",
            "seeds": str(row["seeds"]),
        }

    def write(self, folder: str | PathLike[str]) -> Path:
        """Write results.csv (one row per run made here) and leaderboard.csv (one per rung and method, with a column
        that says which are known); returns the latter's path."""
        place = Path(folder)
        write_results(self.results, place / "results.csv")
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        return write_results(self.rows, place / "leaderboard.csv", names)

    def report(self, place: str | PathLike[str]) -> Path:
        """Write a page with tables and charts into a folder, or to a file that ends in .html; returns its path."""
        from enlist.ladder.page import write_report

        return write_report(self, Path(place))

    def markdown(self) -> str:
        """A page that explains the ladder and shows all scores, such as docs/ladder.md; does not write its charts."""
        from enlist.ladder.markdown import markdown

        return markdown(self)

    def __repr__(self) -> str:
        lines = self.lines()
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        table = ("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)
        said = [*([self.notice] if self.notice else []), *table, *([self.footnote] if self.footnote else [])]
        return "\n".join([self.title, *said])


def read(folder: str | PathLike[str], *, known: bool = True) -> Leaderboard:
    """The leaderboard of a folder that `ladder` wrote, or of a results.csv alone.

    Parameters
    ----------
    folder : path
        The folder, or the file.
    known : bool, default True
        Whether to also show known results of other methods.

    >>> read("no/such/folder")
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: no/such/folder holds no results.csv; name a folder that enlist ladder wrote.
    """
    path = Path(folder)
    file = path if path.suffix == ".csv" else path / "results.csv"
    if not file.is_file():
        raise InputError(f"{path} holds no results.csv; name a folder that enlist ladder wrote.")
    rows = read_results(file)
    own = own_rungs(file.parent)
    packaged = [name for name in NAMES if name not in own and any(row["rung"] == name for row in rows)]
    hard = {rung.name: rung.hard for rung in rungs(packaged)} if packaged else {}
    published = all(row["seed"] in PUBLISHED for row in rows)
    fits = known and version_of(file.parent) in (None, VERSION)
    others = [row for row in known_results(published) if row["rung"] in packaged] if fits else []
    return Leaderboard(rows, known=others, hard=hard, published=published)


def _by_method(rows: Iterable[Row]) -> dict[tuple[str, str], dict[int, Row]]:
    """(rung, method) -> seed -> row."""
    found: dict[tuple[str, str], dict[int, Row]] = {}
    for row in rows:
        found.setdefault((row["rung"], row["selector"]), {})[row["seed"]] = row
    return found


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    return float(np.mean(known)) if known else math.nan


def _or(value: float, otherwise: float) -> float:
    return value if math.isfinite(value) else otherwise


def _frame(rows: Sequence[Row]) -> Any:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = columns_of(rows, names)
    return frame({"method" if name == "selector" else name: values for name, values in columns.items()})
