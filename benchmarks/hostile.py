"""docs/hostile.md: attacks x aggregations x selectors, by experiment.

    python -m benchmarks.hostile --output docs/hostile.md

Every run that has ended is kept in a file (--results), so an interrupted command goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np

from enlist._internal.statistics import Summary
from enlist.engine import context

SEEDS = tuple(range(300, 305))
SELECTORS = ("random", "oort", "bsfl", "fedsuv")
ATTACKS: dict[str, list[dict[str, Any]]] = {
    "nobody": [],
    "sign flip": [{"kind": "sign-flip", "share": 0.3, "factor": 10.0}],
    "noise": [{"kind": "noise", "share": 0.3, "sigma": 1.0}],
    "huge": [{"kind": "huge", "share": 0.3}],
    "label flip": [{"kind": "label-flip", "share": 0.3}],
    "label flip, lies": [
        {"kind": "label-flip", "share": 0.3, "group": "liars"},
        {"kind": "lie", "group": "liars", "about": "loss", "factor": 10.0},
        {"kind": "lie", "group": "liars", "about": "num_examples", "factor": 10.0},
    ],
    "collusion": [{"kind": "collude", "share": 0.3, "how": "inner-product", "factor": 1.0}],
}
GUARD: dict[str, Any] = {"norm_bound": 4.0, "exclude": 5}
PLAIN = (
    *("mean", "trimmed-mean", "median", "clipped-mean", "bounded-mean", "centred-clipping"),
    *("geometric-median", "krum", "multi-krum"),
)
SERVERS: dict[str, dict[str, Any]] = {
    **{kind: {"aggregation": kind} for kind in PLAIN},
    "mean, guarded": {"aggregation": {"kind": "mean", "weights": "uniform"}, **GUARD},
    "geometric-median, guarded": {"aggregation": "geometric-median", "distrust": 4.0, **GUARD},
}
PIECES: dict[str, dict[str, Any]] = {
    "mean": {"aggregation": "mean"},
    "mean, norm_bound": {"aggregation": "mean", "norm_bound": 4.0},
    "mean, norm_bound, exclude": {"aggregation": "mean", **GUARD},
    "median": {"aggregation": "median"},
    "median, distrust": {"aggregation": "median", "distrust": 4.0},
    "median, distrust, exclude": {"aggregation": "median", "distrust": 4.0, "exclude": 5},
    "geometric-median": {"aggregation": "geometric-median"},
    "geometric-median, distrust": {"aggregation": "geometric-median", "distrust": 4.0},
    "geometric-median, distrust, exclude": {"aggregation": "geometric-median", "distrust": 4.0, "exclude": 5},
}
FEDERATION: dict[str, Any] = {
    "data": {"dataset": "digits", "clients": 60, "partition": {"kind": "dirichlet", "alpha": 0.5}},
    "model": {"name": "mlp", "hidden": [64]},
    "training": {"batch": 10, "epochs": 2, "lr": 0.1},
    "rounds": {"rounds": 40, "k": 10},
    "evaluation": {"every": 40},
}

Key = tuple[str, str, str, int]
"""Attack, server, selector, seed."""
Results = dict[Key, dict[str, float]]


def keys() -> Iterator[Key]:
    """Every run of the page, those of a seed side by side, as they share a population."""
    for seed in SEEDS:
        for selector in SELECTORS:
            yield from ((attack, server, selector, seed) for attack in ATTACKS for server in SERVERS)
            yield from (("sign flip", server, selector, seed) for server in PIECES if server not in SERVERS)
            yield from (("nobody", server, selector, seed) for server in PIECES if server not in SERVERS)


def run(key: Key) -> dict[str, float]:
    """Accuracy at the end, the share of requests that went to hostile clients, and who failed."""
    from enlist.simulation import Callback, Config, Simulation

    class Asked(Callback):
        rows: list[Any]

        def on_start(self, simulation: Any) -> None:
            self.rows = []

        def on_round(self, simulation: Any, record: Any) -> None:
            self.rows += [(entry["client"], entry["outcome"] == "failed") for entry in record.participations]

    attack, server, selector, seed = key
    asked = Asked()
    simulation = Simulation(
        Config(
            seed=seed,
            selector=selector,
            server={**SERVERS, **PIECES}[server],
            hostile=ATTACKS[attack],
            **FEDERATION,
        ),
        callbacks=[asked],
    )
    accuracy = simulation.run()["accuracy"] or 0.0
    kinds = simulation.population.hostile
    hostile = np.zeros(len(simulation.population), bool) if kinds is None else kinds != ""
    clients, failed = np.array(asked.rows).T
    bad = hostile[clients]
    return {
        "accuracy": accuracy,
        "hostile": float(bad.mean()),
        "honest failed": float(failed[~bad].mean()) if (~bad).any() else 0.0,
        "hostile failed": float(failed[bad].mean()) if bad.any() else 0.0,
    }


def gather(path: Path, jobs: int) -> Results:
    """All results, from the file or run now."""
    found: Results = {}
    if path.exists():
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            found[tuple(entry["key"])] = entry["result"]  # type: ignore[index]
    missing = [key for key in keys() if key not in found]
    path.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(jobs, mp_context=context("enlist.simulation")) as pool, path.open("a") as file:
        waiting = {pool.submit(run, key): key for key in missing}
        for number, future in enumerate(as_completed(waiting), start=1):
            key = waiting[future]
            found[key] = future.result()
            file.write(json.dumps({"key": key, "result": found[key]}) + "\n")
            file.flush()
            if number % 50 == 0:
                print(f"{number} of {len(missing)} runs", flush=True)
    return found


def over_seeds(results: Results, attack: str, server: str, selector: str, name: str = "accuracy") -> Summary:
    """A quantity over seeds, in percent."""
    values = [100.0 * results[attack, server, selector, seed][name] for seed in SEEDS]
    return Summary.of(values).within(0.0, 100.0)


def cell(summary: Summary) -> str:
    """A mean with its interval, as a table shows it."""
    return f"{summary.mean:.0f} ({summary.low:.0f}–{summary.high:.0f})"


def table(heading: str, columns: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]]) -> str:
    """A table in Markdown."""
    names = [heading, *columns]
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return "\n".join([*lines, *(f"| {label} | {' | '.join(cells)} |" for label, cells in rows)])


def accuracies(results: Results, selector: str) -> str:
    """The table of a selector."""
    rows = ((server, [cell(over_seeds(results, attack, server, selector)) for attack in ATTACKS]) for server in SERVERS)
    return table("aggregation", ATTACKS, rows)


def pieces(results: Results) -> str:
    """What each piece of the defence adds under sign flips: accuracy, and who is asked."""
    rows = (
        (server, [cell(over_seeds(results, "sign flip", server, selector)) for selector in SELECTORS])
        for server in PIECES
    )
    return table("server", SELECTORS, rows)


def requests(results: Results) -> str:
    """Requests that hostile clients get under sign flips, and honest clients that fail without any."""
    rows = []
    for server in PIECES:
        asked = [f"{over_seeds(results, 'sign flip', server, name, 'hostile').mean:.0f} %" for name in SELECTORS]
        wrong = [f"{over_seeds(results, 'nobody', server, name, 'honest failed').mean:.1f} %" for name in SELECTORS]
        rows.append((server, [*asked, *wrong]))
    return table("server", [*SELECTORS, *(f"{name}, failed" for name in SELECTORS)], rows)


def picture(results: Results, stem: Path) -> None:
    """The accuracies as a heat map."""
    import altair as alt

    from enlist.report.charts import save

    rows = [
        {
            "attack": attack,
            "aggregation": server,
            "selector": selector,
            "accuracy": over_seeds(results, attack, server, selector).mean,
        }
        for selector in SELECTORS
        for server in SERVERS
        for attack in ATTACKS
    ]
    base = alt.Chart().encode(
        x=alt.X("attack:N", sort=list(ATTACKS), title=None, axis=alt.Axis(labelAngle=-35, orient="bottom")),
        y=alt.Y("aggregation:N", sort=list(SERVERS), title=None, axis=alt.Axis(labelLimit=220)),
    )
    scale = alt.Scale(scheme="viridis", domain=[10, 95], clamp=True)
    squares = base.mark_rect(stroke="white", strokeWidth=1).encode(
        color=alt.Color("accuracy:Q", scale=scale, legend=alt.Legend(title="accuracy, %"))
    )
    light = alt.condition("datum.accuracy > 60", alt.value("#222"), alt.value("white"))
    words = base.mark_text(fontSize=11).encode(text=alt.Text("accuracy:Q", format=".0f"), color=light)
    chart = (
        alt.layer(squares, words, data=alt.InlineData(values=rows))
        .properties(width=300, height=290)
        .facet(facet=alt.Facet("selector:N", sort=list(SELECTORS), header=alt.Header(title=None, labelFontSize=14)))
        .properties(columns=2, title="Accuracy after 40 rounds with 18 of 60 clients hostile")
    )
    save(chart, stem, (".png",))


def best(results: Results, attack: str, selector: str) -> tuple[str, Summary]:
    """The best server against an attack, and how it does."""
    return max(
        ((server, over_seeds(results, attack, server, selector)) for server in SERVERS),
        key=lambda found: found[1].mean,
    )


def page(results: Results, image: str, template: str) -> str:
    """The whole page: the text of benchmarks/hostile.template.md with the tables in it."""
    words = {
        "IMAGE": image,
        "SEEDS": f"{SEEDS[0]} to {SEEDS[-1]}",
        "PIECES": pieces(results),
        "REQUESTS": requests(results),
        "BEST": table(
            "attack",
            SELECTORS,
            (
                (attack, [f"{found[0]}: {cell(found[1])}" for found in (best(results, attack, s) for s in SELECTORS)])
                for attack in ATTACKS
            ),
        ),
        "TABLES": "\n\n".join(f"### {name}\n\n{accuracies(results, name)}" for name in SELECTORS),
    }
    for name, text in words.items():
        template = template.replace(f"<!-- {name} -->", text)
    return template


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="the page; a picture of the same name is put beside it")
    parser.add_argument("--results", type=Path, default=Path("build/hostile.jsonl"), help="where results are kept")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    options = parser.parse_args()
    results = gather(options.results, options.jobs)
    print(pieces(results), *(accuracies(results, name) for name in SELECTORS), sep="\n\n")
    if options.output:
        picture(results, options.output.with_suffix(""))
        template = Path(__file__).with_name("hostile.template.md").read_text()
        options.output.write_text(page(results, options.output.with_suffix(".png").name, template))


if __name__ == "__main__":
    main()
