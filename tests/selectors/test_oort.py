"""Oort: scores, slots, pacer and retirement worked out by hand; what late and lost clients teach."""

from __future__ import annotations

import math

import numpy as np
import pytest

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError, MissingColumnError

NEVER_STALE = 10**12
"""A last round so large that sqrt(0.1 ln t / last) vanishes beside scores of a few hundredths."""


def make(clients=5, **settings):
    """Without exploration unless asked for; utilities are not cut."""
    if isinstance(clients, int):
        clients = Clients(count=clients)
    given = {"exploration": 0.0, "exploration_min": 0.0, "clip": 1.0, **settings}
    return enlist.create("oort", clients, seed=1, **given)


def inject(selector, utility, duration=None, last=NEVER_STALE):
    """Replies as if they had been told; NaN for a client never heard from."""
    state = selector.state
    state.utility[:] = utility
    if duration is not None:
        state.duration[:] = duration
    state.last_round[:] = np.where(np.isnan(state.utility), 0, last)
    selector.counts.selected[:] = ~np.isnan(state.utility)
    return selector


def frequencies(selector, rounds, k=1, available=None):
    counts = np.zeros(len(selector.clients))
    selected = selector.counts.selected.copy()
    for _ in range(rounds):
        counts[selector.ask(available, k=k).clients] += 1
        selector.counts.selected[:] = selected
        selector.openings.clear()
    return counts / rounds


# -------------------------------------------------------------------------------------------------------------- score


def test_a_score_by_hand():
    # Utilities 10, 20, 30, 40 cut at the value of index floor(4 * .5) = 2: 30. Floor .999 * 10 = 9.99, range up to the
    # uncut maximum 40 - 9.99 = 30.01: scaled .01, 10.01, 20.01, 20.01 over 30.01.
    # Round 4: sqrt(.1 ln 4 / last), last = 1, 2, 3, 3: .37233, .26327, .21496, .21496.
    # T: index floor(4 * .5) = 2 of 5, 10, 20, 40: 20 s; only the last is slower: (20/40)^2 = .25.
    selector = make(clip=0.5, threshold=50.0)
    inject(selector, [10, 20, 30, 40, np.nan], [5, 10, 20, 40, np.nan], [1, 2, 3, 3, 0])
    selector.round = 3
    picked = selector.ask(k=4)
    assert picked.clients.tolist() == [0, 1, 2, 3]
    scaled = [0.000333, 0.333556, 0.666778, 0.666778]
    stale = [0.372330, 0.263277, 0.214965, 0.214965]
    np.testing.assert_allclose(picked.terms["utility"], scaled, atol=1e-5)
    np.testing.assert_allclose(picked.terms["staleness"], stale, atol=1e-5)
    np.testing.assert_allclose(picked.terms["speed"], [1, 1, 1, 0.25])
    np.testing.assert_allclose(picked.terms["score"], [0.372663, 0.596833, 0.881743, 0.220436], atol=1e-5)
    assert picked.terms["exploited"].tolist() == [1, 1, 1, 1]


def test_the_exponent_of_the_penalty():
    for penalty, expected in ((0.0, 1.0), (1.0, 0.5), (3.0, 0.125)):
        selector = inject(make(2, penalty=penalty, threshold=0.0, cut_off=0.0), [0, 1], [10, 20])
        assert selector.ask([1, 0], k=1).terms["speed"].tolist() == [expected]


@pytest.mark.parametrize(
    ("threshold", "speed"),
    # five durations 10, 20, 30, 40, 50: T is that of index floor(5 thr/100), none at 100 %
    [
        (0.0, [1, 1 / 4, 1 / 9, 1 / 16, 1 / 25]),
        (39.9, [1, 1, 4 / 9, 1 / 4, 4 / 25]),
        (40.0, [1, 1, 1, 9 / 16, 9 / 25]),
        (99.0, [1, 1, 1, 1, 1]),
        (100.0, [1, 1, 1, 1, 1]),
    ],
)
def test_the_preferred_duration_is_a_percentile(threshold, speed):
    selector = inject(make(6, threshold=threshold), [1, 2, 3, 4, 5, np.nan], [10, 20, 30, 40, 50, np.nan])
    picked = selector.ask(k=5)
    np.testing.assert_allclose(picked.terms["speed"], speed)


