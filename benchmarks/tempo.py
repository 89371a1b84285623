"""docs/tempo.md: every piece and setting of tempo, by experiment.

    python -m benchmarks.tempo [--folder build/tempo] [--seeds 2] [--output docs/tempo.md]

Three parts: each setting halved and doubled, and each piece left out, on the development seeds of the ladder; and the
regret of its estimates in the arena (benchmarks/tempo_regret.py). The folder keeps every run, so an interrupted command
goes on where it was. `--only regret` runs the third part alone and draws its chart.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import dataclasses
import hashlib
import inspect
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr

from benchmarks import tempo_regret
from benchmarks.pictures import smaller
from benchmarks.tempo_bounds import TRIED
from enlist._internal.statistics import Summary, geometric_mean
from enlist._internal.typing import FloatArray
from enlist.arena import Scenario, World
from enlist.bandits import LogLatency, lognormal, sampling, top_k
from enlist.bandits.lognormal import SHORTEST
from enlist.clients import Clients
from enlist.contract import Choice, Request
from enlist.ladder import Leaderboard, Rung, ladder
from enlist.methods import Method
from enlist.records import Feedback, Outcome
from enlist.selectors import Tempo, tempo
from enlist.selectors.tempo import MOST, TempoSettings, TempoState

NAME = "tempo"
LABEL_COUNTS = (
    "## Label counts: an option\n\n"
    "Two variants that look at `Clients.label_counts` ran on the five rungs whose labels are skewed, with five "
    "development seeds. One multiplies the value of a set by how close its labels are to those of all clients (1 minus "
    "the Hellinger distance). It was 1.10 [1.01, 1.20] times as fast as tempo, paired by seed. On the ten published "
    "seeds it is 1.10 [1.04, 1.17] times as fast, and its final accuracy is between 0.1 points lower and 1.2 points "
    "higher. So it is kept, as a setting, `labels`. It is off by default, because label counts reveal data of single "
    "clients, while tempo needs only latencies.\n\n"
    "The other variant multiplies v_i by how rare the client's labels were in the replies of about the last ten "
    "rounds. It was 1.05 [0.96, 1.14] times as fast, which could be chance, and it is not kept.\n\n"
    "```sh\n"
    "enlist ladder --rungs label-skew,slow-holds-classes,silos,choice-skewed,fedcor --published --alone \\\n"
    "    --selectors tempo+labels=true,tempo\n"
    "```"
)
"""An experiment on its own: its numbers are not measured anew with the page."""
KEPT = """## Why tempo keeps parts that do not change the mean

The geometric mean over rungs is a single number; a default selector must not fail anywhere.

* *Loss* and *evening out* keep `users` fast and the final accuracy high: see their columns above. Without loss, tempo
  is also slower on the rung `fedcor`, where it has no lead to lose. `loss` was set to 0.5 before anything ran on
  published seeds. The small gain of 0.25 was seen afterwards, so it is left for the next version of the ladder.
* *Chance* is for clients that crash, of which only `users` has many.
* *Back-off* is for clients that are gone for good, of which no rung has any: see below.
* *Deadline* matters little on rungs whose late clients are slow anyway. It costs one line, and it is the only term that
  recognises a client that is nearly always late.
* *All replies* instead of the last four have no measurable cost, and make regret logarithmic where nothing changes: see
  below.

