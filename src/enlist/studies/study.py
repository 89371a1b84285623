"""A study: the reproduction of one body of work, as data.

It lists experiments (settings and seeds), and says, as pure functions of their results, which tables and figures they
give and how each claim is judged. Nothing here runs anything; running.py does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from enlist._internal import checks
from enlist.errors import InputError, UnknownNameError, unknown
from enlist.studies.claims import Claim
from enlist.studies.parts import simple_rules, with_spreads
from enlist.studies.results import Results

if TYPE_CHECKING:
    import altair as alt

Item = TypeVar("Item")
Settings = Mapping[str, Any]
Run = Callable[[Settings, int, Path], Mapping[str, Any]]
"""run(settings, seed, folder) -> named results. A NumPy array is kept as one, all else must be JSON. The folder is the
experiment's own, for what it wants to keep while it runs (a simulation's checkpoints); it may be ignored."""

KEY = re.compile(r"[a-z0-9][a-z0-9.+=-]*(/[a-z0-9][a-z0-9.+=-]*)*")


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One independent piece of work: a key, a seed, settings, and the function of a module that runs it.

    Experiments of one key differ only in their seed. `seconds` is how long it is expected to take on one core.

    >>> Experiment("coins/fair", 3, {"p": 0.5}, run=lambda settings, seed, folder: {}).place
    PosixPath('coins/fair/3')
    """

    key: str
    seed: int
    settings: Settings
    run: Run
    seconds: float = 1.0

    def __post_init__(self) -> None:
        if not KEY.fullmatch(self.key):
            raise InputError(f"experiment key {self.key!r}; give small letters, digits and . + = - between slashes.")
        checks.whole("seed", self.seed, minimum=0)
        try:
            json.dumps(self.settings, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InputError(f"experiment '{self.key}': its settings are not JSON ({error}).") from None

    @property
    def place(self) -> Path:
        """Where its results are kept, below the folder of all experiments."""
        return Path(self.key, str(self.seed))


def over_seeds(
    key: str, run: Run, settings: Settings, seeds: Sequence[int], seconds: float = 1.0
) -> tuple[Experiment, ...]:
    """The same experiment with several seeds.

    >>> [experiment.seed for experiment in over_seeds("coins", lambda *_: {}, {}, range(3))]
    [0, 1, 2]
    """
    return tuple(Experiment(key, seed, settings, run, seconds) for seed in seeds)


MOST_SEEDS = 100
"""Experiments per setting: further ones have seeds from 500 on, and some defaults were tuned on those from 100 on."""


@dataclasses.dataclass(frozen=True)
class Scale:
    """How much of a study is run: experiments per setting, and settings of the study's own.

    >>> Scale("smoke", 2, {"rounds": 3}, "a check that it runs").chosen(seeds=5).seeds
    5
    >>> Scale("smoke", 2, {"rounds": 3}, "a check that it runs").chosen(seeds=500)
    Traceback (most recent call last):
    ...
    enlist.errors.InputError: --seeds is 500; at most 100, or seeds would meet those kept for tuning and for fresh ...
    """

    name: str
    seeds: int
    settings: Settings
    about: str
    extras: tuple[str, ...] = ()

    def chosen(self, seeds: int | None = None, extras: Sequence[str] = ()) -> Scale:
        """This scale with another number of seeds, and with extras."""
        wanted = self.seeds if seeds is None else checks.whole("seeds", seeds, minimum=1)
        if wanted > MOST_SEEDS:
            raise InputError(
                f"--seeds is {wanted}; at most {MOST_SEEDS}, or seeds would meet those kept for tuning and for fresh "
                "experiments."
            )
        return dataclasses.replace(self, seeds=wanted, extras=tuple(sorted(set(extras))))


@dataclasses.dataclass(frozen=True)
class Figure:
    """A picture of results; one that is a `highlight` is published with the verdicts.

    >>> Figure("curves", "Learning curves", None, "Mean over seeds.").highlight
    False
    """

    name: str
    title: str
    chart: alt.TopLevelMixin
    caption: str = ""
    highlight: bool = False


@dataclasses.dataclass(frozen=True)
class Table:
    """A table of results: rows with the same keys; CSV keeps the numbers as they are, the page may leave it out.

    >>> Table("scores", "Scores", [{"rule": "ucb", "auc": 0.71}]).columns
    ['rule', 'auc']
    """

    name: str
    title: str
    rows: Sequence[Mapping[str, Any]]
    caption: str = ""
    highlight: bool = False
    on_page: bool = True

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
        return list(self.rows[0]) if self.rows else []


def possible(makers: Sequence[Callable[[Results], Item]], results: Results) -> list[Item]:
    """What can be made of the experiments that there are: one that failed costs its own figures and tables only.

    >>> possible([lambda results: len(results.keys()), lambda results: results["lost"].seeds], Results({}))
    [0]
    """
    found = []
    for make in makers:
        with contextlib.suppress(UnknownNameError):
            found.append(make(results))
    return found


def rules_digest(rules: Mapping[str, str]) -> str:
    """What tells the rules of a study from others: `rules_digest(studies.get("bsfl").rules())` in any version.

    >>> rules_digest({"a": "above 0"}) == rules_digest({"a": "above 1"})
    False
    """
    return hashlib.sha256(json.dumps(dict(rules), sort_keys=True).encode()).hexdigest()[:16]


SPREADS = Path(__file__).with_name("spreads.json")
"""Study -> comparison -> its spread; `python -m enlist.studies.spreads` measures them, `--keep` writes them."""


def spreads_of(study: str) -> dict[str, float]:
    """What the paired differences of a study's comparisons spread by on development seeds, where it was measured.

    >>> spreads_of("coins")
    {}
    """
    found: dict[str, dict[str, float]] = json.loads(SPREADS.read_text())
    return found.get(study, {})


@dataclasses.dataclass(frozen=True)
class Study:
    """All that there is to say of a study.

    scales        name -> Scale
    experiments   what a scale runs
    figures       pictures of the results
    tables        tables of the results
    claims        what the work says, each with the rule that judges it, written before the run
    extras        what `--with` may name, and what that adds
    extra_seeds   seeds of a scale with such an extra, where they are not those of the scale
    paper         what the work itself ran, by the names of the table "What was run" (setting.py)
    preload       a module that processes import before they begin, because it takes long

    >>> from enlist.studies.example import COINS
    >>> COINS.name, sorted(COINS.scales), len(COINS.experiments(COINS.scale("smoke")))
    ('coins', ['laptop', 'smoke'], 6)
    """

    name: str
    title: str
    reference: str
    about: str
    scales: Mapping[str, Scale]
    experiments: Callable[[Scale], Sequence[Experiment]]
    figures: Callable[[Results], Sequence[Figure]]
    tables: Callable[[Results], Sequence[Table]]
    claims: Sequence[Claim]
    extras: Mapping[str, str] = dataclasses.field(default_factory=dict)
    extra_seeds: Mapping[str, int] = dataclasses.field(default_factory=dict)
    paper: Mapping[str, str] = dataclasses.field(default_factory=dict)
    preload: str | None = None

    def __post_init__(self) -> None:
        # What development seeds said of spreads belongs to the rules: seeds that cannot show a claim do not judge it.
        known = spreads_of(self.name)
        claims = [dataclasses.replace(each, rule=with_spreads(each.rule, known, each.key)) for each in self.claims]
        object.__setattr__(self, "claims", tuple(claims))
        keys = [claim.key for claim in self.claims]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise InputError(f"study '{self.name}' has two claims called {', '.join(sorted(twice))}; name them apart.")

    def rules(self) -> dict[str, str]:
        """Key of a claim -> all that decides its verdict: what the rule asks for, and the spreads that power rests on.

        >>> from enlist.studies.example import COINS
        >>> COINS.rules()["more-heads"]
        'heads, the bent coin − the fair coin: interval above 0, mean at least 1; spreads {}'
        """
        found = {}
        for each in self.claims:
            spreads = {name: rule.spread for name, rule in simple_rules(each.rule, each.key).items() if rule.spread}
            found[each.key] = f"{each.rule.words()}; spreads {json.dumps(spreads, sort_keys=True)}"
        return found

    def scale(self, name: str, seeds: int | None = None, extras: Sequence[str] = ()) -> Scale:
        """The scale of this name, with another number of seeds or with extras."""
        if name not in self.scales:
            raise unknown("scale", name, self.scales, owner=f"study '{self.name}'")
        for extra in extras:
            if extra not in self.extras:
                raise unknown("extra", extra, self.extras, owner=f"study '{self.name}'")
        if seeds is None:
            seeds = max((self.extra_seeds[extra] for extra in extras if extra in self.extra_seeds), default=None)
        return self.scales[name].chosen(seeds, extras)