def test_the_percentile_counts_absent_clients_too():
    # The available ones need 30 and 40 s, but T is the least of all four: 10 s.
    selector = inject(make(4, threshold=0.0), [1, 2, 3, 4], [10, 20, 30, 40])
    assert selector.ask([2, 3], k=1).terms["speed"][0] in (pytest.approx(1 / 9), pytest.approx(1 / 16))


def test_at_full_threshold_nobody_is_slow():
    selector = inject(make(3, threshold=100.0), [1, 2, np.nan], [1, 1000, np.nan])
    assert selector.ask(k=2).terms["speed"].tolist() == [1, 1]


def test_unknown_durations_count_as_the_median():
    # Known 10, 20, 40: T = 10, median 20, so clients without a duration get (10/20)^2.
    selector = make(5, threshold=0.0, exploration=1.0, exploration_decay=1.0)
    inject(selector, [1, 1, 1, np.nan, np.nan], [10, 20, 40, np.nan, np.nan])
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [3, 4]
    assert picked.terms["speed"].tolist() == [0.25, 0.25]


def test_clients_never_heard_of_stay_out_of_the_scaling():
    # Sample counts of 600 are no utilities: of 1 and 2, floor .999, range 1.001.
    selector = inject(make(Clients(num_examples=[600] * 3), clip=1.0), [1, 2, np.nan])
    np.testing.assert_allclose(selector.ask(k=2).terms["utility"], [0.001 / 1.001, 1.0])


# ----------------------------------------------------------------------------------------------------------- exploiting


def test_the_cut_off():
    # With a client at 0 the scores are utility / 100. Two slots: the last needed is .96, cut .95 * .96 = .912.
    selector = inject(make(5), [100, 96, 92, 91, 0])
    share = frequencies(selector, 400, k=2)
    assert (share[:3] > 0.5).all()
    assert share[3:].tolist() == [0, 0]


def test_the_cut_off_is_at_the_last_one_needed():
    # One slot: cut .95 * 1; the second, at .94, does not qualify. (Reading one rank further would admit it.)
    selector = inject(make(3), [100, 94, 0])
    assert frequencies(selector, 100).tolist() == [1, 0, 0]


def test_everybody_exploited_needs_no_rank_beyond_the_end():
    selector = inject(make(4), [3, 2, 1, np.nan])
    assert selector.ask(k=3).clients.tolist() == [0, 1, 2]


def test_exploited_in_proportion_to_the_score():
    # cut .1: 100, 50, 25 qualify, 9 and 0 do not; drawn with 4/7, 2/7, 1/7
    selector = inject(make(5, cut_off=0.1), [100, 50, 25, 9, 0])
    assert frequencies(selector, 4000).tolist() == pytest.approx([4 / 7, 2 / 7, 1 / 7, 0, 0], abs=0.03)


def test_a_larger_pool():
    # Cut at the very best; but at least twice the one slot qualifies.
    share = frequencies(inject(make(5, cut_off=1.0, pool=2.0), [100, 90, 80, 70, 0]), 200)
    assert (share[:2] > 0.2).all()
    assert share[3:].tolist() == [0, 0]
    assert frequencies(inject(make(5, cut_off=1.0), [100, 90, 80, 70, 0]), 20).tolist() == [1, 0, 0, 0, 0]


def test_zero_scores_are_drawn_uniformly():
    # All losses 0: scaled 0 for everybody, and equal staleness.
    share = frequencies(inject(make(4), [0, 0, 0, 0]), 2000, k=2)
    assert share.tolist() == pytest.approx([0.5] * 4, abs=0.05)


@pytest.mark.parametrize("preset", [None, "paper", "oort-code", "fedscale-code"])
def test_with_everybody_explored_exactly_k_are_chosen(preset):
    selector = enlist.create("oort", Clients(count=9), seed=1, preset=preset)
    selector.tell(selector.ask(k=9, deadline=10.0), Feedback(latency=np.ones(9), loss_rms=np.arange(9.0)))
    for k in (1, 2, 5, 8, 9, 12):
        for available in (None, [0, 1, 2], [7]):
            picked = selector.ask(available, k=k)
            assert len(set(picked.clients.tolist())) == min(k, 9 if available is None else len(available))
            if len(picked.terms):
                assert picked.terms["exploited"].tolist() == [1] * len(picked)  # nobody is left to explore