Constants that are not settings (the prior of eight replies, the three misses without consequences, the limits of
exponents) were not tuned and are not varied here."""
"""By hand: the numbers are those of the tables."""


class NoFeatures(Tempo):
    """Nothing is known of clients up front: their rows are the intercept alone."""

    def initial_state(self) -> TempoState:
        self.loaded()
        latency = LogLatency.of(Clients(count=len(self.clients)))
        return TempoState.create(len(self.clients), latency=latency)

    def joined(self, before: int) -> None:
        self.loaded()

    def loaded(self) -> None:
        self.rows = np.ones((len(self.clients), 1))


class NoChance(Tempo):
    """Everybody is expected to finish."""

    def forecast(self, request: Request) -> tuple[FloatArray, FloatArray, FloatArray]:
        mean, deviation, finishes = super().forecast(request)
        return mean, deviation, np.ones_like(finishes)


class NoDeadline(Tempo):
    """The chance to meet the deadline is left out."""

    def choose(self, request: Request) -> Choice:
        return super().choose(dataclasses.replace(request, deadline=math.inf))


class ExactEnd(Tempo):
    """T(S) is when the round really ends: with `enough` replies or at the deadline; u_i is the chance by then."""

    def choose(self, request: Request) -> Choice:
        mean, deviation, finishes = self.forecast(request)
        chance, value = finishes * in_time(request.deadline, mean, deviation), self.worth(request)
        sets = sampling.sets_by_time(mean + deviation, value * chance, request.k, self.rng)
        seconds, used = exact_end(mean[sets], deviation[sets], finishes[sets], request.enough, request.deadline)
        best = np.argmax((value[sets] * used).sum(axis=1) / seconds)
        return request.pick(sets[best], value=value, chance=chance, seconds=np.exp(mean))


def in_time(deadline: float, mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Chance of latencies to be within the deadline.

    >>> in_time(1.0, np.zeros(1), np.ones(1))
    array([0.5])
    """
    return np.asarray(ndtr((math.log(max(deadline, SHORTEST)) - mean) / deviation))


def exact_end(
    mean: FloatArray, deviation: FloatArray, finishes: FloatArray, enough: int, deadline: float
) -> tuple[FloatArray, FloatArray]:
    """When rounds with these sets of clients are expected to end, and the chance that each reply is used.

    A round ends when `enough` replies have come, which is expected at the time by which enough - 1/2 are, or at the
    deadline; without a deadline the server waits for everybody who does not break off.

    >>> alike = np.zeros((1, 4))
    >>> seconds, chance = exact_end(alike, alike + 0.1, alike + 1.0, 2, math.inf)
    >>> bool(seconds[0] < 1.0), chance.round(2).tolist()
    (True, [[0.38, 0.38, 0.38, 0.38]])
    """
    k, waits = mean.shape[1], math.isinf(deadline)
    limit = math.inf if waits else math.log(max(deadline, SHORTEST))
    by_deadline = finishes * ndtr((limit - mean) / deviation)
    expected = by_deadline.sum(axis=1)
    wanted = np.minimum(enough - 0.5, (expected if waits else np.full(len(mean), float(k))) - 0.5 * (expected / k))
    low, high = (mean - 4.0 * deviation).min(axis=1), (mean + 4.0 * deviation).max(axis=1)
    for _ in range(lognormal.STEPS):
        middle = 0.5 * (low + high)
        came = (finishes * ndtr((middle[:, None] - mean) / deviation)).sum(axis=1)
        low, high = np.where(came < wanted, middle, low), np.where(came < wanted, high, middle)
    by_then = finishes * ndtr((high[:, None] - mean) / deviation)
    if waits:
        return np.exp(high), by_then if enough < k else finishes
    spread = np.sqrt((by_deadline * (1.0 - by_deadline)).sum(axis=1) + 0.05)
    early = ndtr((expected - enough + 0.5) / spread)
    seconds = early * np.exp(np.minimum(high, limit)) + (1.0 - early) * deadline
    share = early[:, None]
    return seconds, share * np.minimum(by_then, by_deadline) + (1.0 - share) * by_deadline


class OneByOne(Tempo):
    """The k highest v_i u_i / seconds_i, instead of the best set."""

    def choose(self, request: Request) -> Choice:
        value = self.worth(request)
        mean, deviation, finishes = self.forecast(request)
        chance = finishes * in_time(request.deadline, mean, deviation)
        score = value * chance / np.exp(mean)
        return request.pick(top_k(score, request.k, self.rng), value=value, chance=chance, seconds=np.exp(mean))


class ShortMemory(Tempo):
    """Estimates of latencies rest on about the last four replies, changes or not."""

    def initial_state(self) -> TempoState:
        state = super().initial_state()
        state.latency.memory = 4.0
        return state


