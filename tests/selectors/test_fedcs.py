"""FedCS: the greedy against its definition, hand-computed packings, estimates under every outcome."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.errors import InputError
from enlist.selectors.fedcs import pack

NAN = float("nan")


def naive(update: list[float], upload: list[float], k: int, limit: float) -> list[tuple[float, float]]:
    """The spec's loop, word for word: refused clients are dropped and the loop goes on."""
    left, time, accepted = list(range(len(update))), 0.0, []
    while left and len(accepted) < k:
        best = min(left, key=lambda i: (upload[i] + max(0.0, update[i] - time), update[i]))
        left.remove(best)
        after = time + upload[best] + max(0.0, update[best] - time)
        if after < limit:
            time = after
            accepted.append((update[best], upload[best]))
    return accepted


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), min_size=1, max_size=40),
    st.integers(1, 40),
    st.one_of(st.just(float("inf")), st.integers(1, 120).map(float)),
    st.integers(0, 5),
)
def test_pack_is_the_naive_greedy(pairs: list[tuple[int, int]], k: int, limit: float, seed: int) -> None:
    update = np.array([pair[0] for pair in pairs], dtype=float)
    upload = np.array([pair[1] for pair in pairs], dtype=float)
    got = pack(update, upload, k, limit, np.random.default_rng(seed))
    assert len(set(got.tolist())) == len(got)
    assert [(update[i], upload[i]) for i in got] == naive(update.tolist(), upload.tolist(), k, limit)


def test_hand_computed_packing() -> None:
    # update c = (2, 1, 6, 9), upload u = (3, 5, 1, 1); T = 0
    #   costs 5, 6, 7, 10             -> client 0, T = 5
    #   costs -, 5, 1 + 1 = 2, 1 + 4  -> client 2, T = 7
    #   costs -, 5, -, 1 + 2 = 3      -> client 3, T = 10
    #   cost 5 of client 1            -> T would be 15
    clients = Clients(expected_latency=[5.0, 6.0, 7.0, 10.0], expected_upload=[3.0, 5.0, 1.0, 1.0])

    def chosen(deadline: float, k: int = 4) -> list[int]:
        return enlist.create("fedcs", clients).ask(k=k, deadline=deadline).clients.tolist()

    assert chosen(15.5) == [0, 1, 2, 3]
    assert chosen(15.0) == [0, 2, 3]
    assert chosen(10.5) == [0, 2, 3]
    assert chosen(10.0) == [0, 2]
    assert chosen(float("inf"), k=2) == [0, 2]
    assert chosen(5.0) == [0]  # nothing fits; the fastest is taken all the same
    assert chosen(0.1) == [0]


def test_explain_shows_update_and_upload() -> None:
    clients = Clients(expected_latency=[5.0, 6.0], expected_upload=[3.0, 5.0])
    selector = enlist.create("fedcs", clients)
    picked = selector.ask(k=2, deadline=100.0)
    assert picked.terms["update"].tolist() == [2.0, 1.0]
    assert picked.terms["upload"].tolist() == [3.0, 5.0]


def test_overhead_shortens_the_deadline() -> None:
    clients = Clients(expected_latency=[4.0, 8.0])
    assert len(enlist.create("fedcs", clients).ask(k=2, deadline=9.0)) == 2
    assert enlist.create("fedcs", clients, overhead=1.0).ask(k=2, deadline=9.0).clients.tolist() == [0]


def test_without_uploads_the_k_fastest_that_meet_the_deadline() -> None:
    clients = Clients(expected_latency=[4.0, 30.0, 2.0, 9.0, 3.0])
    selector = enlist.create("fedcs", clients)
    assert selector.ask(k=3, deadline=20.0).clients.tolist() == [0, 2, 4]
    assert selector.ask(k=5, deadline=20.0).clients.tolist() == [0, 2, 3, 4]


def test_estimates_follow_what_is_observed() -> None:
    clients = Clients(expected_latency=[10.0, 10.0], expected_upload=[2.0, 2.0])
    selector = enlist.create("fedcs", clients, step=0.25)
    picked = selector.ask(k=2, deadline=100.0)
    selector.tell(picked, Feedback(latency=[20.0, 6.0], upload_latency=[6.0, NAN]))
    # 10 + .25 * 10, 10 - .25 * 4; upload 2 + .25 * 4, and a NaN is skipped
    assert selector.state.latency.tolist() == [12.5, 9.0]
    assert selector.state.upload.tolist() == [3.0, 2.0]


def test_first_value_replaces_the_unknown() -> None:
    selector = enlist.create("fedcs", Clients(count=1), step=0.25)
    selector.tell(selector.ask(k=1, deadline=100.0), Feedback(latency=[8.0], upload_latency=[3.0]))
    assert selector.state.latency.tolist() == [8.0]
    assert selector.state.upload.tolist() == [3.0]


def test_lost_and_cut_off_clients_count_as_at_least_that_slow() -> None:
    clients = Clients(expected_latency=[10.0, 10.0, 30.0, 10.0, 10.0])
    selector = enlist.create("fedcs", clients)
    picked = selector.ask(k=5, deadline=50.0)
    assert len(picked) == 5
    outcome = [Outcome.DROPPED, Outcome.LATE, Outcome.LATE, Outcome.LATE, Outcome.FAILED]
    feedback = Feedback(
        outcome=outcome, latency=[NAN, 20.0, 20.0, 70.0, 3.0], censored=[False, True, True, False, False]
    )
    selector.tell(picked, feedback)
    # dropped: 10 -> 30 (half way to the deadline); cut off at 20: 10 -> 15; cut off at 20 but known to need 30: 30;
    # late with its true 70 s: 40; failed after 3 s: the deadline counts, 30
    assert selector.state.latency.tolist() == [30.0, 15.0, 30.0, 40.0, 30.0]


