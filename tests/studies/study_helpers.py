"""Experiments for tests: they leave a trace, fail, or kill their process."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from enlist.studies.claims import REPRODUCED, Claim, FollowUp, Verdict, greater
from enlist.studies.results import Results
from enlist.studies.study import Experiment, Scale, Settings, Study, over_seeds


def traced(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """Counts in its folder how often it was run."""
    with open(folder / "runs.txt", "a", encoding="utf-8") as file:
        file.write("run\n")
    time.sleep(settings.get("sleep", 0.0))
    if settings.get("fails") == seed:
        raise ValueError("no luck")
    if settings.get("dies") == seed:
        os._exit(3)
    return {"value": settings["offset"] + seed, "process": os.getpid()}


def _experiments(scale: Scale) -> Sequence[Experiment]:
    keys = {"low": 0.0, "high": scale.settings["lead"], **({"more": 9.0} if "more" in scale.extras else {})}
    others = {name: value for name, value in scale.settings.items() if name != "lead"}
    return [
        each
        for key, offset in keys.items()
        for each in over_seeds(key, traced, {"offset": offset, **others}, range(scale.seeds), 0.5)
    ]


def _further(scale: Scale) -> Sequence[Experiment]:
    return over_seeds("further", traced, {"offset": 7.0}, range(2), 0.5)


def _rule(results: Results) -> Verdict:
    return greater(results.difference("high", "low", "value"), margin=1.0)


def _sure(results: Results) -> Verdict:
    return Verdict(REPRODUCED, "yes", "always")


@dataclasses.dataclass(frozen=True)
class Told:
    """A rule of a function, with words of its own."""

    rule: Callable[[Results], Verdict]

    def words(self) -> str:
        return "mean at least 1"

    def __call__(self, results: Results) -> Verdict:
        return self.rule(results)


def claim(key: str, rule: Callable[[Results], Verdict]) -> Claim:
    more = FollowUp("luck", _further, lambda results: f"further mean {results['further'].summary('value').mean:g}")
    return Claim(key, f"Title of {key}", "Text.", "page 1", "more", Told(rule), more)


TRACED = Study(
    name="traced",
    title="A study that leaves traces",
    reference="Nobody (2000)",
    about="For tests.",
    scales={"smoke": Scale("smoke", 3, {"lead": 2.0}, "nothing"), "laptop": Scale("laptop", 4, {"lead": 2.0}, "more")},
    experiments=_experiments,
    figures=lambda results: [],
    tables=lambda results: [],
    claims=(claim("lead", _rule), claim("sure", _sure)),
    extras={"more": "more of it"},
)


def at(study: Study, **settings: Any) -> Scale:
    """The scale "smoke" with other settings."""
    scale = study.scale("smoke")
    return dataclasses.replace(scale, settings={**scale.settings, **settings})


def runs(root: Path) -> dict[str, int]:
    """How often each experiment was run."""
    found = sorted((root / "experiments").rglob("runs.txt"))
    return {
        path.parent.relative_to(root / "experiments").as_posix(): len(path.read_text().splitlines()) for path in found
    }
