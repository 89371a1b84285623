"""FedCor: the fit against its likelihood, the choice against the covariance of all pairs, and the rounds in between."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import enlist
from enlist import Clients, Feedback, Outcome
from enlist.bandits.factors import fit, pick
from enlist.errors import InputError
from enlist.simulation import Config, Simulation, simulate


def plain_pick(covariance, weights, discount, k):
    """As printed: the matrix of all pairs, conditioned after each choice; the chosen leave rows and columns."""
    covariance, left, chosen = covariance.copy(), list(range(len(covariance))), []
    for _ in range(k):
        part = covariance[np.ix_(left, left)]
        score = discount[left] / np.sqrt(np.diag(part)) * (weights[left] @ part)
        best = left[int(np.argmax(score))]
        column = covariance[:, best]
        covariance = covariance - np.outer(column, column) / covariance[best, best]
        left.remove(best)
        chosen.append(best)
    return chosen


def test_a_round_by_hand():
    # x = 2, 2, 1 in one direction for 0, 1, and in another for 2; noise .1; shares 1/3. S_00 = 4.01, S_01 = 4.
    # First: 0 and 1 have (4.01 + 4) / 3 / sqrt(4.01) = 1.3333; 2 has 1.01 / 3 / sqrt(1.01) = .335. So 0, or 1.
    # Then S_11 = 4.01 - 16 / 4.01 = .02: (.02 / 3) / sqrt(.02) = .047, and 2 keeps .335: it is next.
    embedding = np.array([[2.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    chosen, score = pick(embedding, 0.1, np.full(3, 1 / 3), np.ones(3), np.arange(3), 3)
    assert chosen.tolist() == [0, 2, 1]
    np.testing.assert_allclose(score, [1.3333, 0.335, 0.0471], atol=1e-4)
    # Client 0 was chosen three times: 1.3333 * .95^3 = 1.143 is less than what 1 has.
    assert pick(embedding, 0.1, np.full(3, 1 / 3), np.array([0.95**3, 1, 1]), np.arange(3), 1)[0].tolist() == [1]


@pytest.mark.parametrize("seed", range(20))
def test_the_choice_is_that_of_the_covariance_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    embedding, weights, discount = rng.normal(size=(9, 3)), rng.dirichlet(np.ones(9)), rng.uniform(0.7, 1, 9)
    covariance = embedding @ embedding.T + 0.3**2 * np.eye(9)
    found = pick(embedding, 0.3, weights, discount, np.arange(9), 6)[0].tolist()
    assert found == plain_pick(covariance, weights, discount, 6)


def test_the_fit_is_the_most_likely_one():
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(6, 2))
    values = truth @ rng.normal(size=(2, 40)) + 0.2 * rng.normal(size=(6, 40)) + 5.0
    weights = 0.95 ** np.arange(40)[::-1]
    found = fit(values, weights, noise=0.2, dimension=2)
    mean = values @ weights / weights.sum()

    def likelihood(embedding):
        gaussian = multivariate_normal(mean, embedding @ embedding.T + 0.04 * np.eye(6))
        return float(weights @ gaussian.logpdf(values.T))

    best = likelihood(found)
    for scale in (1e-3, 1e-2, 0.1, 1.0):
        assert all(likelihood(found + scale * rng.normal(size=found.shape)) < best for _ in range(20))


def run(selector, truth, rounds, k=2, seed=0):
    """Losses that change together as `truth` says, measured whenever they are asked for."""
    rng, loss, asked = np.random.default_rng(seed), np.full(len(truth), 10.0), []
    for _ in range(rounds):
        wanted = selector.candidates(k=k)
        asked.append(len(wanted))
        fresh = Feedback(clients=wanted, loss=loss[wanted]) if len(wanted) else None
        picked = selector.ask(k=k, fresh=fresh)
        selector.tell(picked, Feedback(loss=loss[picked.clients]))
        loss = loss + truth @ rng.normal(size=truth.shape[1])
    return asked, picked


def test_it_measures_around_random_rounds_and_covers_what_goes_together():
    truth = np.zeros((12, 2))
    truth[:7, 0] = truth[7:, 1] = 1.0  # seven clients go together, and the other five
    selector = enlist.create("fedcor", Clients(count=12), seed=1, warm_up=8, interval=5)
    asked, _ = run(selector, truth, 25)
    # Rounds 1 to 8 are random, 9 sees what they came to; 14 and 19 and 24 are random, and 15, 20, 25 look after them.
    assert [number for number, count in enumerate(asked, 1) if count] == [*range(1, 10), 14, 15, 19, 20, 24, 25]
    assert selector.state.samples == 11
    assert selector.state.fitted == 25
    together = selector.state.embedding @ selector.state.embedding.T
    assert np.allclose(together[:7, 7:] / together[0, 0], 0.0, atol=0.8)
    for _ in range(3):
        picked = selector.ask(k=2)
        assert (picked.clients < 7).sum() == 1
        assert picked.terms["score"].max() > 0
    assert (selector.state.discount < 1).sum() >= 2


def test_reported_losses_do_where_nothing_is_measured():
    selector = enlist.create("fedcor", Clients(count=4), seed=1, warm_up=4, interval=5)
    for number in range(6):
        picked = selector.ask(k=3)
        selector.tell(picked, Feedback(loss=5.0 - number + 0.1 * picked.clients))
    assert selector.state.samples > 0
    assert selector.state.fitted == 5
    one = enlist.create("fedcor", Clients(count=3), seed=1)
    one.tell(one.ask(k=3), Feedback(loss=[4.0, 4.0, 4.0]))
    for outcome in ([Outcome.LATE] * 3, None):
        told = Feedback(outcome=outcome, loss=[2.0, 2.0, 2.0])
        one.tell(one.ask(k=3), told)
    # Two rounds after the first: (2 - 4) / sqrt(2).
    np.testing.assert_allclose(one.state.change[:, 0], -2 / np.sqrt(2), rtol=1e-6)


def test_an_absurd_change_counts_as_unknown():
    selector = enlist.create("fedcor", Clients(count=5), seed=1, warm_up=3)
    for loss in (1.0, 2.0, 3.0):
        fresh = Feedback(clients=range(5), loss=[loss, loss, loss, loss, 10.0 ** (5 * loss)])
        selector.ask(k=2, fresh=fresh)
    assert np.isnan(selector.state.change[4, :2]).all()
    np.testing.assert_allclose(selector.state.change[:4, :2], 1.0)


def test_fresh_needs_losses():
    with pytest.raises(InputError, match="fresh without loss"):
        enlist.create("fedcor", Clients(count=3)).ask(k=1, fresh=Feedback(clients=[0], latency=[1.0]))


def test_in_the_simulator_it_is_the_same_after_a_stop(tmp_path):
    config = Config(
        data={"clients": 10, "partition": {"kind": "shards", "per_client": 2}},
        model={"name": "logistic"},
        rounds={"rounds": 9, "k": 3, "over_commit": 1.4, "late": "merge"},
        devices={"kind": "phones"},
        failures={"crash": 0.1},
    )
    method = "fedcor+warm_up=3+interval=3"
    with Simulation(config, method) as simulation:
        for _ in range(9):
            simulation.step()
        assert simulation.selector.state.fitted == 8
    simulate(config, method, folder=tmp_path / "whole")
    for stop, workers in ((4, 0), (9, 1)):
        shorter = config.replace(f"rounds.rounds={stop}")
        simulate(shorter, method, folder=tmp_path / "cut", workers=workers, resume=stop > 4)
    for name in ("rounds.csv", "participations.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "cut" / name).read_bytes()