# ------------------------------------------------------------------------------------------------------------ exploring


def test_the_share_explored_falls():
    # .9 * .98^t down to .2, which is reached when .98^t < 2/9: t = 75.
    selector = enlist.create("oort", Clients(count=3), seed=1)
    shares = []
    for _ in range(80):
        selector.ask([], k=1)  # also when nobody is there
        shares.append(selector.state.exploration)
    assert shares[:3] == pytest.approx([0.882, 0.86436, 0.8470728])
    assert shares[73] == pytest.approx(0.9 * 0.98**74)
    assert shares[74:] == [0.2] * 6


@pytest.mark.parametrize(
    ("share", "round_up", "exploited"),
    # of ten slots 5; 7.5 or, rounded up, 8; 1.2 or 2 (10 - floor 8.8); 8, although 1 - .2 is not exact; none; all
    [
        (0.5, False, 5),
        (0.25, False, 7),
        (0.25, True, 8),
        (0.88, False, 1),
        (0.88, True, 2),
        (0.2, False, 8),
        (0.2, True, 8),
        (1.0, False, 0),
        (1.0, True, 0),
        (0.0, False, 10),
    ],
)
def test_slots(share, round_up, exploited):
    selector = make(40, exploration=share, exploration_decay=1.0, round_up=round_up)
    inject(selector, [1.0] * 20 + [np.nan] * 20)
    picked = selector.ask(k=10)
    assert (picked.clients < 20).sum() == exploited
    np.testing.assert_array_equal(picked.terms["exploited"], picked.clients < 20)


def test_slots_are_not_lost_to_rounding():
    # 25 - 25 * .56 is 10.999999999999998: 11 are exploited. 50 * .58 is 28.999999999999996: 29 are explored.
    for k, share, round_up, exploited in ((25, 0.56, False, 11), (50, 0.58, True, 21)):
        selector = make(200, exploration=share, exploration_decay=1.0, round_up=round_up)
        inject(selector, [1.0] * 100 + [np.nan] * 100)
        assert selector.ask(k=k).terms["exploited"].sum() == exploited


def test_slots_without_anybody_to_explore_are_exploited():
    selector = inject(make(6, exploration=1.0, exploration_decay=1.0), [5, 4, 3, 2, 1, np.nan])
    picked = selector.ask(k=4)
    assert 5 in picked.clients
    assert picked.terms["exploited"].sum() == 3


def test_slots_without_anybody_to_exploit_are_explored():
    selector = inject(make(6), [5, np.nan, np.nan, np.nan, np.nan, np.nan])
    picked = selector.ask(k=4)
    assert 0 in picked.clients
    assert picked.terms["exploited"].sum() == 1


def test_durations_come_from_the_profile():
    selector = make(Clients(expected_latency=[3.0, 1.0, 2.0, 9.0]))
    assert selector.state.duration.tolist() == [3, 1, 2, 9]
    # T: index floor(4 * .3) = 1, so 2 s. Explored by speed; a shortlist as long as the slots holds the two fastest.
    selector = make(Clients(expected_latency=[3.0, 1.0, 2.0, 9.0]), sample_window=1.0)
    picked = selector.ask(k=2)
    assert picked.clients.tolist() == [1, 2]
    selector.counts.selected[:] = 0
    assert selector.ask([0, 1, 3], k=2).terms["speed"].tolist() == pytest.approx([4 / 9, 1])


def test_explored_in_proportion_to_speed():
    # 1, 2 and 4 s: 4/7, 2/7, 1/7; the shortlist of twice the slot leaves the slowest out: 2/3, 1/3
    clients = Clients(expected_latency=[1.0, 2.0, 4.0])
    assert frequencies(make(clients), 4000).tolist() == pytest.approx([4 / 7, 2 / 7, 1 / 7], abs=0.03)
    share = frequencies(make(clients, sample_window=2.0), 4000)
    assert share.tolist() == pytest.approx([2 / 3, 1 / 3, 0], abs=0.03)


def test_explored_by_size():
    # T: index floor(3 * .5) = 1 of 1, 2, 4 s; penalties 1, (2/4)^2, 1; weights 10, 30/4 = 7.5, 20
    clients = Clients(num_examples=[10, 30, 20], expected_latency=[2.0, 4.0, 1.0])
    assert make(clients, explore_by="size", threshold=50.0, sample_window=1.0).ask(k=2).clients.tolist() == [0, 2]
    share = frequencies(make(clients, explore_by="size", threshold=50.0), 4000)
    assert share.tolist() == pytest.approx([10 / 37.5, 7.5 / 37.5, 20 / 37.5], abs=0.03)


