"""benchmarks/tempo.py: variants leave out what they say, the page follows the numbers, and regret flattens or not."""

from __future__ import annotations

import copy
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import enlist
from benchmarks import tempo, tempo_regret
from benchmarks.tempo_bounds import BoundedLatency
from benchmarks.tempo_regret import Curve, Watched
from enlist import Clients, Feedback, Outcome, Request
from enlist.contract import Selector
from enlist.ladder import Leaderboard, Rung
from enlist.ladder.results import COLUMNS
from enlist.selectors import Tempo
from enlist.simulation import Config

SECONDS = np.array([1.0, 1.0, 1.0, 2.0, 8.0, 8.0, 8.0, 8.0])


def make(label: str, clients: Clients | None = None) -> Tempo:
    selector: Any = enlist.create(tempo.methods()[label], clients or Clients(count=8), seed=1)
    return selector


def told(selector: Tempo, rounds: int = 12, lost: tuple[int, ...] = ()) -> Tempo:
    for _ in range(rounds):
        picked = selector.ask(k=3)
        gone = np.isin(picked.clients, lost)
        outcome = np.where(gone, Outcome.DROPPED, Outcome.COMPLETED)
        latency = np.where(gone, np.nan, SECONDS[picked.clients])
        selector.tell(picked, Feedback(outcome=outcome, latency=latency, loss=np.where(gone, np.nan, SECONDS[-3:])))
    return selector


def request(selector: Selector[Any, Any], **others: Any) -> Request:
    return Request(selector.round, np.arange(8), 3, 8, **others)


def test_every_variant_is_found_by_every_process_and_differs_in_one_thing() -> None:
    for label, method in tempo.methods().items():
        selector = make(label)
        assert isinstance(selector, Tempo)
        assert (type(selector) is Tempo) == (method.name == "tempo")
        assert len(method.settings) <= 1
    assert make("loss=1").settings.loss == 1.0
    assert make("short memory").state.latency.memory == 4.0
    assert make("no loss").settings.loss == 0.0
    assert make("no evening out").settings.patience == 1e9


def test_pieces_are_left_out() -> None:
    features = Clients(num_examples=np.arange(1, 9), features=1.0 / SECONDS[:, None])
    assert make("tempo", features).rows.shape == (8, 3)
    blind = make("no features", features)
    assert (blind.rows == np.ones((8, 1))).all()
    blind.join(Clients(num_examples=[9], features=[[1.0]]))
    assert blind.rows.shape == (9, 1)
    assert told(make("no features"), lost=(0,)).forecast(request(blind))[2].min() < 1.0

    hopeful = told(make("no chance"), lost=(0,))
    assert (hopeful.forecast(request(hopeful))[2] == 1.0).all()

    even = told(make("no speed"))
    mean, deviation, _ = even.forecast(request(even))
    assert np.ptp(mean) == np.ptp(deviation) == 0.0
    even.state.last[:] = [9, 9, 9, 9, 9, 3, 2, 1]
    even.state.loss[:] = np.nan
    assert even.ask(k=3).clients.tolist() == [5, 6, 7]  # those who have waited longest, though slowest


def test_one_by_one_takes_the_highest_ratios() -> None:
    selector = told(make("one by one"))
    selector.state.last[:] = [11, 10, 9, 8, 7, 6, 5, 4]  # no two of the fast ones alike
    selector.round += 1
    asked = request(selector)
    mean, _, finishes = selector.forecast(asked)
    best = np.argsort(-selector.worth(asked) * finishes / np.exp(mean))[:3]
    selector.round -= 1
    assert selector.ask(k=3).clients.tolist() == sorted(best.tolist())