class NoBackOff(Tempo):
    """Who misses turn after turn waits no longer than the others."""

    def waited(self, request: Request) -> FloatArray:
        return np.asarray((self.round - request.of(self.state.last)) * (request.k / len(self.clients)))


class NoSpeed(Tempo):
    """All latencies are taken as equal: who has waited longest comes first."""

    def forecast(self, request: Request) -> tuple[FloatArray, FloatArray, FloatArray]:
        mean, deviation, finishes = super().forecast(request)
        return np.full_like(mean, mean.mean()), np.full_like(deviation, deviation.mean()), finishes


def _own(kind: str) -> str:
    """A class of this file, by a name under which every process finds it."""
    return f"benchmarks.tempo:{kind}"


ABLATIONS: dict[str, tuple[str, Method[Any]]] = {
    "no loss": ("losses are left out", Method(NAME, settings={"loss": 0.0})),
    "no evening out": ("the exponent of waiting stays 1", Method(NAME, settings={"patience": 1e9})),
    "no features": ("what is known about clients up front is left out", Method(_own("NoFeatures"))),
    "no chance": ("all clients are expected to finish", Method(_own("NoChance"))),
    "short memory": ("latencies are estimated from the last four replies", Method(_own("ShortMemory"))),
    "no back-off": ("misses in a row change nothing", Method(_own("NoBackOff"))),
    "no deadline": ("the chance to meet the deadline is left out", Method(_own("NoDeadline"))),
    "exact end": (
        "T(S) is when the round really ends: with enough replies, or at the deadline",
        Method(_own("ExactEnd")),
    ),
    "one by one": ("the k highest v u / seconds instead of the best set", Method(_own("OneByOne"))),
    "no speed": ("all latencies are taken as equal: oldest first", Method(_own("NoSpeed"))),
}
"""Label -> what is left out, and the method without it."""
FACTORS = (0.5, 2.0)


def sensitivity() -> dict[str, Method[Any]]:
    """Label -> tempo with one setting halved or doubled.

    >>> list(sensitivity())
    ['patience=5', 'patience=20', 'loss=0.25', 'loss=1']
    """
    usual = dataclasses.asdict(TempoSettings())
    return {
        f"{name}={factor * value:g}": Method(NAME, settings={name: factor * value})
        for name, value in usual.items()
        if not isinstance(value, bool)
        for factor in FACTORS
    }


def methods() -> dict[str, Method[Any]]:
    """Label -> everybody who is run."""
    return {NAME: Method(NAME), **sensitivity(), **{label: method for label, (_, method) in ABLATIONS.items()}}


def measure(folder: Path, seeds: int, jobs: int, rungs: Sequence[str | Rung] | None = None) -> Leaderboard:
    """All variants on the ladder's development seeds; the folder keeps what has been run."""

    def tick(rung: str, label: str, seed: int, state: Mapping[str, Any]) -> None:
        if state.get("status") == "finished":
            print(rung, label, seed, flush=True)

    return ladder(methods(), rungs, seeds=seeds, folder=folder, jobs=jobs, known=False, tick=tick)


@dataclasses.dataclass(frozen=True)
class Change:
    """What became of tempo with one thing changed.

    speed      time of tempo to the target over the variant's: per rung a geometric mean over seeds; above 1 is faster
    overall    their geometric mean, with its 95 % interval over rungs
    speed_up   geometric mean over rungs of the time of random over the variant's
    accuracy   final accuracy minus tempo's, mean over rungs
    """

    label: str
    speed: dict[str, float]
    overall: Summary
    speed_up: float
    accuracy: float

    @property
    def worst(self) -> str:
        """The rung on which it loses most."""
        return min(self.speed, key=lambda rung: self.speed[rung])

    @property
    def effect(self) -> str:
        """costs, gains, or neither, if the interval includes no change."""
        return "costs" if self.overall.high < 1.0 else "gains" if self.overall.low > 1.0 else ""


