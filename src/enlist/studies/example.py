"""A toy study, for documentation and tests: does a bent coin show more heads than a fair one?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import altair as alt

from enlist.streams import Streams
from enlist.studies.claims import Claim, FollowUp, shown
from enlist.studies.margins import Margin
from enlist.studies.measures import Measure, Value
from enlist.studies.results import Results
from enlist.studies.rules import Arm, Contrast
from enlist.studies.study import Experiment, Figure, Scale, Settings, Study, Table, over_seeds

COINS_THROWN = {"fair": 0.5, "bent": 0.6}
FAIR, BENT = Arm("fair", "the fair coin"), Arm("bent", "the bent coin")
HEADS = Measure("heads", lambda output, base: Value(float(output["heads"])), digits=1)


def toss(settings: Settings, seed: int, folder: Path) -> dict[str, Any]:
    """An experiment: toss a coin, count the heads.

    >>> toss({"p": 1.0, "tosses": 3}, 0, Path())
    {'heads': 3, 'curve': array([1, 2, 3])}
    """
    tosses = Streams(seed).generator("tosses").random(settings["tosses"]) < settings["p"]
    return {"heads": int(tosses.sum()), "curve": tosses.cumsum()}


def _experiments(scale: Scale) -> Sequence[Experiment]:
    tosses = scale.settings["tosses"]
    settings = {name: {"p": p, "tosses": tosses} for name, p in COINS_THROWN.items()}
    return [one for name, own in settings.items() for one in over_seeds(name, toss, own, range(scale.seeds), 0.001)]


def _more(scale: Scale) -> Sequence[Experiment]:
    settings = {"p": COINS_THROWN["bent"], "tosses": 10 * scale.settings["tosses"]}
    return over_seeds("bent-longer", toss, settings, range(scale.seeds), 0.001)


def _reading(results: Results) -> str:
    longer = results["bent-longer"]
    return f"In ten times as many tosses it shows {shown(longer.summary('heads'), 1)} heads."


def _figures(results: Results) -> Sequence[Figure]:
    rows = [
        {"coin": name, "toss": int(toss) + 1, "heads": float(heads)}
        for name in COINS_THROWN
        for toss, heads in enumerate(results[name].column("curve").mean(axis=0))
    ]
    chart = alt.Chart(alt.InlineData(values=rows)).mark_line().encode(x="toss:Q", y="heads:Q", color="coin:N")
    return [Figure("heads", "Heads over tosses", chart, "Mean over seeds.", highlight=True)]


def _tables(results: Results) -> Sequence[Table]:
    rows = [{"coin": name, "heads": results[name].summary("heads").mean} for name in COINS_THROWN]
    return [Table("heads", "Heads", rows)]


COINS = Study(
    name="coins",
    title="Is the coin bent?",
    reference="A thought experiment",
    about="Two coins are tossed.",
    scales={
        "smoke": Scale("smoke", 3, {"tosses": 20}, "a check that it runs"),
        "laptop": Scale("laptop", 10, {"tosses": 400}, "a few minutes"),
    },
    experiments=_experiments,
    figures=_figures,
    tables=_tables,
    claims=(
        Claim(
            key="more-heads",
            title="The bent coin shows more heads",
            text="A coin that is bent shows more heads than a fair one that was tossed as often.",
            source="first page",
            paper="60 % against 50 %",
            rule=Contrast("greater", HEADS, BENT, [FAIR], Margin(1.0, "one head, the smallest difference")),
            further=FollowUp("too few tosses", _more, _reading),
        ),
    ),
)
