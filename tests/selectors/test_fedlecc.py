"""FedLECC: a round by hand, and clients that join."""

from __future__ import annotations

from tests.resuming import UNEVEN, assert_resumes
from tests.selectors.labels import assert_newcomers_join_the_nearest_cluster_or_a_new_one, make, see_all


def test_a_round_by_hand():
    # Mean losses of the clusters: 2, 2.5, 0.5. Two clusters share three places, two each: 4 and 3 of {3, 4}, then the
    # highest loss of {0, 1, 2}, which is 1's.
    selector = make("fedlecc", clusters=2)
    see_all(selector, loss=[1.0, 4.0, 1.0, 2.0, 3.0, 0.5])
    picked = selector.ask(k=3)
    assert picked.clients.tolist() == [1, 3, 4]
    assert picked.terms["cluster_loss"].tolist() == [2.0, 2.5, 2.5]
    # Six places of three clusters, two each; {5} is alone, so the sixth is the next best of all: one of {0, 2}.
    selector = make("fedlecc", clusters=3)
    see_all(selector, loss=[1.0, 4.0, 1.1, 2.0, 3.0, 0.5])
    assert selector.ask(k=5).clients.tolist() == [1, 2, 3, 4, 5]
    assert selector.ask([0, 5], k=1).clients.tolist() == [0]


def test_who_joins_goes_to_the_nearest_cluster_or_a_new_one(tmp_path):
    assert_newcomers_join_the_nearest_cluster_or_a_new_one("fedlecc", tmp_path)


def test_late_drop_outs_resume_and_workers_change_nothing(tmp_path):
    assert_resumes(tmp_path, UNEVEN.with_method("fedlecc"), stops=[2])
