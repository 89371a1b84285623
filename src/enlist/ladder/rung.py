"""The rungs: fixed federations, each with a sentence on what is hard about it.

A rung is a TOML file in rungs/: a configuration, and a table [rung] with that sentence (`hard`) and, if it needs
Fashion-MNIST, the changes for using the digits of scikit-learn instead (`fallback`). Results of the two are never
mixed. If a rung changes, the ladder gets a new version.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Sequence
from pathlib import Path

from enlist.data.idx import has_fashion_mnist
from enlist.errors import InputError, unknown
from enlist.simulation.config import Config, parse

VERSION = 1
"""The version of rungs and seeds; results of different versions are not comparable."""
DEVELOPMENT = range(5)
"""Seeds for tuning."""
PUBLISHED = range(1000, 1010)
"""Seeds for publication; nothing is tuned on them."""
NAMES = (
    "label-skew",
    "deadline",
    "wrong-labels",
    "slow-holds-most",
    "slow-holds-classes",
    "silos",
    "users",
    "crowd",
    "drift",
    "liars",
    "exact-features",
    "alike",
    "choice-mild",
    "choice-skewed",
    "fedcor",
    "refl",
)
"""The rungs, in the order of tables."""
FOLDER = Path(__file__).parent / "rungs"


@dataclasses.dataclass(frozen=True)
class Rung:
    """One federation of the ladder.

    Parameters
    ----------
    name : str
        Its name in tables.
    hard : str
        One sentence on what is hard about it.
    config : Config
        The federation; its `rounds.seconds` and `rounds.rounds` are the budget of every run.

    >>> rungs("silos")[0].config.data.clients
    12
    """

    name: str
    hard: str
    config: Config

    @property
    def data(self) -> str:
        """The data set that it uses on this machine."""
        return self.config.data.dataset.name

    @classmethod
    def read(cls, path: Path, *, fashion: bool = True) -> Rung:
        """Read a rung from its file; without Fashion-MNIST, with the fallback changes.

        >>> Rung.read(FOLDER / "silos.toml", fashion=False).data
        'digits'
        """
        values = tomllib.loads(path.read_text(encoding="utf-8"))
        about = values.pop("rung", {})
        if set(about) - {"hard", "fallback"} or not isinstance(about.get("hard"), str):
            raise InputError(f"{path}: [rung] needs hard, a sentence, and may have fallback, a list of changes.")
        config = parse(values, str(path))
        if "fallback" in about and not fashion:
            config = config.replace(*about["fallback"])
        return cls(path.stem, about["hard"], config)


def rungs(names: str | Sequence[str] | None = None) -> list[Rung]:
    """Rungs by name (a list, or text with commas), in the order of tables; by default all.

    >>> [rung.name for rung in rungs("users, silos")]
    ['silos', 'users']
    """
    wanted = (
        NAMES if names is None else [name.strip() for name in names.split(",")] if isinstance(names, str) else names
    )
    for name in wanted:
        if name not in NAMES:
            raise unknown("rung", name, NAMES, owner="the ladder")
    fashion = has_fashion_mnist()
    return [Rung.read(FOLDER / f"{name}.toml", fashion=fashion) for name in NAMES if name in wanted]


def packaged(rung: Rung) -> bool:
    """Whether a rung is an unchanged rung of the package; a changed one is not, whatever its name.

    >>> [silos] = rungs("silos")
    >>> packaged(silos), packaged(dataclasses.replace(silos, config=silos.config.replace("rounds.k=5")))
    (True, False)
    """
    return rung.name in NAMES and rung.config == rungs([rung.name])[0].config
