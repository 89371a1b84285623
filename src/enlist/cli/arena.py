"""`enlist arena`: selectors against each other and against the genie, without training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from enlist._internal import checks
from enlist.arena import SCENARIOS, BSFLReward, Summary, Tournament, compare, paired_difference, scenario, summarise
from enlist.arena.compare import Results, growth, rollout_regret, save
from enlist.cli.console import cores, new_folder, open_console, say_where, stopping
from enlist.cli.run import EngineName, Quiet
from enlist.cli.tables import Legend, show_table
from enlist.engine import chosen, on_ray
from enlist.engine.choosing import LOCAL
from enlist.runs.printing import plural

HEADER = ("selector", "regret", "2nd half", "rollout", "round time", "vs random", "Jain", "seen")
REGRET_NAMES = ("pseudo", "printed", "hypervolume", "front")
BEST = {
    "pseudo": "a genie that knows every client's true mean and is in the policy's position; both short rounds "
    "and even participation count, so a selector that considers only speed can lose more than random",
    "printed": "a genie that knows every client's true mean, as Eq. 7 of the BSFL paper prints it",
    "hypervolume": "the k clients that cover the largest area of validity and utility",
    "front": "the whole Pareto front of validity and utility, which k clients may be too few to cover",
}
NOTE = (
    "Bands are 95 % intervals over seeds, and ± is half of one. '2nd half' is R(2n)-R(n) over R(n): 1 if regret grows "
    "linearly, well below 1 if it flattens. 'rollout' is the loss against the genie on its own trajectory; because "
    "the genie looks no further than the next round, it can be beaten, and the figure can be negative. 'vs random' "
    "compares round times in the same worlds. Jain is Jain's index of how evenly clients participated, and 'seen' the "
    "share that did at all. The printed regret grows even for the genie, because the mean of a minimum is below the "
    "minimum of means. Click a name in a legend to highlight it."
)


LEGEND: Legend = (
    (("regret",), "regret: loss against a genie that knows the truth (both short rounds and even participation count)"),
    (("±",), "±: half a 95 % interval over seeds"),
    (("2nd half",), "2nd half: growth of regret relative to the first half, 1 is linear"),
    (("rollout",), "rollout: loss against a genie on its own trajectory"),
    (("vs random",), "vs random: round time, paired by seed"),
    (("Jain",), "Jain: evenness"),
    (("seen",), "seen: share of clients that participated"),
)


def arena(
    selectors: Annotated[
        str,
        typer.Option(
            help="Methods to play, separated by commas: names, name:preset, name+setting=value, module:Class, "
            "optionally label=method; and genie."
        ),
    ] = "bsfl,cs-ucb,random,genie",
    scenario_name: Annotated[
        str, typer.Option("--scenario", help=f"The world: {', '.join(SCENARIOS)}.")
    ] = "slow-minority",
    clients: Annotated[int, typer.Option(help="Clients in the population.")] = 20,
    k: Annotated[int, typer.Option("--k", "-k", help="Clients per round.")] = 5,
    rounds: Annotated[int, typer.Option(help="Rounds per run.")] = 2000,
    seeds: Annotated[int, typer.Option(help="Runs per selector; every selector meets the same worlds.")] = 10,
    jobs: Annotated[int, typer.Option(help="Processes; 0 for one per core. Results do not depend on it.")] = 0,
    reward: Annotated[
        str, typer.Option(help="BSFL's reward 'normalised' (lag relative to target) or 'printed'.")
    ] = "normalised",
    regret: Annotated[str, typer.Option(help=f"Which regret to show: {', '.join(REGRET_NAMES)}.")] = "pseudo",
    alpha: Annotated[float, typer.Option(help="Weight of generalisation in the reward.")] = 1.0,
    over_commit: Annotated[
        float, typer.Option(help="Select this many times k clients, and keep the first k replies.")
    ] = 1.0,
    delay: Annotated[int, typer.Option(help="Rounds until the selector is told the outcomes of a round.")] = 0,
    late: Annotated[str, typer.Option(help="Late replies: 'drop', or 'learn' from them.")] = "drop",
    output: Annotated[Path | None, typer.Option(help="New folder for tables, chart and report.")] = None,
    engine: EngineName = LOCAL,
    quiet: Quiet = False,
) -> None:
    """Measure regret without training: selectors x seeds in a world with known truth.

    Example: [bold]enlist arena --selectors bsfl,oort,random,genie --clients 500 -k 25 --rounds 1000 --seeds 5[/]
    """
    checks.one_of("--reward", reward, ("normalised", "printed"))
    checks.one_of("--regret", regret, REGRET_NAMES)
    scenario(scenario_name)
    settings = Tournament(
        selectors=selectors,
        scenario=scenario_name,
        clients=clients,
        k=k,
        rounds=rounds,
        seeds=seeds,
        over_commit=over_commit,
        delay=delay,
        late=late,
        reward=BSFLReward(alpha=alpha, normalised=reward == "normalised", capped=reward == "normalised"),
    )
    settings.check()
    checks.whole("--jobs", jobs, minimum=0)
    console = open_console(quiet=quiet)
    with new_folder(output, "arena") as folder:
        results = with_progress(console, [settings], jobs, engine)[0]
        show_table(console, table(settings, results, regret), describe(settings), LEGEND, ("rollout", "seen", "Jain"))
        say_where(console, publish(folder, "Arena", [(settings, results)], regret))


def with_progress(console: Console, comparisons: Sequence[Tournament], jobs: int, engine: str = LOCAL) -> list[Results]:
    """Run comparisons under one progress bar, quiet in pipes."""
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=32),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    results = []
    count = jobs if on_ray(engine) else jobs or cores()
    with bar, stopping(console), chosen(engine, count) as where:
        tasks = [bar.add_task(describe(settings), total=len(settings.runs())) for settings in comparisons]
        for task, settings in zip(tasks, comparisons, strict=True):
            advance = lambda selector, seed, task=task: bar.advance(task)  # noqa: E731
            results.append(compare(settings, max(count, 1), advance, where))
    return results


def describe(settings: Tournament) -> str:
    """A comparison in one line: its size, its world, and settings that are not the default."""
    parts = [
        f"{plural(settings.clients, 'client')}, {settings.k} a round, {plural(settings.rounds, 'round')}, "
        f"{plural(settings.seeds, 'seed')}",
        settings.scenario,
    ]
    reward = settings.reward
    unusual = {
        "printed reward": not reward.normalised,
        f"alpha {reward.alpha:g}": reward.alpha != 1.0,
        f"over-commitment {settings.over_commit:g}": settings.over_commit != 1.0,
        f"told {plural(settings.delay, 'round')} later": settings.delay > 0,
        "learns from late replies": settings.late == "learn",
    }
    return ", ".join([" · ".join(parts), *(words for words, applies in unusual.items() if applies)])


def table(settings: Tournament, results: Results, regret: str = "pseudo") -> list[list[str]]:
    """Header and one row per selector."""
    loss, halves = summarise(results, f"{regret}_regret"), growth(results, regret)
    time, jain, coverage = (summarise(results, name) for name in ("round_time", "jain", "coverage"))
    rows = [[f"{regret} regret" if title == "regret" else title for title in HEADER]]
    for name in settings.labels:
        against, rollout = "–", "–"
        if "random" in settings.labels and name != "random":
            gap, base = paired_difference(results, "round_time", name), time["random"].mean / 100.0
            against = interval(Summary(gap.mean / base, gap.low / base, gap.high / base), "%")
        if "genie" in settings.labels and name != "genie":
            rollout = interval(rollout_regret(results, name))
        cells = [interval(loss[name]), f"{halves[name].mean:.2f}", rollout, interval(time[name], digits=3), against]
        rows.append([name, *cells, f"{jain[name].mean:.2f}", f"{100 * coverage[name].mean:.0f}%"])
    return rows


def interval(summary: Summary, unit: str = "", digits: int = 1) -> str:
    """Mean and half width of its 95 % interval."""
    if abs(summary.mean) >= 1000:
        digits = 0
    half = (summary.high - summary.low) / 2.0
    margin = "" if half != half else f" ± {half:.{digits}f}"
    return f"{round(summary.mean, digits) + 0.0:.{digits}f}{margin}{unit}"


def publish(folder: Path, title: str, parts: Sequence[tuple[Tournament, Results]], regret: str = "pseudo") -> Path:
    """Write tables, charts and the report page; returns the page's path."""
    from enlist.report.charts import save as save_chart
    from enlist.report.charts import unchecked
    from enlist.report.page import Section, write_page
    from enlist.report.regret import regret_chart, regret_rows

    sections = []
    for settings, results in parts:
        inner = folder if len(parts) == 1 else folder / f"{settings.clients}-clients"
        save(inner, settings, results)
        rows, axis = regret_rows(results, regret), f"cumulated {regret} regret"
        with unchecked():
            chart = regret_chart(rows, "Loss against the best", axis)
            charts = [chart, regret_chart(rows, "The same on logarithmic axes", axis, logarithmic=True)]
            if regret == "pseudo":
                printed = regret_rows(results, "printed")
                charts.append(regret_chart(printed, "As Eq. 7 prints it", "cumulated printed regret"))
            save_chart(chart, inner / "regret")
        sections.append(Section(describe(settings), table=table(settings, results, regret), charts=charts, note=NOTE))
    lead = (
        "Selectors without training: all of them meet the same worlds and the same random events. Regret is what a "
        f"policy loses in each round against {BEST[regret]}."
    )
    return write_page(folder / "report.html", title, lead, sections)