def test_explored_at_random_if_nothing_is_known():
    assert frequencies(make(4), 2000).tolist() == pytest.approx([0.25] * 4, abs=0.04)


def test_who_was_tried_and_never_replied_is_no_longer_explored():
    selector = make(4, exploration=0.5, exploration_decay=1.0)
    selector.tell(
        selector.ask([0, 1], k=2), Feedback(outcome=[Outcome.DROPPED, 0], latency=[np.nan, 2.0], loss_rms=[np.nan, 1.0])
    )
    assert selector.ask([0, 1, 2], k=2).clients.tolist() == [1, 2]
    # now 2 is tried as well; of 0, 1, 2 only 1 has ever replied, and the other slot is filled at random
    share = frequencies(selector, 1000, k=2, available=[0, 1, 2])
    assert share.tolist() == pytest.approx([0.5, 1, 0.5, 0], abs=0.06)


# ---------------------------------------------------------------------------------------------------------------- pacer


def pace(selector, utilities):
    """Rounds whose one exploited client reports these utilities; the threshold after the ask that follows each."""
    thresholds = []
    for utility in utilities:
        picked = selector.ask([0, 1], k=1)
        selector.tell(picked, Feedback(latency=[1.0], loss_rms=[utility]))
        saved = selector.state.exploited_utility, selector.state.exploited_replies
        assert saved == (utility, 1)
        thresholds.append(selector.state.threshold)
    selector.ask([0, 1], k=1)
    return [*thresholds[1:], selector.state.threshold]


def test_the_pacer_of_the_paper():
    # Windows of one round; T moves by W k / N = 1 * 1 / 10: ten percentiles, whenever utility falls.
    selector = inject(make(10, pacer_step=1), [1.0] * 10)
    assert pace(selector, [10, 4, 8, 8, 7]) == [30, 40, 40, 40, 50]
    selector = inject(make(10, pacer_step=1, pacer_delta=45.0), [1.0] * 10)
    assert pace(selector, [10, 4, 3, 2]) == [30, 75, 100, 100]


def test_the_pacer_of_the_code():
    # 10 -> 10.5: within a tenth, relaxed; -> 13 and -> 52: neither; -> 312: by 5 * 52, tightened; -> 0: by less than
    # 5 * 312; -> 0: stalled
    selector = inject(make(10, pacer_step=1, pacer="code", pacer_delta=5.0), [1.0] * 10)
    assert pace(selector, [10, 10.5, 13, 52, 312, 0, 0]) == [30, 35, 35, 35, 30, 30, 35]
    selector = inject(make(10, pacer_step=1, pacer="code", pacer_delta=5.0, threshold=98.0), [1.0] * 10)
    assert pace(selector, [10, 10, 10]) == [98, 100, 100]
    selector = inject(make(10, pacer_step=1, pacer="code", pacer_delta=5.0, threshold=7.0), [1.0] * 10)
    assert pace(selector, [1, 6, 36]) == [7, 5, 5]


def test_the_pacer_compares_windows():
    # Windows of two rounds, N = 10, k = 1: steps of 20. The sums fall from 15 to 6 although the last round is better
    # than the one before; "R >= 2W": the first decision is due as soon as two windows are known, before round 5.
    selector = inject(make(10, pacer_step=2), [1.0] * 10)
    assert pace(selector, [9, 6, 1, 5])[-1] == 50
    selector = inject(make(10, pacer_step=2), [1.0] * 10)
    assert pace(selector, [1, 2, 5, 3])[-1] == 30


def test_the_pacer_keeps_its_windows_apart():
    # Falling from one window of two to the next, whichever rounds it looks at: in 12 rounds T rises more than once,
    # and not at all if utility rises.
    selector = inject(make(10, pacer_step=2, pacer_delta=1.0), [1.0] * 10)
    thresholds = pace(selector, range(13, 1, -1))
    assert thresholds[-1] > 31
    assert thresholds[:2] == [30, 30]
    selector = inject(make(10, pacer_step=2, pacer_delta=1.0), [1.0] * 10)
    assert pace(selector, range(1, 13)) == [30] * 12


