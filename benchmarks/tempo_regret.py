"""What tempo's estimates cost: the regret of its sets in arena worlds whose truth is known.

In every round the worth v of the clients is tempo's own. Latencies, their noise and the chances of finishing are the
world's: with them, the set that tempo chose and the best set bring

    value(S) = sum_S v_i u_i / T(S),        regret = 1 - value(chosen) / value(best)

The best set is that of the same solver on the truth (a genie), or the chosen one if that is better. Regret is summed
over rounds. Whoever knew everything would have none; what `v` itself is worth is no part of it.

Estimates are of two kinds. What latencies cost alone is the regret of the set that tempo would have chosen in the same
round with its own latencies and the true chances of finishing in time.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from benchmarks.tempo_bounds import BoundedLatency
from enlist._internal.statistics import Summary, bootstrap, paired_difference
from enlist._internal.typing import FloatArray, IntArray
from enlist.arena import Scenario, World
from enlist.bandits import LogLatency, round_end, sets_by_time
from enlist.bandits.lognormal import MEMORY
from enlist.contract import Choice, Request
from enlist.engine import local
from enlist.records import Feedback, Outcome
from enlist.selectors import Tempo

CLIENTS, K = 100, 10
ROUNDS, SEEDS = 1600, 10
CHECKPOINTS = (50, 100, 200, 400, 800, 1600)
TEMPO, SHORT, SOFT = "tempo", "last four replies", "soft bounds"
VARIANTS: dict[str, tuple[type[LogLatency], float]] = {
    TEMPO: (LogLatency, MEMORY),
    SHORT: (LogLatency, 4.0),
    SOFT: (BoundedLatency, MEMORY),
}
"""What is played -> how latencies are estimated, and how many replies that rests on at most."""
LATENCIES = "tempo, latencies alone"


@dataclasses.dataclass(frozen=True)
class Setting:
    """A world, and how its rounds are played: how many are asked for K replies, and whether there is a deadline."""

    about: str
    scenario: Scenario
    asked: int = K
    deadline: bool = False


_UNEVEN = Scenario(latency="lognormal", reliability=(0.8, 1.0), features=0.0)
WORLDS: dict[str, Setting] = {
    "telling features": Setting(
        "features predict speed, with a correlation of 0.9", dataclasses.replace(_UNEVEN, features=0.9)
    ),
    "no features": Setting("features say nothing about speed", _UNEVEN),
    "changing": Setting(
        "speeds are reassigned three times; features say nothing about speed", dataclasses.replace(_UNEVEN, changes=3)
    ),
    "deadline": Setting(
        "as in “no features”, but 13 clients are selected for 10 replies, and one client in ten usually misses the "
        "deadline",
        _UNEVEN,
        asked=13,
        deadline=True,
    ),
}
NEAR = 0.01
"""Exponents closer than this are the same."""
ADVERBS = {
    "logarithmic": "logarithmically",
    "between": "slower than linearly",
    "linear": "linearly",
    "faster": "faster than linearly",
    "unclear": "by an exponent that these seeds leave open",
}

Key = tuple[str, str, int]
"""World, variant, seed."""
Forecast = tuple[FloatArray, FloatArray, FloatArray]
"""Mean and deviation of ln latency, and the chance of finishing at all, of the available clients."""


@dataclasses.dataclass(frozen=True)
class Curve:
    """Regret of every round of one run; what a random set would have lost, and tempo's had chances been known to it."""

    regret: list[float]
    random: list[float]
    latencies: list[float]

    @property
    def cumulated(self) -> FloatArray:
        return np.cumsum(self.regret)

    @property
    def of_latencies(self) -> Curve:
        """The same run, as if the regret of latencies were all."""
        return dataclasses.replace(self, regret=self.latencies)


class Watched(Tempo):
    """Tempo that notes, in every round, what it lost to a genie. It chooses as tempo does."""

    world: World

    def watch_over(self, world: World, seed: int) -> Watched:
        self.world, self.others, self.lost = world, np.random.default_rng((seed, 8)), Curve([], [], [])
        return self

    def choose(self, request: Request) -> Choice:
        value = self.worth(request)
        choice = super().choose(request)
        chosen = np.searchsorted(request.available, choice.clients)
        drawn = self.others.choice(len(request.available), request.k, replace=False)
        truth = self.truth(request)
        mean, deviation, finishes = self.forecast(request)
        informed = best_set(request, value * in_time(request, *truth), (mean, deviation, finishes), self.others)
        for curve, lost in zip(
            (self.lost.regret, self.lost.random, self.lost.latencies),
            losses(request, value, truth, [chosen, drawn, informed], self.others),
            strict=True,
        ):
            curve.append(lost)
        return choice

    def truth(self, request: Request) -> Forecast:
        """Mean and deviation of ln latency, and the chance of finishing at all, as they are in this round."""
        found = self.world.truth(request.round)
        variance = np.log1p((found.spread / found.latency) ** 2)
        mean = np.log(found.latency) - 0.5 * variance
        finishes = self.world.reliability[self.world.deal(request.round)]
        return request.of(mean), np.sqrt(np.maximum(request.of(variance), 1e-8)), request.of(finishes)


