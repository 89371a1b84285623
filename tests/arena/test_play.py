"""A match by hand: who is late, what is told and when, how long rounds last, and what the scores are."""

from __future__ import annotations

import math

import numpy as np
import pytest

import enlist
from enlist import Choice, Clients, Outcome, Selector
from enlist.arena import BSFLReward, Match, Rules, Scenario, World, play
from enlist.errors import InputError

C, L, D, A = (int(code) for code in (Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED, Outcome.ARRIVED))


class Scripted(World):
    """A world whose latencies (rounds x clients), drop-outs, utilities and absences are written down."""

    def __init__(self, latencies, drops=(), absent=(), deadline=10.0, sizes=None, utilities=None):
        table = np.asarray(latencies, float)
        super().__init__(Scenario(deadline=deadline), table.shape[1], len(table), seed=0)
        self.table, self.dropped, self.absent = table, set(drops), set(absent)
        self.values = np.full(table.shape, 0.5) if utilities is None else np.asarray(utilities, float)
        if sizes is not None:
            self.num_examples = np.asarray(sizes, float)

    def latency(self, round):
        return self.table[round - 1]

    def drops(self, round):
        return np.array([(round, client) in self.dropped for client in range(self.count)])

    def utility(self, round):
        return self.values[round - 1]

    def available(self, round, now):
        return np.array([(round, client) not in self.absent for client in range(self.count)])

    def accuracy_noise(self, round):
        return 0.0


class Obedient(Selector):
    """Chooses the clients that the script names, if they are free, and records what it is told."""

    name = "obedient"
    may_choose_fewer = True

    def __init__(self, clients, script, **arguments):
        super().__init__(clients, **arguments)
        self.script, self.heard, self.offered, self.wanted = script, [], [], []
        self.asked_at, self.metrics = [], []

    def choose(self, request):
        self.offered.append(request.available.tolist())
        self.wanted.append(request.k)
        self.asked_at.append(request.now)
        named = [client for client in self.script[request.round - 1] if client in request.available]
        return Choice(np.array(named[: request.k], dtype=np.int64))

    def learn(self, told):
        self._write(told)

    def amend(self, told):
        self._write(told)

    def learn_round(self, selection, completed, metrics):
        self.metrics.append((selection.round, completed.tolist(), metrics))

    def _write(self, told):
        latency = [round(float(value), 9) for value in told.column("latency")]
        rows = zip(told.clients.tolist(), told.outcome.tolist(), latency, strict=True)
        late = told.column("rounds_late")
        self.heard.append((self.round, told.selection.round, list(rows), told.feedback, late))


def match_of(world, script, rules):
    selector = Obedient(Clients(count=world.count), script)
    return selector, Match(selector, world, rules, BSFLReward())


def steps(match, count):
    times = []
    for _ in range(count):
        before = match.now
        match.step()
        times.append(match.now - before)
    return times


def outcomes(heard):
    return {(told_at, about): {client: outcome for client, outcome, _ in rows} for told_at, about, rows, _, _ in heard}


# One round after another


def test_a_schedule_by_hand():
    world = Scripted(
        [
            [1, 2, 3, 4, 5, 6],  # 0, 1, 2 complete: the round lasts 3
            [1, 12, 3, 4, 5, 6],  # 1 is past the deadline: the server waits for it, 10
            [1, 2, 3, 4, 5, 6],  # 3 drops out: who is missing may still come, 10
            [1, 2, 3, 4, 5, 10],  # exactly at the deadline is in time
        ],
        drops=[(3, 3)],
    )
    selector, match = match_of(world, [[0, 1, 2], [0, 1, 2], [2, 3, 4], [0, 5]], Rules(k=3))
    assert steps(match, 4) == [3.0, 10.0, 10.0, 10.0]
    assert selector.asked_at == [0.0, 3.0, 13.0, 23.0]
    told = [rows for _, _, rows, _, _ in selector.heard]
    assert told[0] == [(0, C, 1.0), (1, C, 2.0), (2, C, 3.0)]
    assert told[1] == [(0, C, 1.0), (1, L, 10.0), (2, C, 3.0)]
    assert told[2][::2] == [(2, C, 3.0), (4, C, 5.0)]
    assert told[2][1][:2] == (3, D)
    assert math.isnan(told[2][1][2])
    assert told[3] == [(0, C, 1.0), (5, C, 10.0)]
    assert [feedback.censored.tolist() for _, _, _, feedback, _ in selector.heard[:3]] == [
        [False] * 3,
        [False, True, False],
        [False] * 3,
    ]
    assert [(number, done) for number, done, _ in selector.metrics] == [
        (1, [0, 1, 2]),
        (2, [0, 2]),
        (3, [2, 4]),
        (4, [0, 5]),
    ]
    assert [metrics.duration for _, _, metrics in selector.metrics] == [3.0, 10.0, 10.0, 10.0]


