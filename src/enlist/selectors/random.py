"""Uniform selection, the baseline that every other selector is judged against."""

from __future__ import annotations

from enlist._internal.settings import NoSettings
from enlist.bandits import uniform
from enlist.contract import Choice, Request, Selector
from enlist.methods import WithSettings
from enlist.state import NoState


class Random(Selector[NoSettings, NoState]):
    """A uniform k-subset of the available clients: what Flower, pfl-research and NVFlare do.

    Reference: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.
    Needs nothing and learns nothing. O(k) per round. Pair it with a mean weighted by num_examples.

    >>> import enlist
    >>> enlist.create("random", enlist.Clients(count=100), seed=3).ask(k=4).clients
    array([ 8, 17, 23, 78])

    Differs from the paper: nothing.
    """

    name = "random"
    with_ = WithSettings(NoSettings)
    reference = "McMahan et al. 2017"

    def choose(self, request: Request) -> Choice:
        return request.pick(uniform(len(request.available), request.k, self.rng))