@pytest.mark.parametrize(("pacer", "seen"), [("paper", 8.0), ("code", 4.0)])
def test_the_pacer_sees_exploited_replies(pacer, seen):
    # Exploited 0, 1 and 2, of which one is lost, explored one with a huge loss: the sum is 6 + 2, the mean half of it.
    selector = make(5, exploration=0.25, exploration_decay=1.0, pacer=pacer)
    inject(selector, [1, 1, 1, np.nan, np.nan])
    picked = selector.ask(k=4)
    assert picked.terms["exploited"].tolist() == [1, 1, 1, 0]
    outcome = [Outcome.COMPLETED, Outcome.DROPPED, Outcome.COMPLETED, Outcome.COMPLETED]
    selector.tell(picked, Feedback(outcome=outcome, latency=[1, np.nan, 1, 1], loss_rms=[6.0, np.nan, 2.0, 1000.0]))
    selector.ask([], k=1)
    assert selector.state.history.values().tolist() == [seen]
    selector.ask([], k=1)
    assert selector.state.history.values().tolist() == [seen, 0.0]


# ----------------------------------------------------------------------------------------------------------- retirement


def test_retirement():
    # Chosen 4, 3, 2 and 1 times: over 2 are 0 and 1; the best of the others is 2.
    selector = inject(make(4, retire_after=2, retire_share=1.0, cut_off=1.0), [100, 90, 50, 10])
    selector.counts.selected[:] = [4, 3, 2, 1]
    assert selector.ask(k=1).clients.tolist() == [2]
    # A quarter of four is one: only the one chosen most often.
    selector = inject(make(4, retire_after=2, retire_share=0.25, cut_off=1.0), [100, 90, 50, 10])
    selector.counts.selected[:] = [3, 4, 2, 1]
    assert selector.ask(k=1).clients.tolist() == [0]
    selector = inject(make(4, cut_off=1.0), [100, 90, 50, 10])
    selector.counts.selected[:] = [400, 3, 2, 1]
    assert selector.ask(k=1).clients.tolist() == [0]


def test_retired_clients_do_not_enter_the_scaling():
    selector = inject(make(4, retire_after=2, retire_share=0.5), [100, 3, 2, 1])
    selector.counts.selected[:] = [3, 1, 1, 1]
    picked = selector.ask(k=3)
    assert picked.clients.tolist() == [1, 2, 3]
    np.testing.assert_allclose(picked.terms["utility"], [1, 1.001 / 2.001, 0.001 / 2.001])


def test_retired_clients_fill_what_is_left():
    selector = inject(make(4, retire_after=2, retire_share=0.5), [100, 90, 2, 1])
    selector.counts.selected[:] = [3, 3, 1, 1]
    picked = selector.ask(k=3)
    assert {2, 3} < set(picked.clients.tolist())
    assert picked.terms["exploited"].sum() == 2


def test_if_all_are_retired_nobody_is():
    selector = inject(make(4, retire_after=2, retire_share=1.0, cut_off=1.0), [90, 100, 50, 10])
    selector.counts.selected[:] = 9
    picked = selector.ask(k=1)
    assert picked.clients.tolist() == [1]
    assert picked.terms["exploited"].tolist() == [1]
    # also if only the retired are there
    selector.counts.selected[:] = [9, 9, 1, 1]
    assert selector.ask([0, 1], k=1).clients.tolist() == [1]


# ------------------------------------------------------------------------------------------------------------- feedback


def test_a_reply():
    # Utility = samples * RMS loss; the samples as reported, else as declared.
    selector = make(Clients(num_examples=[10, 20, 30]))
    selector.ask([], k=1)
    feedback = Feedback(latency=[2.0, 3.0, 4.0], loss_rms=[0.5, 2.0, np.nan], num_examples=[np.nan, 7, 7])
    selector.tell(selector.ask(k=3, deadline=10.0), feedback)
    np.testing.assert_array_equal(selector.state.utility, [5, 14, np.nan])
    assert selector.state.duration.tolist() == [2, 3, 4]
    assert selector.state.last_round.tolist() == [2, 2, 0]