def test_without_the_deadline_slow_clients_look_as_good_as_ever() -> None:
    ours, blind = told(make("tempo")), told(make("no deadline"))
    assert ours.ask(k=3).clients.tolist() == blind.ask(k=3).clients.tolist()
    for selector in (ours, blind):
        selector.state.last[:] = [399, 399, 399, 399, 0, 0, 0, 0]
        selector.round = 400
    assert (ours.ask(k=3, deadline=1.5).clients < 4).all()
    assert (blind.ask(k=3, deadline=1.5).clients >= 4).any()


@pytest.mark.parametrize(
    ("enough", "deadline", "finishing"),
    [(10, math.inf, 1.0), (7, math.inf, 1.0), (10, math.inf, 0.8), (10, 0.3, 1.0), (10, 1.5, 1.0), (7, 2.5, 0.9)],
)
def test_the_exact_end_of_a_round_against_monte_carlo(enough: int, deadline: float, finishing: float) -> None:
    mean, deviation, finishes = np.linspace(-0.6, 0.9, 10), np.full(10, 0.3), np.full(10, finishing)
    seconds, used = tempo.exact_end(mean[None], deviation[None], finishes[None], enough, deadline)
    rng = np.random.default_rng(0)
    replies = np.exp(mean + deviation * rng.standard_normal((40_000, 10)))
    replies[rng.uniform(size=replies.shape) >= finishing] = np.inf
    ordered = np.sort(replies, axis=1)
    last = np.where(np.isfinite(ordered), ordered, 0.0).max(axis=1)  # with no deadline, of those who do not break off
    ends = np.minimum(ordered[:, enough - 1], last if math.isinf(deadline) else deadline)
    share = (replies <= ends[:, None]).mean(axis=0)
    # A mean number of replies stands for their distribution, and the reply that makes it enough counts by half.
    assert seconds[0] == pytest.approx(ends.mean(), rel=0.08)
    assert used[0].sum() == pytest.approx(share.sum(), abs=0.55)


def row(rung: str, selector: str, seed: int, seconds: float) -> dict[str, Any]:
    given = {"rung": rung, "selector": selector, "seed": seed, "data": "digits", "seconds": seconds, "rounds": 9}
    return dict.fromkeys(COLUMNS, 0.5) | given | {"reached": 1}


def board() -> Leaderboard:
    """Three rungs: “no speed” takes twice as long, “loss=1” half as long, others differ by 1 % either way."""
    rows = []
    for number, rung in enumerate(("one", "two", "three")):
        for seed in (0, 1):
            took = 100.0 + 10.0 * number + seed
            rows.append(row(rung, "random", seed, 2.0 * took))
            for label in tempo.methods():
                factor = {"tempo": 1.0, "no speed": 2.0 + 0.1 * number, "loss=1": 0.5}.get(label, 1.01 - 0.01 * number)
                rows.append(row(rung, label, seed, factor * took))
    return Leaderboard(rows)


def test_changes_by_hand() -> None:
    found = tempo.changes(board())
    assert found["tempo"].overall.mean == pytest.approx(1.0)
    assert found["tempo"].speed_up == pytest.approx(2.0)
    slower = found["no speed"]
    assert slower.speed == pytest.approx({"one": 1 / 2.0, "two": 1 / 2.1, "three": 1 / 2.2})
    assert slower.overall.mean == pytest.approx((2.0 * 2.1 * 2.2) ** (-1 / 3))
    assert (slower.worst, slower.effect) == ("three", "costs")
    assert found["loss=1"].effect == "gains"
    assert found["no loss"].effect == ""


def test_what_the_page_says_follows_the_numbers() -> None:
    found = tempo.changes(board())
    said = " ".join(tempo.what_follows(found, list(tempo.ABLATIONS), "pieces"))
    assert "“no speed” costs 52.3 % (most on three, -54.5 %)" in said
    assert "can be shown with these rungs and seeds: “no loss”" in said
    said = " ".join(tempo.what_follows(found, list(tempo.sensitivity()), "settings"))
    assert "“loss=1” would gain 100.0 % (least on " in said
    assert "at most 100.0 % (“loss=1”)" in said