def test_a_selection_smaller_than_k_is_complete_when_all_of_it_has_come():
    selector, match = match_of(Scripted([[1, 2, 3, 4]]), [[1, 2]], Rules(k=3))
    assert steps(match, 1) == [3.0]
    assert match.scores()["completed"] == 1.0
    assert selector.wanted == [3]


def test_over_commitment_stops_at_the_first_k_and_censors_the_rest_at_that_time():
    world = Scripted([[7, 2, 5, 3, 20, 1], [9, 2, 5, 3, 4, 1]], drops=[(2, 1), (2, 2), (2, 3)])
    selector, match = match_of(world, [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4]], Rules(k=3, over_commit=1.5))
    # Round 1: 1, 3, 2 come after 2, 3 and 5 seconds; 0 (7 s) and 4 (20 s) are cut off at 5.
    # Round 2: 1, 2, 3 are lost; 4 and 0 come after 4 and 9 s, two of three: the server waits to the end.
    assert steps(match, 2) == [5.0, 10.0]
    assert selector.wanted == [5, 5], "ceil(3 * 1.5)"
    _, _, rows, feedback, _ = selector.heard[0]
    assert rows == [(0, L, 5.0), (1, C, 2.0), (2, C, 5.0), (3, C, 3.0), (4, L, 5.0)]
    assert feedback.censored.tolist() == [True, False, False, False, True]
    rows = selector.heard[1][2]
    assert [row[:2] for row in rows] == [(0, C), (1, D), (2, D), (3, D), (4, C)]
    assert match.scores()["late"] == pytest.approx(2 / 10)
    assert match.scores()["dropped"] == pytest.approx(3 / 10)
    assert match.scores()["completed"] == pytest.approx(5 / 10)


@pytest.mark.parametrize(("k", "over_commit", "wanted"), [(5, 1.4, 7), (3, 1.5, 5), (20, 1.1, 22), (50, 1.1, 55)])
def test_over_commitment_asks_for_no_more_than_was_meant(k, over_commit, wanted):
    world = Scripted([[1.0] * 100])
    selector, match = match_of(world, [range(100)], Rules(k=k, over_commit=over_commit))
    match.step()
    assert selector.wanted == [wanted], "1.1 * 50 is 55.00000000000001 in binary; 55 were meant"


def test_nobody_available_costs_the_deadline_and_life_goes_on():
    world = Scripted([[1, 2]] * 3, absent=[(1, 0), (1, 1), (2, 1)])
    selector, match = match_of(world, [[0, 1]] * 3, Rules(k=2))
    assert steps(match, 3) == [10.0, 1.0, 2.0]
    assert match.selected.tolist() == [2, 1]
    assert [number for number, _, _ in selector.metrics] == [1, 2, 3]


def test_whoever_did_not_reply_reports_nothing():
    # DESIGN: a selector never sees true utilities. The loss of a client that was late or lost cannot be known.
    world = Scripted([[1, 12, 3]], drops=[(1, 2)], utilities=[[0.2, 0.4, 0.6]])
    selector, match = match_of(world, [[0, 1, 2]], Rules(k=3))
    match.step()
    feedback = selector.heard[0][3]
    values = {"loss": 0.4, "loss_rms": 0.44, "accuracy": 0.9, "accuracy_gain": 0.02}
    for name, value in values.items():
        column = getattr(feedback, name)
        assert column[0] == pytest.approx(value), name
        assert np.isnan(column[1:]).all(), f"{name} of clients that never replied was told: {column}"