def test_late_and_lost_clients():
    # Late teaches at most the deadline, cut off a lower bound, lost twice the deadline; none of them a utility.
    selector = make(6)
    selector.state.duration[4] = 7.0
    codes = [Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED, Outcome.LATE, Outcome.LATE, Outcome.FAILED]
    latency = [4.0, 12.0, np.nan, 3.0, 3.0, 1.0]
    censored = [False, False, False, True, True, False]
    picked = selector.ask(k=6, deadline=10.0)
    selector.tell(picked, Feedback(outcome=codes, latency=latency, censored=censored, loss_rms=np.ones(6)))
    assert selector.state.duration.tolist() == [4, 10, 20, 3, 7, 20]
    np.testing.assert_array_equal(selector.state.utility, [1] + [np.nan] * 5)
    assert selector.state.last_round.tolist() == [1, 0, 0, 0, 0, 0]
    # Then two of them arrive.
    selector.ask([], k=1)
    arrived = Feedback(clients=[3, 1], outcome=[Outcome.ARRIVED] * 2, latency=[5.0, 14.0], loss_rms=[8.0, 9.0])
    selector.tell(picked, arrived)
    assert selector.state.duration.tolist() == [4, 14, 20, 5, 7, 20]
    np.testing.assert_array_equal(selector.state.utility, [1, 9, np.nan, 8, np.nan, np.nan])
    assert selector.state.last_round.tolist() == [1, 1, 0, 1, 0, 0]


def test_lost_without_a_deadline_teaches_nothing():
    selector = make(2)
    selector.state.duration[1] = 3.0
    selector.tell(selector.ask(k=2), Feedback(outcome=[Outcome.DROPPED, Outcome.FAILED]))
    np.testing.assert_array_equal(selector.state.duration, [np.nan, 3])


def test_stragglers_may_be_rewarded():
    # Completed with 4 and 8: those late (cut off or past the deadline) get 6, those lost nothing.
    for reward, utility, last in ((True, 6.0, 1), (False, np.nan, 0)):
        selector = make(5, reward_stragglers=reward)
        outcome = [Outcome.COMPLETED, Outcome.LATE, Outcome.COMPLETED, Outcome.LATE, Outcome.DROPPED]
        latency, censored = [1, 10, 2, 3, np.nan], [False, False, False, True, False]
        picked = selector.ask(k=5, deadline=10.0)
        losses = [4.0, np.nan, 8.0, np.nan, np.nan]
        selector.tell(picked, Feedback(outcome=outcome, latency=latency, censored=censored, loss_rms=losses))
        np.testing.assert_array_equal(selector.state.utility, [4, utility, 8, utility, np.nan])
        assert selector.state.last_round.tolist() == [1, last, 1, last, 0]
        selector.tell(picked, Feedback(clients=[3], outcome=[Outcome.ARRIVED], latency=[5.0], loss_rms=[7.0]))
        assert selector.state.utility[3] == 7.0


def test_stragglers_are_rewarded_if_told_after_the_others():
    # Partial tells are legal; the round is the same.
    selector = make(3, reward_stragglers=True)
    picked = selector.ask(k=3, deadline=10.0)
    selector.tell(picked, Feedback(clients=[0, 2], latency=[1, 2], loss_rms=[4.0, 8.0]))
    selector.tell(picked, Feedback(clients=[1], outcome=[Outcome.LATE], latency=[3.0], censored=[True]))
    assert selector.state.utility.tolist() == [4, 6, 8]


def test_stragglers_of_a_round_without_any_loss():
    # A loss may be NaN (it diverged); then there is no mean to give. Warnings are errors.
    selector = make(2, reward_stragglers=True)
    feedback = Feedback(outcome=[0, Outcome.LATE], latency=[1.0, 2.0], censored=[False, True], loss_rms=[np.nan] * 2)
    selector.tell(selector.ask(k=2, deadline=10.0), feedback)
    assert np.isnan(selector.state.utility).all()
    assert selector.state.duration.tolist() == [1, 2]


def test_an_old_reply_does_not_undo_a_newer_one():
    # L(i) is the last round of participation: round 2, although the reply to round 1 comes in after that.
    selector = make(2)
    first, second = selector.ask([0], k=1), selector.ask([0], k=1)
    selector.tell(second, Feedback(latency=[2.0], loss_rms=[5.0]))
    selector.tell(first, Feedback(latency=[9.0], loss_rms=[1.0]))
    assert selector.state.last_round[0] == 2
    assert selector.state.utility[0] == 5.0
    assert selector.state.duration[0] == 2.0