def flat(per_round: float, noise: float = 0.0, seeds: int = 3, rounds: int = 64) -> list[Curve]:
    rng = np.random.default_rng(1)
    return [
        Curve((per_round * (1.0 + noise * rng.uniform(size=rounds))).tolist(), [0.8] * rounds, [0.001] * rounds)
        for _ in range(seeds)
    ]


def test_growth_by_hand() -> None:
    assert tempo_regret.growth(flat(0.1)).mean == pytest.approx(1.0)
    assert tempo_regret.verdict(flat(0.1)) == "linear"
    harmonic = [Curve([1.0 / number for number in range(1, 1601)], [1.0], [0.0]) for _ in range(3)]
    assert tempo_regret.growth(harmonic).mean == pytest.approx(0.0, abs=0.01)
    assert tempo_regret.verdict(harmonic) == "logarithmic"
    root = [Curve(np.diff(np.sqrt(np.arange(1601))).tolist(), [1.0], [0.0]) for _ in range(3)]
    assert tempo_regret.growth(root).mean == pytest.approx(0.5)
    assert tempo_regret.verdict(root) == "between"


@pytest.mark.verify
def test_the_whole_page_from_the_ladder_and_back(tmp_path: Path) -> None:
    """Every variant on a tiny rung; a second call runs nothing again and gives the same page."""
    config = Config(
        data={"clients": 10, "partition": "iid"},
        devices={"kind": "phones"},
        model={"name": "mlp", "hidden": [6]},
        rounds={"rounds": 3, "k": 3, "over_commit": 1.4, "deadline": 30.0, "seconds": 1000.0},
        evaluation={"every": 1},
    )
    rungs = [Rung("tiny", "Next to nothing.", config)]
    curves = {
        (world, variant, seed): flat(0.01 * (1 + seed), 0.3)[0]
        for world in tempo_regret.WORLDS
        for variant in tempo_regret.variants(world)
        for seed in range(2)
    }
    first = tempo.page(tempo.measure(tmp_path / "ladder", 1, 1, rungs), curves, "chart.png")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    assert len(before) == 1 + len(tempo.methods())
    again = tempo.page(tempo.measure(tmp_path / "ladder", 1, 1, rungs), curves, "chart.png")
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("result.json")}
    assert again == first
    for label in tempo.methods():
        assert f"| {label} |" in first
    assert "| tiny |" in first
    assert "![Cumulated regret](chart.png)" in first
    assert "nan" not in first
    picture = tempo.draw(curves, tmp_path / "chart")
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert picture.stat().st_size < 200 * 1024


def test_the_watched_tempo_chooses_as_tempo_does() -> None:
    setting = tempo_regret.WORLDS["no features"]
    world = enlist.arena.World(setting.scenario, 40, 30, seed=2)
    watched = Watched(world.clients(), seed=3).watch_over(world, 3)
    plain = enlist.create("tempo", world.clients(), seed=3)
    for number in range(1, 31):
        chosen = [selector.ask(k=10, enough=10) for selector in (watched, plain)]
        assert chosen[0].clients.tolist() == chosen[1].clients.tolist()
        for selector, picked in zip((watched, plain), chosen, strict=True):
            selector.tell(picked, tempo_regret.happened(world, number, picked.clients, math.inf))
    assert len(watched.lost.regret) == 30
    assert 0.0 <= min(watched.lost.regret) <= max(watched.lost.regret) < 1.0


def test_a_genie_has_no_regret() -> None:
    rng = np.random.default_rng(4)
    mean, sure = rng.normal(size=12), np.full(12, 0.1)
    asked = Request(1, np.arange(12), 3, 12)
    everybody = [np.array(each) for each in ([0, 1, 2], [3, 4, 5], np.argsort(mean)[:3])]
    lost = tempo_regret.losses(asked, np.ones(12), (mean, sure, np.ones(12)), everybody, rng)
    assert lost[2] == pytest.approx(0.0, abs=1e-9)  # all are worth the same: the fastest three
    assert min(lost[:2]) > 0.1