# Late replies


def test_a_late_reply_is_dropped_unless_awaited():
    world = Scripted([[1, 12, 3]] * 4)
    selector, match = match_of(world, [[0, 1, 2]] * 4, Rules(k=3))
    steps(match, 4)
    assert [about for _, about, _, _, _ in selector.heard] == [1, 2, 3, 4]
    assert selector.offered == [[0, 1, 2]] * 4, "a client whose reply is not awaited is free"


def test_an_awaited_reply_arrives_with_its_true_latency_and_keeps_its_client_busy():
    # Client 1 needs 25 s from time 0; rounds last 10 (waiting for 1), then 3, 3, 3, ...: 10, 13, 16, 19, 22, 25, 28
    table = [[1, 25, 3]] + [[1, 2, 3]] * 7
    world = Scripted(table, utilities=[[0.1, 0.8, 0.1]] + [[0.1, 0.3, 0.1]] * 7)
    selector, match = match_of(world, [[0, 1, 2]] * 8, Rules(k=3, late="learn"))
    assert steps(match, 8) == [10.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0, 3.0]
    assert selector.offered == [[0, 1, 2], [0, 2], [0, 2], [0, 2], [0, 2], [0, 2], [0, 1, 2], [0, 1, 2]]
    arrivals = [entry for entry in selector.heard if A in [row[1] for row in entry[2]]]
    assert len(arrivals) == 1
    heard_in, about, rows, feedback, _ = arrivals[0]
    assert (heard_in, about) == (6, 1), "before the ask of round 7, at time 25"
    assert rows == [(1, A, 25.0)]
    assert feedback.loss == pytest.approx([1.6]), "the value of the round that it worked for"
    assert feedback.censored.tolist() == [False]


@pytest.mark.parametrize(("latency", "rounds_late"), [(14.0, 1), (20.0, 1), (21.0, 2), (29.0, 2)])
def test_rounds_late_counts_the_rounds_between_a_client_s_own_and_its_reply(latency, rounds_late):
    # Each round lasts 10 s, because client 0 never replies. Round 2 runs from 10 to 20: a reply at 14 s comes in it.
    table = [[99, latency, 3]] + [[99, 2, 3]] * 4
    world = Scripted(table, drops=[(number, 0) for number in range(1, 6)])
    selector, match = match_of(world, [[0, 1, 2]] * 5, Rules(k=3, late="learn"))
    steps(match, 5)
    late = [entry[4][0] for entry in selector.heard if A in [row[1] for row in entry[2]]]
    assert late == [rounds_late]


def test_clients_cut_off_by_over_commitment_arrive_too():
    world = Scripted([[1, 4, 2]] + [[9, 9, 2]] * 3)
    selector, match = match_of(world, [[0, 1, 2]] + [[2]] * 3, Rules(k=2, over_commit=1.5, late="learn"))
    assert steps(match, 4) == [2.0, 2.0, 2.0, 2.0]
    told = outcomes(selector.heard)
    assert told[1, 1] == {0: C, 1: L, 2: C}
    assert told[2, 1] == {1: A}, "client 1 replies at time 4, when round 3 begins"


def test_a_reply_to_an_expired_round_is_ignored():
    world = Scripted([[1, 95, 3]] + [[1, 2, 3]] * 40)
    selector = Obedient(Clients(count=3), [[0, 1, 2]] * 41, max_open=5)
    match = Match(selector, world, Rules(k=3, late="learn"), BSFLReward())
    steps(match, 40)
    assert not any(A in [row[1] for row in rows] for _, _, rows, _, _ in selector.heard)
    assert 1 in selector.offered[6], "an expired selection frees its client"


# Delayed tells