def test_joining():
    selector = make(Clients(expected_latency=[1.0, 2.0]), exploration=0.5, exploration_decay=1.0, threshold=50.0)
    inject(selector, [4, 2], last=1)
    selector.join(Clients(expected_latency=[5.0, 8.0]))
    np.testing.assert_array_equal(selector.state.utility, [4, 2, np.nan, np.nan])
    assert selector.state.duration.tolist() == [1, 2, 5, 8]
    picked = selector.ask(k=2)
    assert (picked.clients >= 2).tolist() == [False, True]
    # T: index 2 of 1, 2, 5, 8 is 5
    assert picked.terms["speed"][1] == pytest.approx({2: 1.0, 3: 25 / 64}[picked.clients[1]])


def test_joining_without_a_profile():
    selector = inject(make(2), [4, 2], [1, 2])
    selector.join(Clients(count=1))
    np.testing.assert_array_equal(selector.state.duration, [1, 2, np.nan])
    assert selector.state.last_round.tolist()[2] == 0


# -------------------------------------------------------------------------------------------------------------- presets

DEFAULT = {
    "exploration": 0.9,
    "exploration_decay": 0.98,
    "exploration_min": 0.2,
    "penalty": 2.0,
    "threshold": 30.0,
    "pacer": "paper",
    "pacer_delta": None,
    "pacer_step": 20,
    "clip": 0.95,
    "cut_off": 0.95,
    "pool": 1.0,
    "round_up": False,
    "explore_by": "speed",
    "sample_window": 5.0,
    "retire_after": None,
    "reward_stragglers": False,
}
CODE = {"pacer": "code", "pacer_delta": 5.0, "explore_by": "size", "reward_stragglers": True}


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        (None, {}),
        ("paper", {"retire_after": 10, "retire_share": 1.0, "sample_window": 1e9}),
        (
            "oort-code",
            {**CODE, "exploration_decay": 0.95, "threshold": 10.0, "clip": 0.98, "cut_off": 0.7, "retire_share": 0.3},
        ),
        (
            "fedscale-code",
            {**CODE, "exploration_min": 0.3, "clip": 0.9, "cut_off": 0.05, "pool": 10.0, "round_up": True},
        ),
    ],
)
def test_presets(preset, changes):
    settings = enlist.create("oort", Clients(count=3), preset=preset).settings
    for name, value in {**DEFAULT, **changes}.items():
        assert getattr(settings, name) == value, name


def test_the_paper_retires_without_a_limit():
    # The table gives the paper 10 selections and no max_len: the limit of .3 is the code's. Of three clients, two
    # have been chosen 11 times; the third is exploited.
    selector = enlist.create("oort", Clients(count=3), seed=1, preset="paper", exploration=0.0, exploration_min=0.0)
    inject(selector, [100, 90, 10])
    selector.counts.selected[:] = [11, 11, 10]
    assert selector.ask(k=1).clients.tolist() == [2]


def test_it_learns_who_has_the_large_losses():
    selector = enlist.create("oort", Clients(num_examples=[50] * 20), seed=1)
    for _ in range(150):
        picked = selector.ask(k=4, deadline=30.0)
        latency = np.where(picked.clients == 19, 29.0, 5.0)  # large loss, but six times too slow
        selector.tell(picked, Feedback(latency=latency, loss_rms=0.1 + 0.1 * picked.clients))
    share = selector.counts.selected / 600
    assert share[12:19].sum() > 0.75
    assert share[19] < share[18]


def test_needs():
    selector = make(2)
    with pytest.raises(MissingColumnError, match="loss_rms"):
        selector.tell(selector.ask(k=1), Feedback(latency=[1.0]))
    with pytest.raises(MissingColumnError, match="latency"):
        selector.tell(selector.ask(k=1), Feedback(loss_rms=[1.0]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"exploration": 1.5},
        {"penalty": -1.0},
        {"threshold": 101.0},
        {"pacer": "kode"},
        {"pacer_step": 0},
        {"pacer_delta": -1.0},
        {"cut_off": math.nan},
        {"explore_by": "luck"},
        {"sample_window": 0.5},
        {"retire_after": 0},
        {"retire_share": 1.5},
    ],
)
def test_settings_are_checked(wrong):
    with pytest.raises(InputError, match=next(iter(wrong))):
        make(**wrong)
