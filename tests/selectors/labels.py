"""What tests share of selectors that go by clusters of labels."""

from __future__ import annotations

import enlist
from enlist import Clients, Feedback

COUNTS = [[9, 1], [8, 1], [9, 0], [0, 9], [1, 8], [5, 5]]


def make(name, counts=COUNTS, **settings):
    return enlist.create(name, Clients(label_counts=counts), seed=1, **settings)


def see_all(selector, **columns):
    selector.tell(selector.ask(k=len(selector.clients)), Feedback(**columns))


def assert_newcomers_join_the_nearest_cluster_or_a_new_one(name, folder):
    selector = make(name, [[9, 1, 0], [8, 1, 0], [0, 9, 0]])
    selector.join(Clients(label_counts=[[7, 1, 0], [0, 0, 5], [0, 1, 9]]))
    assert selector.state.cluster.tolist() == [0, 0, 1, 0, 2, 2]
    selector.save(folder)
    assert enlist.load(folder).state.cluster.tolist() == [0, 0, 1, 0, 2, 2]