def test_a_delayed_selector_learns_d_rounds_later_and_is_not_offered_the_busy():
    world = Scripted([[1, 2, 3, 4, 5, 6]] * 6)
    script = [[0, 1], [2, 3], [4, 5], [0, 1], [0, 1], [2, 3]]
    selector, match = match_of(world, script, Rules(k=2, delay=2))
    assert steps(match, 6) == [2.0, 4.0, 6.0, 2.0, 10.0, 4.0]
    # Told at the end of round r: that of round r - 2.
    assert [(at, about) for at, about, _, _, _ in selector.heard] == [(3, 1), (4, 2), (5, 3), (6, 4)]
    assert selector.offered == [
        [0, 1, 2, 3, 4, 5],
        [2, 3, 4, 5],
        [4, 5],
        [0, 1],
        [2, 3],
        [2, 3, 4, 5],
    ]


def test_as_many_rounds_as_the_delay_are_untold():
    world = World(Scenario(), 30, 60, seed=1)
    match = Match(enlist.create("cs-ucb", world.clients(), seed=1), world, Rules(k=5, delay=3), BSFLReward())
    for number in range(1, 61):
        match.step()
        assert len(match.untold) == min(number, 3)
        assert match.selector.counts.observed.sum() == 5 * max(number - 3, 0)


def test_an_awaited_reply_that_comes_before_its_round_is_told_is_not_lost():
    # Told two rounds later; client 1 (12 s) replies in round 2, before the selector hears that it was late.
    world = Scripted([[1, 12, 3, 1]] + [[1, 2, 3, 5]] * 9)
    selector, match = match_of(world, [[0, 1, 2]] + [[3]] * 9, Rules(k=3, delay=2, late="learn"))
    steps(match, 10)
    told = [outcome for _, _, rows, _, _ in selector.heard for client, outcome, _ in rows if client == 1]
    assert told == [L, A], "the reply was thrown away, and the client stays busy until its selection expires"
    assert not match.books.busy[1]


# Everybody trains


class Accepting(Obedient):
    """Trains all; takes the last to arrive first."""

    name = "accepting"
    trains_all = True

    def accept(self, arrivals, k):
        self.arrivals = [*getattr(self, "arrivals", []), np.asarray(arrivals).tolist()]
        return np.asarray(arrivals)[::-1][:k].copy()


def test_a_selector_that_trains_all_picks_among_arrivals():
    world = Scripted([[4, 2, 30, 1, 3]] * 2, drops=[(1, 1)], utilities=[[0.1, 0.2, 0.3, 0.4, 0.5]] * 2)
    selector = Accepting(Clients(count=5), [range(5)] * 2)
    match = Match(selector, world, Rules(k=2, over_commit=3.0), BSFLReward())
    # Round 1: 3, 4, 0 arrive (1 is lost, 2 too slow); taken are 0 and 4, the later at 4 s. Round 2: 3, 1, 4, 0.
    assert steps(match, 2) == [4.0, 4.0]
    assert selector.arrivals == [[3, 4, 0], [3, 1, 4, 0]]
    assert selector.wanted == [5, 5], "everybody is asked"
    assert match.selected.tolist() == [2, 0, 0, 0, 2], "taking part is being accepted"
    rows = selector.heard[0][2]
    assert [row[:2] for row in rows] == [(0, C), (1, D), (2, L), (3, C), (4, C)]
    assert rows[2][2] == 4.0, "censored at the time waited"
    scores = match.scores()
    assert scores["completed"] == pytest.approx(4 / 10)
    assert scores["utility"] == pytest.approx(0.1 + 0.5)


def test_a_selector_that_trains_all_and_accepts_too_few_waits():
    world = Scripted([[4, 2, 30]], drops=[(1, 1)])
    match = Match(Accepting(Clients(count=3), [range(3)]), world, Rules(k=2), BSFLReward())
    assert steps(match, 1) == [10.0]


def test_safa_takes_the_first_and_alternates():
    world = Scripted([[1, 2, 3, 4, 5, 6]] * 4)
    match = Match(enlist.create("safa", Clients(count=6), seed=1), world, Rules(k=3), BSFLReward())
    assert steps(match, 4) == [3.0, 6.0, 3.0, 6.0]
    assert match.selected.tolist() == [2] * 6
    assert match.scores()["completed"] == pytest.approx(0.5)


# Scores