def changes(board: Leaderboard) -> dict[str, Change]:
    """Label -> what the change came to, for everybody but random, tempo first; who failed everywhere is left out."""
    rows = {(row["rung"], row["selector"], row["seed"]): row for row in board.results}
    found = {}
    for label in methods():
        pairs: dict[str, list[tuple[Mapping[str, Any], Mapping[str, Any]]]] = {}
        for (rung, name, seed), row in rows.items():
            if name == label and (rung, NAME, seed) in rows:
                pairs.setdefault(rung, []).append((rows[rung, NAME, seed], row))
        if not pairs:
            continue
        speed = {
            rung: geometric_mean([ours["seconds"] / theirs["seconds"] for ours, theirs in both]).mean
            for rung, both in pairs.items()
        }
        random = [
            geometric_mean([rows[rung, "random", row["seed"]]["seconds"] / row["seconds"] for _, row in both]).mean
            for rung, both in pairs.items()
        ]
        accuracy = [float(np.mean([row["final"] - ours["final"] for ours, row in both])) for both in pairs.values()]
        found[label] = Change(
            label,
            speed,
            geometric_mean(list(speed.values())),
            geometric_mean(random).mean,
            float(np.mean(accuracy)),
        )
    return found


def percent(ratio: float) -> str:
    """A ratio as a change.

    >>> percent(0.9), percent(1.034)
    ('-10.0 %', '+3.4 %')
    """
    return f"{100.0 * (ratio - 1.0):+.1f} %"


def table(lines: Sequence[Sequence[str]]) -> str:
    """Markdown; the first line is the header."""
    rule = ["---"] * len(lines[0])
    return "\n".join(f"| {' | '.join(line)} |" for line in (lines[0], rule, *lines[1:]))


def overview(found: Mapping[str, Change], labels: Sequence[str]) -> str:
    """A line per variant over all rungs."""
    head = ["", "speed-up", "against tempo", "95 % interval", "loses most on", "there", "accuracy"]
    lines = [head]
    for label in (NAME, *labels):
        if label not in found:
            continue
        one = found[label]
        ends = (
            "–"
            if math.isnan(one.overall.low) or label == NAME
            else f"{percent(one.overall.low)} to {percent(one.overall.high)}"
        )
        against = ["–", ends, "–", "–", "–"]
        if label != NAME:
            points = f"{100.0 * one.accuracy:+.1f} points"
            against = [percent(one.overall.mean), ends, one.worst, percent(one.speed[one.worst]), points]
        lines.append([label, f"{one.speed_up:.2f}", *against])
    return table(lines)


def by_rung(found: Mapping[str, Change]) -> str:
    """Ablations in columns, rungs in lines: speed against tempo."""
    labels = [label for label in ABLATIONS if label in found]
    rungs = list(found[NAME].speed)
    lines = [["rung", *labels]]
    for rung in rungs:
        speeds = [found[label].speed.get(rung) for label in labels]
        lines.append([rung, *("–" if speed is None else percent(speed) for speed in speeds)])
    return table([*lines, ["all rungs", *(percent(found[label].overall.mean) for label in labels)]])


def what_follows(found: Mapping[str, Change], labels: Sequence[str], kind: str) -> list[str]:
    """Sentences that the numbers say: who costs, who gains, and of whom it cannot be told."""
    known = [found[label] for label in labels if label in found]
    said = []
    ranked = sorted(known, key=lambda one: one.overall.mean)
    for effect, verb, there in (("costs", "costs", "most"), ("gains", "would gain", "least")):
        members = [one for one in ranked if one.effect == effect]
        if members:
            shown = [
                f"“{one.label}” {verb} {abs(100.0 * (one.overall.mean - 1.0)):.1f} % ({there} on {one.worst}, "
                f"{percent(one.speed[one.worst])})"
                for one in members
            ]
            said.append(f"Intervals that exclude 0: {'; '.join(shown)}.")
    unsure = [one for one in ranked if not one.effect]
    if unsure:
        shown = [f"“{one.label}” ({percent(one.overall.mean)})" for one in unsure]
        said.append(f"No difference from tempo can be shown with these rungs and seeds: {', '.join(shown)}.")
    if known and kind == "settings":
        most = max(known, key=lambda one: abs(math.log(one.overall.mean)))
        said.append(
            f"Halving or doubling a setting changes the speed-up by at most {abs(100 * (most.overall.mean - 1)):.1f} %"
            f" (“{most.label}”)."
        )
    return said