def in_time(request: Request, mean: FloatArray, deviation: FloatArray, finishes: FloatArray) -> FloatArray:
    """The chance to finish, and by the deadline."""
    return np.asarray(finishes * ndtr((math.log(request.deadline) - mean) / deviation))


def best_set(request: Request, brings: FloatArray, latency: Forecast, rng: np.random.Generator) -> IntArray:
    """The set that brings the most per second if latencies and chances to finish are these."""
    mean, deviation, finishes = latency
    sets = sets_by_time(mean + deviation, brings, request.k, rng)
    ends = round_end(mean[sets], deviation[sets], finishes[sets])
    return np.asarray(sets[np.argmax(brings[sets].sum(axis=1) / ends)])


def losses(
    request: Request,
    value: FloatArray,
    truth: Forecast,
    sets: Sequence[IntArray],
    rng: np.random.Generator,
) -> list[float]:
    """The regret of some sets, given the truth: mean and deviation of ln latency and chance to finish."""
    mean, deviation, finishes = truth
    brings = value * in_time(request, *truth)
    tried = np.concatenate([np.stack(sets), sets_by_time(mean + deviation, brings, request.k, rng)])
    rates = brings[tried].sum(axis=1) / round_end(mean[tried], deviation[tried], finishes[tried])
    return [float(1.0 - each / rates.max()) for each in rates[: len(sets)]]


def run(key: Key, rounds: int = ROUNDS) -> Curve:
    """One run of tempo through a world."""
    name, variant, seed = key
    setting = WORLDS[name]
    world = World(setting.scenario, CLIENTS, rounds, seed)
    selector = Watched(world.clients(), seed=seed).watch_over(world, seed)
    kind, memory = VARIANTS[variant]
    selector.state.latency = kind.of(selector.clients)
    selector.state.latency.memory = memory
    deadline = world.deadline if setting.deadline else math.inf
    for number in range(1, rounds + 1):
        picked = selector.ask(k=setting.asked, enough=K, deadline=deadline)
        selector.tell(picked, happened(world, number, picked.clients, deadline))
    return selector.lost


def happened(world: World, round: int, clients: IntArray, deadline: float) -> Feedback:
    """What becomes of a round: it ends with the K-th reply, at the deadline, or when nobody is left to wait for."""
    latency, utility = world.latency(round)[clients], world.utility(round)[clients]
    dropped = world.drops(round)[clients]
    coming = np.sort(latency[~dropped & (latency <= deadline)])
    ended = coming[K - 1] if len(coming) >= K else deadline if math.isfinite(deadline) else coming[-1:].sum()
    late = ~dropped & (latency > ended)
    outcome = np.where(dropped, Outcome.DROPPED, np.where(late, Outcome.LATE, Outcome.COMPLETED))
    told = np.where(dropped, np.nan, np.minimum(latency, ended))
    return Feedback(outcome=outcome, latency=told, censored=late, loss=np.where(dropped | late, np.nan, utility))


def gather(path: Path, jobs: int, seeds: int = SEEDS, rounds: int = ROUNDS) -> dict[Key, Curve]:
    """All runs; those that the file holds already are not run again."""
    keys: list[Key] = [(name, variant, seed) for name in WORLDS for variant in variants(name) for seed in range(seeds)]
    found: dict[Key, Curve] = {}
    for line in path.read_text().splitlines() if path.exists() else []:
        entry = json.loads(line)
        if len(entry["regret"]) == rounds:
            name, variant, seed = entry["key"]
            found[name, variant, seed] = Curve(entry["regret"], entry["random"], entry["latencies"])
    missing = [key for key in keys if key not in found]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        ends = local(jobs).map(run, [(key, rounds) for key in missing], role="a process of the benchmark")
        for number, curve in ends:
            found[missing[number]] = curve
            digits = {name: [round(value, 6) for value in losses] for name, losses in vars(curve).items()}
            file.write(json.dumps({"key": missing[number], **digits}) + "\n")
            file.flush()
            print(*missing[number], f"{sum(curve.regret):.1f}", flush=True)
    return {key: found[key] for key in keys}


def variants(world: str) -> list[str]:
    """What is played in a world; bounds are seen only where somebody is late.

    >>> len(variants("deadline")) - len(variants("no features"))
    1
    """
    return [variant for variant in VARIANTS if variant != SOFT or WORLDS[world].deadline]


