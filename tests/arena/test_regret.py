"""Regret: hand-computed cases, never negative, and zero for the genie (sections D.4.5, D.4.6 and F)."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import enlist
from enlist.arena import BSFLReward, Genie, Match, Regret, Rules, Scenario, Truth, World, make, play


class Known(World):
    """A world whose truth is written down."""

    def __init__(self, speed, validity=None, utility=None, sizes=None):
        super().__init__(Scenario(), len(speed), 100, seed=0)
        ones = np.ones(len(speed))
        self.known = Truth(
            latency=self.shortest / np.asarray(speed, float),
            spread=0.0 * ones,
            speed=np.asarray(speed, float),
            validity=ones if validity is None else np.asarray(validity, float),
            utility=ones if utility is None else np.asarray(utility, float),
        )
        if sizes is not None:
            self.num_examples = np.asarray(sizes, float)

    def truth(self, round):
        return self.known


FOUR = [0.9, 0.8, 0.5, 0.1]


def losses(world, chosen, selected, round, k=2, available=None, reward=None, latency=None):
    chosen = np.asarray(chosen, dtype=int)
    available = np.arange(world.count) if available is None else np.asarray(available)
    latency = world.known.latency[chosen] if latency is None else np.asarray(latency)
    return Regret(world, reward or BSFLReward(), k).of(round, available, chosen, np.asarray(selected), latency)


# Reward


def test_generalisation_by_hand():
    # Round 4, k/n = 1/2; shares so far 3/4, 2/4, 1/4, 0: lags -1/4, 0, 1/4, 1/2.
    selected, sizes = np.array([3, 2, 1, 0]), np.ones(4)
    printed = BSFLReward(normalised=False).generalisation(selected, 4, 2, sizes)
    assert printed == pytest.approx([-0.25, 0.0, 0.25, 0.5])
    assert BSFLReward().generalisation(selected, 4, 2, sizes) == pytest.approx([-0.5, 0.0, 0.5, 1.0])
    squared = BSFLReward(normalised=False, beta=2.0).generalisation(selected, 4, 2, sizes)
    assert squared == pytest.approx([-0.0625, 0.0, 0.0625, 0.25])
    # Selected in every one of 3 rounds before round 3 of 1 in 4: lag (1/4 - 1) / (1/4) = -3, cut to -1.
    assert BSFLReward().generalisation(np.array([3, 0, 0, 0]), 3, 1, sizes).tolist() == [-1.0, 1.0, 1.0, 1.0]
    assert BSFLReward(normalised=False).generalisation(np.array([3, 0, 0, 0]), 3, 1, sizes)[0] == pytest.approx(-0.75)
    # More wanted than there are: a share is at most 1.
    assert BSFLReward(normalised=False).generalisation(np.zeros(2), 1, 5, np.ones(2)).tolist() == [1.0, 1.0]


def test_targets_by_size_are_capped_by_filling_up():
    # D.4.4: sizes 6, 1, 1 and k = 2: the first takes a share of 1, the others the remaining 1 in equal parts.
    reward = BSFLReward(normalised=False, by_size=True)
    assert reward.generalisation(np.zeros(3), 1, 2, np.array([6.0, 1.0, 1.0])) == pytest.approx([1.0, 0.5, 0.5])
    assert reward.generalisation(np.zeros(3), 1, 2, np.array([2.0, 1.0, 1.0])) == pytest.approx([1.0, 0.5, 0.5])
    assert reward.generalisation(np.zeros(4), 1, 1, np.array([4.0, 3.0, 2.0, 1.0])) == pytest.approx(
        [0.4, 0.3, 0.2, 0.1]
    )
    lags = BSFLReward(by_size=True).generalisation(np.array([1, 0, 0]), 2, 2, np.array([6.0, 1.0, 1.0]))
    assert lags == pytest.approx([0.5, 1.0, 1.0])


def test_targets_by_size_as_printed():
    # Eq. 4: sizes 6, 1, 1 and k = 2: 2 * 6/8 = 1.5, 1/4, 1/4. In round 2, selected once each: - 1/2.
    reward = BSFLReward(normalised=False, by_size=True, capped=False)
    sizes = np.array([6.0, 1.0, 1.0])
    assert reward.generalisation(np.zeros(3), 1, 2, sizes) == pytest.approx([1.5, 0.25, 0.25])
    assert reward.generalisation(np.ones(3), 2, 2, sizes) == pytest.approx([1.0, -0.25, -0.25])
    assert reward.generalisation(np.zeros(3), 1, 2, np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_the_reward_of_a_set_by_hand():
    speed, lag = np.array(FOUR), np.array([-0.2, 0.1, 0.4, 0.45])
    assert BSFLReward(alpha=2.0).value(speed, lag, np.array([1, 2]), 2) == pytest.approx(0.5 + 0.5)
    assert BSFLReward(alpha=0.0).value(speed, lag, np.array([0, 3]), 2) == pytest.approx(0.1)
    assert BSFLReward().value(speed, lag, np.zeros(0, int), 2) == 0.0
    # The vector of section D.1.
    best = BSFLReward(alpha=2.0).best(speed, lag, np.arange(4), 2, np.random.default_rng(0))
    assert best.tolist() == [1, 2]
    best = BSFLReward(alpha=2.0).best(speed, lag, np.array([0, 1, 3]), 2, np.random.default_rng(0))
    assert best.tolist() == [0, 1], "0.8 - 0.1 = 0.7 against 0.1 + 0.25 and 0.1 + 0.55"


# Pseudo-regret


def test_regret_of_four_clients_by_hand():
    # Round 4, k = 2 of 4: normalised lags -0.5, 0, 0.5, 1. Values of the pairs: speed of the slower + (sum of lags) / 2
    #   01: 0.8 - 0.25   02: 0.5 + 0   03: 0.1 + 0.25   12: 0.5 + 0.25   13: 0.1 + 0.5   23: 0.1 + 0.75 = 0.85 is best
    world, selected = Known(FOUR), [3, 2, 1, 0]
    values = {(0, 1): 0.55, (0, 2): 0.5, (0, 3): 0.35, (1, 2): 0.75, (1, 3): 0.6, (2, 3): 0.85}
    for pair, value in values.items():
        found = losses(world, pair, selected, round=4)
        assert found["expected"] == pytest.approx(value), pair
        assert found["pseudo"] == pytest.approx(0.85 - value), pair
        assert found["printed"] == pytest.approx(0.85 - value), "latencies at their means give the same"
    # Client 3 is away: the best is {1, 2}.
    assert losses(world, [0, 1], selected, 4, available=[0, 1, 2])["pseudo"] == pytest.approx(0.75 - 0.55)
    # alpha = 0: the two fastest.
    assert losses(world, [1, 2], selected, 4, reward=BSFLReward(alpha=0.0))["pseudo"] == pytest.approx(0.8 - 0.5)
    # As printed, lags -1/4, 0, 1/4, 1/2: {0, 1} gives 0.8 - 0.125, {1, 2} 0.5 + 0.125, {2, 3} 0.1 + 0.375.
    assert losses(world, [2, 3], selected, 4, reward=BSFLReward(normalised=False))["pseudo"] == pytest.approx(
        0.675 - 0.475
    )
    # By size 3:1:1:1 at k = 2, targets 1, 1/3, 1/3, 1/3: lags 1/4, -1/2, 1/4, 1 -> {0, 2} 0.75, {0, 3} 0.725.
    sized = Known(FOUR, sizes=[3, 1, 1, 1])
    found = losses(sized, [0, 3], selected, 4, reward=BSFLReward(by_size=True))
    assert found["pseudo"] == pytest.approx(0.75 - 0.725)


def test_printed_regret_uses_what_happened():
    world = Known(FOUR)
    # Shortest 0.05: latencies 0.5 and 0.1 are speeds 0.1 and 0.5; past the deadline counts as the deadline.
    found = losses(world, [2, 3], [3, 2, 1, 0], round=4, latency=[0.1, 0.25])
    assert found["printed"] == pytest.approx(0.85 - (0.2 + 0.75))
    assert found["pseudo"] == pytest.approx(0.0)
    found = losses(world, [2, 3], [3, 2, 1, 0], round=4, latency=[0.1, 7.0])
    assert found["printed"] == pytest.approx(0.85 - (0.05 + 0.75))


def test_nobody_available_costs_nothing_and_choosing_nobody_does():
    world = Known(FOUR, validity=FOUR, utility=FOUR)
    assert set(losses(world, [], [0] * 4, 1, available=np.zeros(0, int)).values()) == {0.0}
    found = losses(world, np.zeros(0, int), [0] * 4, 1)
    assert found["expected"] == 0.0
    assert found["pseudo"] == pytest.approx(0.8 + 1.0)
    assert found["hypervolume"] == pytest.approx(0.81)


@st.composite
def situations(draw):
    count = draw(st.integers(1, 7))
    unit = st.floats(0.05, 1.0)
    numbers = st.lists(unit, min_size=count, max_size=count)
    round = draw(st.integers(1, 40))
    selected = draw(st.lists(st.integers(0, round - 1), min_size=count, max_size=count))
    available = [i for i in range(count) if draw(st.booleans())] or [0]
    k = draw(st.integers(1, count))
    chosen = sorted(draw(st.permutations(available))[: min(k, len(available))])
    reward = BSFLReward(
        alpha=draw(st.sampled_from([0.0, 0.3, 1.0, 20.0])),
        beta=draw(st.sampled_from([1.0, 2.0, 3.0])),
        normalised=draw(st.booleans()),
        by_size=draw(st.booleans()),
    )
    world = Known(draw(numbers), draw(numbers), draw(numbers), sizes=draw(numbers))
    return world, reward, round, selected, available, k, chosen


@given(situations())
@settings(deadline=None, max_examples=300)
def test_regret_is_never_negative_and_measured_against_the_best_set(situation):
    world, reward, round, selected, available, k, chosen = situation
    found = losses(world, chosen, selected, round, k, available, reward)
    assert found["pseudo"] >= -1e-12
    assert found["front"] >= found["hypervolume"] - 1e-12 >= -2e-12
    size = min(k, len(available))
    lag = reward.generalisation(np.array(selected), round, k, world.num_examples)
    value = max(reward.value(world.known.speed, lag, np.array(s), k) for s in itertools.combinations(available, size))
    assert found["pseudo"] + found["expected"] == pytest.approx(value)
    area = max(union(world.known, subset) for subset in itertools.combinations(available, size))
    assert found["hypervolume"] + union(world.known, chosen) == pytest.approx(area)


def union(truth, chosen):
    """Area of the union of [0, v] x [0, u], cell by cell."""
    v, u = np.sort(truth.validity[list(chosen)]), np.sort(truth.utility[list(chosen)])
    edges_v, edges_u = np.concatenate([[0.0], v]), np.concatenate([[0.0], u])
    area = 0.0
    for left, right in itertools.pairwise(edges_v):
        for low, high in itertools.pairwise(edges_u):
            if any(truth.validity[i] >= right and truth.utility[i] >= high for i in chosen):
                area += (right - left) * (high - low)
    return area


@pytest.mark.parametrize("chosen", [[], [0], [1], [0, 1]], ids=str)
def test_fewer_clients_than_wanted_cannot_beat_the_best(chosen):
    # Everybody was selected in nine rounds of ten: every lag is -0.8, and each client more costs alpha/k of that.
    found = losses(Known(FOUR), chosen, [9, 9, 9, 9], round=10, reward=BSFLReward(alpha=2.0))
    assert found["pseudo"] >= -1e-12, "choosing fewer than k is rewarded beyond the best set"


@pytest.mark.parametrize("rules", [Rules(4), Rules(4, over_commit=1.5), Rules(4, delay=2), Rules(4, late="learn")])
@pytest.mark.parametrize("name", ["random", "fedcs", "safa", "size-proportional"])
def test_no_round_of_a_match_has_negative_regret(name, rules):
    world = World(
        Scenario(latency="lognormal", reliability=(0.6, 1.0), profiled=True, sizes="lognormal"), 15, 60, seed=1
    )
    match = Match(make(name, world, BSFLReward(), 1), world, rules, BSFLReward())
    for _ in range(60):
        before = dict(match.sums)
        match.step()
        assert match.sums["pseudo"] - before["pseudo"] >= -1e-9, f"round {match.round}"
        assert match.sums["hypervolume"] - before["hypervolume"] >= -1e-9, f"round {match.round}"


# The genie


def test_the_genie_has_no_pseudo_regret_but_a_printed_one_that_grows_linearly():
    world = World(Scenario(), 20, 600, seed=3)
    record = play(Genie.of(world, BSFLReward(), seed=3), world, Rules(k=5))
    assert np.abs(record.curves["pseudo"]).max() < 1e-9
    printed = dict(zip(record.rounds, record.curves["printed"], strict=True))
    half, whole = printed[300], printed[600]
    assert half > 300 * 0.05
    assert (whole - half) / half == pytest.approx(1.0, abs=0.2), "not linear"


@pytest.mark.parametrize("availability", ["bernoulli", "markov", "diurnal"])
@pytest.mark.parametrize("reward", [BSFLReward(), BSFLReward(normalised=False, alpha=5.0), BSFLReward(by_size=True)])
def test_the_genie_has_no_pseudo_regret_whoever_is_available(availability, reward):
    world = World(Scenario(latency="lognormal", availability=availability, sizes="lognormal", changes=2), 9, 80, seed=3)
    record = play(Genie.of(world, reward, seed=3), world, Rules(k=5), reward)
    assert np.abs(record.curves["pseudo"]).max() < 1e-9


@pytest.mark.parametrize(
    "rules", [Rules(5, over_commit=1.4), Rules(5, delay=3), Rules(5, late="learn")], ids=["over", "delay", "learn"]
)
def test_the_genie_has_no_pseudo_regret_under_any_rules(rules):
    # "The genie that stands where the policy stands": asked for as many, with the same clients busy.
    world = World(Scenario(latency="lognormal"), 20, 150, seed=3)
    record = play(Genie.of(world, BSFLReward(), seed=3), world, rules)
    assert np.abs(record.curves["pseudo"]).max() < 1e-9


def test_the_genie_is_the_yardstick_and_explains_itself():
    world = World(Scenario(), 20, 300, seed=3)
    genie = Genie.of(world, BSFLReward(), seed=3)
    terms = genie.explain(genie.ask(k=5))
    assert terms["speed"] == pytest.approx(world.truth(1).speed[terms["client"]])
    scores = {}
    for name in ("genie", "random", "bsfl", "cs-ucb"):
        world = World(Scenario(), 20, 300, seed=3)
        scores[name] = play(make(name, world, BSFLReward(), 3), world, Rules(k=5)).scores
    assert min(scores, key=lambda name: scores[name]["pseudo_regret"]) == "genie"
    # The genie is myopic (D.4.6), so a history of its own may serve another as well; random is far behind.
    assert scores["genie"]["expected_reward"] > 1.2 * scores["random"]["expected_reward"]
    assert 0.0 < scores["bsfl"]["pseudo_regret"] < 0.5 * scores["random"]["pseudo_regret"]


def test_the_genie_is_no_selector_of_the_library():
    assert "genie" not in enlist.names()
    world = World(Scenario(), 5, 5, seed=1)
    assert isinstance(make("genie", world, BSFLReward(), 1), Genie)
    assert make("bsfl:paper", world, BSFLReward(), 1).preset == "paper"
    assert make("bsfl", world, BSFLReward(), 7).seed == 7


# Hypervolume regret


def test_hypervolume_regret_by_hand():
    # Areas alone: 0.9*0.2 = 0.18, 0.6*0.6 = 0.36, 0.2*0.9 = 0.18, 0.5*0.5 = 0.25.
    # Pairs: {0, 1} 0.36 + 0.3*0.2 = 0.42, {1, 2} 0.42, {0, 2} 0.18 + 0.2*0.7 = 0.32, {1, 3} 0.36, {0, 3} 0.33.
    world = Known(FOUR, validity=[0.9, 0.6, 0.2, 0.5], utility=[0.2, 0.6, 0.9, 0.5])
    for chosen, area in (((0, 1), 0.42), ((1, 2), 0.42), ((0, 2), 0.32), ((1, 3), 0.36), ((0, 3), 0.33)):
        assert losses(world, chosen, [0] * 4, 1)["hypervolume"] == pytest.approx(0.42 - area), chosen
    # Three: the front 0, 1, 2 covers 0.42 + 0.2 * 0.3 = 0.48.
    assert losses(world, [0, 1, 3], [0] * 4, 1, k=3)["hypervolume"] == pytest.approx(0.48 - 0.42)
    assert losses(world, [0, 1, 2], [0] * 4, 1, k=3)["hypervolume"] == pytest.approx(0.0)
    # The whole front covers 0.48, whatever k; of 0, 2 and 3 it covers 0.18 + 0.5 * 0.3 + 0.2 * 0.4 = 0.41.
    assert losses(world, [1, 3], [0] * 4, 1)["front"] == pytest.approx(0.48 - 0.36)
    assert losses(world, [0, 2], [0] * 4, 1, available=[0, 2, 3])["front"] == pytest.approx(0.41 - 0.32)
    # Only 0, 2 and 3 are available: {0, 3} and {2, 3} are best, 0.33 and 0.25 + 0.2 * 0.4 = 0.33.
    assert losses(world, [0, 2], [0] * 4, 1, available=[0, 2, 3])["hypervolume"] == pytest.approx(0.33 - 0.32)


def test_dealing_anew_does_not_move_the_best_area_of_everybody():
    world = World(Scenario(latency="lognormal", changes=4, reliability=(0.3, 1.0)), 12, 50, seed=2)
    regret, everybody = Regret(world, BSFLReward(), 3), np.arange(12)
    for number in (1, 15, 35, 50):
        truth = world.truth(number)
        best = max(union(truth, subset) for subset in itertools.combinations(range(12), 3))
        chosen = np.array([0, 5, 9])
        found = regret.of(number, everybody, chosen, np.zeros(12, int), np.full(3, 0.5))
        assert found["hypervolume"] == pytest.approx(best - union(truth, chosen))
        assert found["front"] == pytest.approx(union(truth, range(12)) - union(truth, chosen))