def test_dropped_without_a_deadline_teaches_nothing() -> None:
    selector = enlist.create("fedcs", Clients(count=2))
    picked = selector.ask(k=2)
    selector.tell(picked, Feedback(outcome=[Outcome.DROPPED, Outcome.COMPLETED], latency=[NAN, 2.0]))
    assert np.isnan(selector.state.latency[0])
    assert selector.state.latency[1] == 2.0


def test_amendment_takes_back_the_bound() -> None:
    selector = enlist.create("fedcs", Clients(expected_latency=[10.0, 10.0]))
    picked = selector.ask(k=2, deadline=50.0)
    late = Feedback(outcome=[Outcome.LATE, Outcome.LATE], latency=[50.0, 50.0], censored=[True, True])
    selector.tell(picked, late)
    assert selector.state.latency.tolist() == [30.0, 30.0]
    again = selector.ask([1], k=1, deadline=50.0)
    selector.tell(again, Feedback(latency=[20.0]))  # 25: learned after the bound
    arrived = Feedback(outcome=[Outcome.ARRIVED, Outcome.ARRIVED], latency=[60.0, 65.0])
    selector.tell(picked, arrived)
    # client 0: as if 60 had been known at once, 10 -> 35; client 1: 65 is one more value, 25 -> 45
    assert selector.state.latency.tolist() == [35.0, 45.0]
    assert not selector.state.bound.any()


def test_unknown_clients_get_all_slots_first_and_a_share_later() -> None:
    selector = enlist.create("fedcs", Clients(count=40), unknown_share=0.2, seed=3)
    first = selector.ask(k=10, deadline=50.0)
    assert len(first) == 10
    selector.tell(first, Feedback(latency=np.full(10, 5.0)))
    second = selector.ask(k=10, deadline=50.0)
    assert len(second) == 10
    assert len(np.setdiff1d(second.clients, first.clients)) == 2
    # where only three clients are known, the other seven slots go to unknown ones
    third = selector.ask(np.concatenate([first.clients[:3], np.setdiff1d(np.arange(40), first.clients)]), k=10)
    assert np.isin(first.clients[:3], third.clients).all()
    assert len(third) == 10


def test_unknown_clients_are_drawn_at_random() -> None:
    firsts = {enlist.create("fedcs", Clients(count=40), seed=seed).ask(k=1).clients[0] for seed in range(20)}
    assert len(firsts) > 5


def test_ties_are_random() -> None:
    clients = Clients(expected_latency=np.full(40, 5.0))
    firsts = {enlist.create("fedcs", clients, seed=seed).ask(k=1).clients[0] for seed in range(20)}
    assert len(firsts) > 5


def test_a_client_kept_out_by_a_bound_is_tried_again() -> None:
    selector = enlist.create("fedcs", Clients(count=3), forget=4, unknown_share=0.3, seed=1)
    late = [Outcome.LATE, Outcome.COMPLETED, Outcome.COMPLETED]
    selector.tell(
        selector.ask(k=3, deadline=10.0),
        Feedback(outcome=late, latency=[10.0, 2.0, 3.0], censored=[True, False, False]),
    )
    for _ in range(3):  # rounds 2 to 4
        picked = selector.ask(k=2, deadline=10.0)
        assert picked.clients.tolist() == [1, 2]
        selector.tell(picked, Feedback(latency=[2.0, 3.0]))
    assert selector.ask(k=2, deadline=10.0).clients.tolist() == [0, 1]  # round 5
    never = enlist.create("fedcs", Clients(count=2), forget=None)
    outcome = [Outcome.DROPPED, Outcome.COMPLETED]
    never.tell(never.ask(k=2, deadline=10.0), Feedback(outcome=outcome, latency=[NAN, 2.0]))
    assert all(never.ask(k=2, deadline=10.0).clients.tolist() == [1] for _ in range(90))


def test_dropouts_do_not_lock_everybody_out() -> None:
    rng = np.random.default_rng(0)
    selector = enlist.create("fedcs", Clients(count=50), seed=2)
    sizes = []
    for _ in range(300):
        picked = selector.ask(k=10, deadline=20.0)
        lost = rng.uniform(size=len(picked)) < 0.2
        outcome = np.where(lost, Outcome.DROPPED, Outcome.COMPLETED)
        selector.tell(picked, Feedback(outcome=outcome, latency=np.where(lost, NAN, 5.0)))
        sizes.append(len(picked))
    assert np.mean(sizes[100:]) > 9.0


def test_joined_clients_bring_their_profile() -> None:
    selector = enlist.create("fedcs", Clients(expected_latency=[9.0, 8.0]))
    selector.tell(selector.ask(k=2), Feedback(latency=[11.0, 8.0]))
    selector.join(Clients(expected_latency=[1.0]))
    assert selector.state.latency.tolist() == [10.0, 8.0, 1.0]
    assert selector.ask(k=1).clients.tolist() == [2]


def test_nobody_available() -> None:
    assert len(enlist.create("fedcs", Clients(count=2)).ask([], k=2)) == 0


@pytest.mark.parametrize("wrong", [{"step": 0.0}, {"overhead": -1.0}, {"unknown_share": 1.5}, {"forget": 0}])
def test_settings_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError):
        enlist.create("fedcs", Clients(count=2), **wrong)


def test_a_million_clients() -> None:
    rng = np.random.default_rng(0)
    latency = rng.exponential(20.0, 10**6)
    clients = Clients(expected_latency=latency, expected_upload=latency * 0.1)
    selector = enlist.create("fedcs", clients)
    picked = selector.ask(k=100, deadline=60.0)
    selector.tell(picked, Feedback(latency=latency[picked.clients]))
    assert selector.state.nbytes / 10**6 < 400