def test_backing_off_spares_turns_for_those_who_are_there() -> None:
    with_it, without = (tempo.selected_but_gone(kind, 0, 120) for kind in (enlist.selectors.Tempo, tempo.NoBackOff))
    assert 0.0 < with_it < 0.7 * without < 0.2


@pytest.mark.verify
def test_latencies_cost_less_than_latencies_and_chances_together() -> None:
    """Under a deadline some clients are hardly ever in time, and how hardly is what tempo cannot see."""
    curve = tempo_regret.run(("deadline", tempo_regret.TEMPO, 0), 400)
    assert len(curve.latencies) == 400
    assert sum(curve.latencies[200:]) < 0.5 * sum(curve.regret[200:])
    assert curve.of_latencies.regret == curve.latencies


@pytest.mark.verify
def test_regret_is_small_and_a_short_memory_makes_it_larger() -> None:
    """The experiment of docs/tempo.md in small: 400 rounds, two seeds."""
    runs = {
        variant: [tempo_regret.run(("no features", variant, seed), 400) for seed in range(2)]
        for variant in tempo_regret.variants("no features")
    }
    ours, short = (tempo_regret.rate(curves).mean for curves in runs.values())
    chance = tempo_regret.rate(runs[tempo_regret.TEMPO], "all", "random").mean
    assert chance > 0.7
    assert ours < short < 0.03 < 0.1 * chance
    first = np.mean([np.mean(curve.regret[:40]) for curve in runs[tempo_regret.TEMPO]])
    assert ours < 0.1 * first


def test_a_bound_narrows_the_belief_by_what_it_tells() -> None:
    """Against the true posterior by quadrature: mean and variance of m given that m + noise is above the bound."""
    clients = Clients(count=1)
    latency = BoundedLatency.of(clients)
    rows = latency.rows(clients)
    latency.observe(rows, np.array([0]), np.array([1.0]))
    mean, deviation = latency.predict(rows)
    variance = deviation[0] ** 2 - latency.within
    for bound in (0.5, 1.0, 1.4):  # further off it would be a change
        trial = copy.deepcopy(latency)
        trial.outlast(rows, np.array([0]), np.array([bound]))
        values = np.linspace(mean[0] - 8.0 * math.sqrt(variance), mean[0] + 8.0 * math.sqrt(variance), 20_001)
        density = norm.pdf(values, mean[0], math.sqrt(variance)) * norm.sf(bound, values, math.sqrt(latency.within))
        density /= density.sum()
        expected = float((density * values).sum())
        after, wide = trial.predict(rows)
        assert after[0] == pytest.approx(expected, abs=1e-6)
        assert wide[0] ** 2 - latency.within == pytest.approx(
            float((density * (values - expected) ** 2).sum()), rel=1e-4
        )


def test_ten_bounds_tell_less_than_ten_latencies_and_a_true_one_that_comes_later_is_a_reply() -> None:
    selector: Any = enlist.create("benchmarks.tempo_bounds:SoftBounds", Clients(count=2), seed=1)
    for _ in range(10):
        picked = selector.ask(k=2, deadline=5.0)
        late = np.where(picked.clients == 1, Outcome.LATE, Outcome.COMPLETED)
        selector.tell(picked, Feedback(outcome=late, latency=np.where(picked.clients == 1, 5.0, 2.0)))
    quick, late_one = selector.state.latency.weight.tolist()
    assert quick == 10.0
    assert 0.0 < late_one < 2.0
    arrived = Feedback(clients=[1], outcome=[Outcome.ARRIVED], latency=[9.0], rounds_late=[1])
    selector.tell(picked, arrived)
    assert selector.state.latency.weight[1] == pytest.approx(late_one + 1.0)
