"""Selection in proportion to the number of examples."""

from __future__ import annotations

import dataclasses

from enlist._internal import checks
from enlist.bandits import capped_shares, systematic, weighted
from enlist.contract import Choice, Request, Selector
from enlist.methods import WithSettings
from enlist.state import NoState


@dataclasses.dataclass(frozen=True)
class SizeProportionalSettings:
    """Settings of `size-proportional`.

    Parameters
    ----------
    variant : {"successive", "fixed-inclusion"}, default "successive"
        "successive" draws one client after the other; "fixed-inclusion" makes the chance of being chosen
        proportional to size.

    >>> SizeProportionalSettings().variant
    'successive'
    """

    variant: str = "successive"

    def __post_init__(self) -> None:
        checks.one_of("variant", self.variant, ("successive", "fixed-inclusion"))


class SizeProportional(Selector[SizeProportionalSettings, NoState]):
    """Larger clients are chosen more often, in proportion to n_i = Clients.num_examples.

    successive        draw i with probability n_i / sum n_j among those left, k times (Plackett-Luce)
    fixed-inclusion   i is included with probability min(1, c n_i), c such that they sum to k (systematic sampling);
                      only here is the chance of being chosen really proportional to size

    Reference: Li et al., Federated Optimization in Heterogeneous Networks, MLSys 2020 (sampling scheme of FedProx).
    Needs clients.num_examples. O(n) per round. Pair it with an *unweighted* mean: weights by size count size twice.

    >>> import enlist
    >>> selector = enlist.create("size-proportional", enlist.Clients(num_examples=[0, 5, 5, 90]), seed=1)
    >>> selector.ask(k=3).clients
    array([1, 2, 3])

    Differs from the paper: draws are without replacement; a client without examples is never chosen, so fewer than k
    may be selected.
    """

    name = "size-proportional"
    reference = "Li et al. 2020 (FedProx)"
    presets = {"paper": {}}  # the default is the printed rule
    needs = frozenset({"clients.num_examples"})
    may_choose_fewer = True
    Settings = SizeProportionalSettings
    with_ = WithSettings(SizeProportionalSettings)

    def choose(self, request: Request) -> Choice:
        sizes = request.of(self.clients.num_examples)  # type: ignore[arg-type]
        if self.settings.variant == "successive":
            return request.pick(weighted(sizes, request.k, self.rng), size=sizes)
        inclusion = capped_shares(sizes, float(request.k))
        return request.pick(systematic(inclusion, self.rng), size=sizes, inclusion=inclusion)
