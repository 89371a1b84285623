"""Settings of `fedsuv`; fedsuv.py says what they do."""

from __future__ import annotations

import dataclasses

from enlist._internal import checks


@dataclasses.dataclass(frozen=True)
class FedSUVSettings:
    """Settings of `fedsuv`.

    Parameters
    ----------
    delta : float, default 0.1
        Chance that an interval misses the truth.
    rho : float, default 0.4
        Share of the clients after which elimination stops; 0 for no elimination.
    ridge : float, default 10.0
        Ridge of the validity model, in observations along each axis of the standardised features.
    clip : bool, default True
        Clip the rectangles to [0, 1], where validity and utility lie.
    noise : float, default 0.1
        Noise of the utility model.
    drift : float, default 0.02
        Share that the utility model forgets in every round.
    width_scale : float, default 0.2
        Multiplies the intervals of the utility model.
    initial_rounds : int, default 2
        Random rounds at the start.
    elimination : {"soft", "capped", "hard"}, default "soft"
        "hard" is the printed rule: while at least a share 1 - rho of all clients is left, all clients that Eq. 7 names
        are eliminated for good. "capped" names them by their rectangles, and eliminates the least promising until k,
        and a share 1 - rho, are left. With "soft" these can come back.
    readmit_every : int or None, default 50
        Rounds after which soft elimination starts afresh; None for never.
    memory : int or None, default 20
        Rounds after which a utility interval is no longer intersected with older ones; None for never.
    posterior : {"auto", "exact", "features"}, default "auto"
        The utility model: exact, by random features, or "auto": exact up to 5,000 clients.
    features : int or None, default None
        How many random features; None for a number that fits the population.
    refit_every : int or None, default 50
        Rounds between fits of the kernel's length; None for never.
    pruning : bool, default True
        Leave out clients that are certainly dominated.
    coupling : {"none", "add", "multiply"}, default "multiply"
        "none" looks for the largest rectangle of validity and utility, as printed; the others give each client one
        score, optimistic validity plus or times optimistic utility, and choose the k largest, with no client eliminated
        or left out.
    late_utility : float or None, default 0.0
        The utility learned for a client that is not in time; None for nothing.
    full_utility : float or None, default None
        The utility that counts as 1; None takes the running 95 % quantile, and standardised utilities.

    >>> FedSUVSettings().rho
    0.4
    """

    delta: float = 0.1
    rho: float = 0.4
    ridge: float = 10.0
    clip: bool = True
    noise: float = 0.1
    drift: float = 0.02
    width_scale: float = 0.2
    initial_rounds: int = 2
    elimination: str = "soft"
    readmit_every: int | None = 50
    memory: int | None = 20
    posterior: str = "auto"
    features: int | None = None
    refit_every: int | None = 50
    pruning: bool = True
    coupling: str = "multiply"
    late_utility: float | None = 0.0
    full_utility: float | None = None

    def __post_init__(self) -> None:
        checks.finite("delta", self.delta, 1e-9, 1.0)
        checks.finite("rho", self.rho, 0.0, 1.0)
        checks.above_zero("ridge", self.ridge)
        checks.above_zero("noise", self.noise)
        checks.finite("drift", self.drift, 0.0, 0.999)
        checks.finite("width_scale", self.width_scale, 0.0)
        checks.whole("initial_rounds", self.initial_rounds, minimum=0)
        checks.one_of("elimination", self.elimination, ("soft", "capped", "hard"))
        checks.one_of("posterior", self.posterior, ("auto", "exact", "features"))
        checks.one_of("coupling", self.coupling, ("none", "add", "multiply"))
        if self.late_utility is not None:
            checks.finite("late_utility", self.late_utility, 0.0)
        if self.full_utility is not None:
            checks.above_zero("full_utility", self.full_utility)
        for name in ("readmit_every", "memory", "features", "refit_every"):
            if getattr(self, name) is not None:
                checks.whole(name, getattr(self, name), minimum=1)