def introduction() -> str:
    """What tempo is, in ten lines."""
    usual = TempoSettings()
    return f"""# Tempo

`python -m benchmarks.tempo` writes this page. Its numbers, and the statements about them, come from runs.

In every round tempo selects the set S of k clients with the highest value per second: it maximises sum v_i u_i / T(S).

* v_i is the value of a reply. It grows with the turns that the client has waited, as w_i^a, and with its loss relative
  to that of the others, to the power `loss`, {usual.loss:g}.
* The exponent a is 1 + (t / `patience`)^2, at most {MOST:g}, where t is the mean number of turns of a client so far and
  `patience` is {usual.patience:g}: at first speed decides; later, shares become even.
* A client that misses more than three turns in a row backs off: each further miss halves what it has waited.
* u_i is the probability that the client finishes, and by the deadline if there is one.
* T(S) is the time at which all clients of S that finish are expected to have replied, even if the round may end before.
* Latencies are log-normal. They are learned per client and, if features are informative, across clients. All replies
  count until a client changes. A missing reply counts as later than the time waited.
* The best set is found in one pass over the clients, ordered by latency.
"""


def page(board: Leaderboard, curves: Mapping[tempo_regret.Key, tempo_regret.Curve], image: str) -> str:
    """The whole page."""
    found = changes(board)
    settings, pieces = list(sensitivity()), list(ABLATIONS)
    left_out = "\n".join(f"* {label}: {about};" for label, (about, _) in ABLATIONS.items())[:-1] + "."
    failed = "".join(f"\n\n{len(board.failed)} runs failed and are left out." if board.failed else "")
    return "\n\n".join(
        [
            introduction().strip(),
            "## How it was measured",
            f"On {len(board.rungs)} rungs of the ladder with {board.seeds} development seeds each. *Speed-up* is the "
            "virtual time of random to the target divided by that of the variant, geometric mean over rungs. *Against "
            "tempo* is the same with tempo instead of random, paired by rung and seed; its interval is over rungs. "
            "*Accuracy* is the final accuracy minus tempo's. A run that never reaches the target counts with its whole "
            f"budget.{failed}",
            "## Each setting halved and doubled",
            overview(found, settings),
            *what_follows(found, settings, "settings"),
            LABEL_COUNTS,
            "## Each part left out",
            left_out,
            overview(found, pieces),
            "Against tempo, rung by rung:",
            by_rung(found),
            "## What follows",
            *what_follows(found, pieces, "pieces"),
            KEPT,
            gone_section(),
            regret_section(curves, image),
        ]
    )