def of(curves: Mapping[Key, Curve], world: str, variant: str) -> list[Curve]:
    """The runs of one world and variant, by seed."""
    return [curve for (name, known, _), curve in curves.items() if (name, known) == (world, variant)]


def at(curves: Iterable[Curve], round: int) -> Summary:
    """Cumulated regret after a round, over seeds."""
    return Summary.of([float(curve.cumulated[round - 1]) for curve in curves])


def rate(curves: Iterable[Curve], part: str = "last half", column: str = "regret") -> Summary:
    """Regret per round in a part of the rounds, over seeds."""
    places = {"first tenth": (0.0, 0.1), "last half": (0.5, 1.0), "all": (0.0, 1.0)}
    begin, end = places[part]
    taken = [np.asarray(getattr(curve, column)) for curve in curves]
    return Summary.of([float(each[int(begin * len(each)) : int(end * len(each))].mean()) for each in taken])


def growth(curves: Sequence[Curve]) -> Summary:
    """The exponent p of regret that grows like t^p, from its last two doublings: 0 for c ln t, 1 for c t.

    p = log2 of (R(n) - R(n/2)) / (R(n/2) - R(n/4)), R being the mean over seeds; the interval is a bootstrap over them.
    """

    def exponent(whole: FloatArray, half: FloatArray, quarter: FloatArray) -> float:
        last, before = whole.mean() - half.mean(), half.mean() - quarter.mean()
        return math.log2(max(last, 1e-12) / max(before, 1e-12))

    rounds = len(curves[0].regret)
    return bootstrap(exponent, *([curve.cumulated[rounds // part - 1] for curve in curves] for part in (1, 2, 4)))


def verdict(curves: Sequence[Curve]) -> str:
    """How regret grows, by the rule that the page states: which of 0 and 1 the interval of the exponent holds."""
    exponent = growth(curves)
    low, high = (exponent.mean, exponent.mean) if math.isnan(exponent.low) else (exponent.low, exponent.high)
    if low > 1.0 + NEAR:
        return "faster"
    if low > NEAR:
        return "linear" if high >= 1.0 - NEAR else "between"
    return "logarithmic" if high < 1.0 - NEAR else "unclear"


def chart_rows(curves: Mapping[Key, Curve]) -> list[dict[str, Any]]:
    """Cumulated regret over rounds with its 95 % interval: one row per world, variant and mark."""
    rows = []
    for world in WORLDS:
        for variant in variants(world):
            runs = of(curves, world, variant)
            for mark in np.unique(np.linspace(1, len(runs[0].regret), 60).astype(int)).tolist():
                total = at(runs, mark)
                low, high = (total.mean, total.mean) if math.isnan(total.low) else (max(total.low, 0.0), total.high)
                row = {"world": world, "variant": variant, "round": mark}
                rows.append({**row, "mean": total.mean, "low": low, "high": high})
    return rows


def chart(curves: Mapping[Key, Curve]) -> Any:
    """Cumulated regret over rounds, a panel per world, with 95 % bands; panels have scales of their own."""
    import altair as alt

    from enlist.report.charts import colours

    base = alt.Chart().encode(
        x=alt.X("round:Q", title="round", scale=alt.Scale(nice=False), axis=alt.Axis(grid=False, tickCount=5)),
        color=alt.Color("variant:N", scale=colours(list(VARIANTS)), title=None),
    )
    band = base.mark_area(opacity=0.18).encode(y=alt.Y("low:Q", title="cumulated regret"), y2="high:Q")
    line = base.mark_line(strokeWidth=2.2).encode(y="mean:Q")
    header = alt.Header(title=None, labelFontSize=14, labelFontWeight="bold", labelAnchor="start")
    facet = alt.Facet("world:N", sort=list(WORLDS), header=header)
    return (
        alt.layer(band, line, data=alt.InlineData(values=chart_rows(curves)))
        .properties(width=310, height=190)
        .facet(facet=facet, columns=2)
        .resolve_scale(y="independent")
        .resolve_axis(x="independent")
        .properties(title="What estimates cost: regret against a genie that knows latencies and drop-outs")
    )


def table(curves: Mapping[Key, Curve]) -> list[list[str]]:
    """Cumulated regret at the checkpoints, the rate at the end, and how it grows; with a header."""
    rounds = len(next(iter(curves.values())).regret)
    marks = [mark for mark in CHECKPOINTS if mark <= rounds]
    lines = [["world", "estimates", *map(str, marks), "per round, last half", "exponent", "growth"]]
    for world in WORLDS:
        for variant, runs in _rows(curves, world):
            cells = [_with_interval(at(runs, mark), 1.0, 1) for mark in marks]
            final = _with_interval(rate(runs), 100.0, 2, " %")
            lines.append([world, variant, *cells, final, _exponent(growth(runs)), verdict(runs)])
    return lines


def _rows(curves: Mapping[Key, Curve], world: str) -> Iterator[tuple[str, list[Curve]]]:
    """What the table has of a world: tempo, what its latencies cost alone, and the other variants."""
    for variant in variants(world):
        runs = of(curves, world, variant)
        yield variant, runs
        if variant == TEMPO:
            yield LATENCIES, [curve.of_latencies for curve in runs]


def _with_interval(value: Summary, scale: float, digits: int, unit: str = "") -> str:
    mean = f"{scale * value.mean:.{digits}f}{unit}"
    return (
        mean
        if math.isnan(value.low)
        else f"{mean} [{scale * max(value.low, 0.0):.{digits}f}, {scale * value.high:.{digits}f}]"
    )


def _exponent(value: Summary) -> str:
    mean = f"{value.mean:.2f}"
    return mean if math.isnan(value.low) else f"{mean} [{value.low:.2f}, {value.high:.2f}]"


def sentences(curves: Mapping[Key, Curve]) -> list[str]:
    """What the numbers say, in words."""
    said = [_of_world(curves, world) for world in WORLDS]
    for world, setting in WORLDS.items():
        changes = setting.scenario.changes
        if changes:
            pairs = (_per_change(of(curves, world, variant), changes) for variant in (TEMPO, SHORT))
            first, each = zip(*pairs, strict=True)
            said.append(
                f"In {_listed([world])}, each change costs as much as {each[0]:.0f} rounds without any value, and "
                f"learning everything at the start costs {first[0]:.0f}; with only the {SHORT}, a change costs "
                f"{each[1]:.0f}."
            )
    return said


def _per_change(runs: Sequence[Curve], changes: int) -> tuple[float, float]:
    """Regret before the first change, and of each change."""
    begun = at(runs, len(runs[0].regret) // (changes + 1)).mean
    return begun, (at(runs, len(runs[0].regret)).mean - begun) / changes


def apart(ours: Sequence[Curve], others: Sequence[Curve]) -> Summary:
    """Regret per round in the last half with the one variant minus that with the other, paired by seed."""
    halves = [[float(np.mean(curve.regret[len(curve.regret) // 2 :])) for curve in runs] for runs in (ours, others)]
    return paired_difference(*halves)


def _of_world(curves: Mapping[Key, Curve], world: str) -> str:
    ours, short = (of(curves, world, variant) for variant in (TEMPO, SHORT))
    chance, difference = rate(ours, "all", "random").mean, apart(short, ours)
    begin = f"**{world.capitalize()}**: {WORLDS[world].about}. In the last half of the rounds tempo loses "
    begin += f"{100 * rate(ours).mean:.2f} % a round, where a random set would lose {100 * chance:.0f} %; regret grows "
    begin += f"{ADVERBS[verdict(ours)]}. With only the {SHORT} it loses {100 * rate(short).mean:.2f} %, growing "
    begin += ADVERBS[verdict(short)]
    if difference.low > 0 or difference.high < 0:
        sign, verb = (1, "costs") if difference.low > 0 else (-1, "gains")
        ends = sorted((sign * 100 * difference.low, sign * 100 * difference.high))
        cost = f"{sign * 100 * difference.mean:.2f} [{ends[0]:.2f}, {ends[1]:.2f}] points"
        said = f"{begin}: a short memory {verb} {cost}."
    else:
        said = f"{begin}; these seeds show no difference between the two."
    return f"{said} {_of_chances(ours, of(curves, world, SOFT))}" if WORLDS[world].deadline else said


def _of_chances(runs: Sequence[Curve], soft: Sequence[Curve]) -> str:
    """Where the regret under a deadline comes from: latencies, or the chances to meet it; and what mends it."""
    given = [curve.of_latencies for curve in runs]
    return (
        f"If the probabilities of meeting the deadline were known, the estimates of latencies would cost "
        f"{100 * rate(given).mean:.2f} % a round, growing {ADVERBS[verdict(given)]}. The rest comes from these "
        "probabilities: tempo sees only that a late client took longer than the deadline, not how much longer. "
        "So it easily misjudges a client that is nearly always late, whose wait then grows until it outweighs all "
        f"others. “{SOFT}” gives such a lower bound less weight, and loses {100 * rate(soft).mean:.2f} % a round, "
        f"{apart_in_all(runs, soft)} as much in total."
    )


def apart_in_all(ours: Sequence[Curve], others: Sequence[Curve]) -> str:
    """Total regret of the others over ours, as a share."""
    last = len(ours[0].regret)
    return f"{100 * at(others, last).mean / at(ours, last).mean:.0f} %"


def _listed(names: Sequence[str]) -> str:
    quoted = [f"“{name}”" for name in names]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} and {quoted[-1]}"