def test_scores_by_hand():
    utilities = [[0.2, 0.4, 0.6, 0.8]] * 4
    world = Scripted([[1, 2, 3, 4], [1, 2, 3, 4], [1, 12, 3, 4], [1, 2, 3, 4]], sizes=[4, 3, 2, 1], utilities=utilities)
    world.uptime = np.array([0.9, 0.2, 0.8, 0.7])
    selector, match = match_of(world, [[0, 1], [0, 1], [0, 1], [0, 2]], Rules(k=2))
    assert steps(match, 4) == [2.0, 2.0, 10.0, 3.0]
    scores = match.scores()
    assert match.selected.tolist() == [4, 3, 1, 0]
    assert scores["round_time"] == pytest.approx(17 / 4)
    assert scores["jain"] == pytest.approx(8**2 / (4 * (16 + 9 + 1)))
    assert scores["coverage"] == pytest.approx(3 / 4)
    # Shares 4/8, 3/8, 1/8, 0 against 0.4, 0.3, 0.2, 0.1.
    assert scores["share_error"] == pytest.approx(0.5 * (0.1 + 0.075 + 0.075 + 0.1))
    assert scores["least_selected"] == 0.0
    # Client 1 is late in round 3: utilities 0.6, 0.6, 0.2, 0.8.
    assert scores["utility"] == pytest.approx(2.2 / 4)
    assert scores["utility_per_second"] == pytest.approx(2.2 / 17)
    assert scores["completed"] == pytest.approx(7 / 8)
    assert scores["late"] == pytest.approx(1 / 8)
    assert scores["dropped"] == 0.0
    assert scores["rare"] == pytest.approx(2 / 7), "client 1 is the rarest quarter; two of seven replies are its"
    # Accuracy moves by 0.02 (mean utility - 0.5): means 0.3, 0.3, 0.2, 0.4.
    assert scores["accuracy_gain"] == pytest.approx(0.02 * (1.2 - 2.0) / 4)
    assert [metrics.accuracy for _, _, metrics in selector.metrics][-1] == pytest.approx(0.5 + 0.02 * (1.2 - 2.0))


def test_regret_in_a_match_looks_at_the_history_before_the_round():
    # Round 1: nobody was selected, all lags are 1; round 2: 0 and 1 are at their share (1/2 - 1/2), the others behind.
    world = Scripted([[1, 2, 3, 4]] * 2)
    _, match = match_of(world, [[0, 1], [0, 1]], Rules(k=2))
    match.step()
    truth = world.truth(1).speed
    ranked = np.sort(truth)[::-1]
    assert match.sums["pseudo"] == pytest.approx(ranked[1] - truth[:2].min())
    first = match.sums["pseudo"]
    match.step()
    lag = np.array([0.0, 0.0, 1.0, 1.0])
    pairs = [(i, j) for i in range(4) for j in range(i)]
    best = max(min(truth[i], truth[j]) + (lag[i] + lag[j]) / 2 for i, j in pairs)
    assert match.sums["pseudo"] - first == pytest.approx(best - truth[:2].min())


def test_checkpoints_hold_the_curves_at_their_rounds():
    world = World(Scenario(), 10, 999, seed=1)
    record = play(enlist.create("random", world.clients(), seed=1), world, Rules(k=2))
    assert record.rounds[0] == 1
    assert record.rounds[-1] == 999
    assert 499 in record.rounds, "half of the rounds, for the growth"
    assert record.rounds == sorted(set(record.rounds))
    assert 200 <= len(record.rounds) <= 201
    again = World(Scenario(), 10, 999, seed=1)
    match = Match(enlist.create("random", again.clients(), seed=1), again, Rules(k=2), BSFLReward())
    at = dict(zip(record.rounds, record.curves["printed"], strict=True))
    for number in range(1, 1000):
        match.step()
        if number in at:
            assert at[number] == match.sums["printed"]
    assert record.scores == match.scores()
    assert record.curves["time"][-1] == pytest.approx(999 * record.scores["round_time"])
    assert record.scores["pseudo_regret"] == record.curves["pseudo"][-1]


@pytest.mark.parametrize(
    "wrong", [{"k": 0}, {"over_commit": 0.9}, {"over_commit": math.inf}, {"delay": -1}, {"late": "maybe"}], ids=str
)
def test_rules_refuse_what_cannot_be(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        Rules(**{"k": 3, **wrong})