def selected_but_gone(kind: type[Tempo], seed: int, rounds: int = 400) -> float:
    """Share of all selections, in the last half of the rounds, of the tenth of the clients that never replies."""
    world = World(Scenario(latency="lognormal"), tempo_regret.CLIENTS, rounds, seed)
    gone = np.random.default_rng((seed, 9)).permutation(world.count) < world.count // 10
    selector = kind(world.clients(), seed=seed)
    vain = []
    for number in range(1, rounds + 1):
        picked = selector.ask(k=tempo_regret.K)
        lost = gone[picked.clients]
        latency = np.where(lost, np.nan, world.latency(number)[picked.clients])
        outcome = np.where(lost, Outcome.DROPPED, Outcome.COMPLETED)
        selector.tell(picked, Feedback(outcome=outcome, latency=latency))
        vain.append(lost.mean())
    return float(np.mean(vain[rounds // 2 :]))


def gone_section(seeds: int = 10) -> str:
    """The part about clients that are gone, of which the rungs have too few to tell."""
    kinds: dict[str, type[Tempo]] = {"tempo": Tempo, "no back-off": NoBackOff, "no chance": NoChance}
    found = {label: [selected_but_gone(kind, seed) for seed in range(seeds)] for label, kind in kinds.items()}
    shares = {label: Summary.of(values) for label, values in found.items()}
    lines = [
        [label, f"{100 * share.mean:.2f} % [{100 * max(share.low, 0.0):.2f}, {100 * share.high:.2f}]"]
        for label, share in shares.items()
    ]
    return "\n\n".join(
        [
            "## Clients that are gone",
            "On the rungs, hardly any client misses four turns in a row, so the rungs say nothing about backing off. "
            f"In federations that run for weeks, devices disappear for good. In a world of the arena where a tenth of "
            f"{tempo_regret.CLIENTS} clients never replies, they get this share of all selections in the "
            f"last half of 400 rounds ({seeds} seeds; their even share would be 10 %):",
            table([["", "selected but gone"], *lines]),
        ]
    )


def regret_section(curves: Mapping[tempo_regret.Key, tempo_regret.Curve], image: str) -> str:
    """The part about the regret of estimates."""
    rounds = len(next(iter(curves.values())).regret)
    seeds = len({seed for _, _, seed in curves})
    return "\n\n".join(
        [
            "## The regret of its estimates",
            f"In worlds of the arena ({tempo_regret.CLIENTS} clients, {tempo_regret.K} replies a round, {rounds} "
            f"rounds, {seeds} seeds) everything is known: how long each client takes, by how much that varies (20 % "
            "from round to round), and how often it drops out (up to one reply in five is lost). In every round, the "
            "set that tempo chose is compared with the best set, which the same solver finds from the true values "
            "instead of estimates. Both sets have a value per second, by tempo's own v. Regret is 1 minus the ratio "
            "of the two, summed over rounds: a regret of 10 means a loss as large as ten rounds without any value. "
            f"“{tempo_regret.LATENCIES}” is the regret of the set that tempo would have chosen with the true "
            "probabilities of finishing in time: the cost of its estimates of latencies alone.",
            f"![Cumulated regret]({image})",
            table(tempo_regret.table(curves)),
            "Brackets are 95 % intervals over seeds. The exponent p is that of regret that grows like t^p, taken from "
            "its last two doublings: log2 of (R(n) − R(n/2)) / (R(n/2) − R(n/4)), 0 for c ln t and 1 for c t. Growth "
            "is called linear if the interval of the exponent contains 1 and not 0, logarithmic if it contains 0 or "
            "less and not 1, between if it lies between the two, faster if it lies above 1, and unclear if it "
            "contains both.",
            *tempo_regret.sentences(curves),
            TRIED,
        ]
    )


def draw(curves: Mapping[tempo_regret.Key, tempo_regret.Curve], stem: Path) -> Path:
    """Write the chart of regret as a PNG."""
    from enlist.report.charts import save

    stem.parent.mkdir(parents=True, exist_ok=True)
    [picture] = save(tempo_regret.chart(curves), stem, [".png"])
    picture.write_bytes(smaller(picture.read_bytes()))
    return picture


def source_digest() -> str:
    """Of the code that decides on regret: curves of other code are not taken for those of this one."""
    sources = (inspect.getsource(module) for module in (tempo, lognormal, sampling, tempo_regret))
    return hashlib.sha256("".join(sources).encode()).hexdigest()[:12]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("build/tempo"), help="where runs are kept")
    parser.add_argument("--seeds", type=int, default=2, help="development seeds of the ladder, at most 5")
    parser.add_argument("--output", type=Path, help="the page; the chart is put beside it")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("--only", choices=["regret"], help="leave the ladder out, and write the chart alone")
    options = parser.parse_args(arguments)
    curves = tempo_regret.gather(options.folder / f"regret-{source_digest()}.jsonl", options.jobs)
    stem = (options.output or options.folder / "tempo.md").with_suffix("")
    picture = draw(curves, stem.with_name(f"{stem.name}-regret"))
    if options.only:
        print(regret_section(curves, picture.name))
        return
    board = measure(options.folder / "ladder", options.seeds, options.jobs)
    text = page(board, curves, picture.name) + "\n"
    if options.output:
        options.output.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
