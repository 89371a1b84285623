"""The report page of runs, its sentences, and the command that writes it."""

from __future__ import annotations

import dataclasses
import html
import json
import math
import re

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from enlist.cli.console import open_console
from enlist.cli.report import report
from enlist.cli.tables import folded, show_table
from enlist.errors import InputError
from enlist.report import sentences
from enlist.report.runs import ordered, write_report
from enlist.runs.comparing import comparison_rows
from enlist.runs.example import example_run, write_run

NAN = math.nan
OUTSIDE = re.compile(r"""(?:\bsrc|\bhref)\s*=\s*["']?\s*(?:https?:)?//""", re.IGNORECASE)


@pytest.fixture
def _no_files(monkeypatch):
    """Charts in files are tested with the first page."""
    monkeypatch.setattr("enlist.report.page.save", lambda chart, stem, suffixes: [])


@pytest.fixture(scope="module")
def runs():
    names = ("oort", "fedcs", "random")
    return [example_run(name, seed, clients=100, rounds=60, k=10) for name in names for seed in range(3)]


@pytest.fixture(scope="module")
def page(runs, tmp_path_factory):
    return write_report(runs, tmp_path_factory.mktemp("report"), "Three <selectors>", target=0.8)


def body(path):
    """The page without its scripts."""
    return re.sub(r"<script.*</script>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


# The page


def test_the_page_and_the_files_beside_it(page):
    assert sorted(path.name for path in page.parent.iterdir()) == ["charts", "report.html", "scores.json"]
    stems = "availability classes devices evenness latency outcomes rounds selected-by-size selected-by-speed sizes"
    stems += " reasons-1 reasons-2 time time-to-target updates"
    names = [f"{stem}{suffix}" for stem in stems.split() for suffix in (".png", ".svg")]
    assert sorted(path.name for path in (page.parent / "charts").iterdir()) == sorted(names)
    assert all(path.stat().st_size > 1000 for path in (page.parent / "charts").iterdir())


def test_the_page_opens_offline(page):
    assert not OUTSIDE.search(body(page))
    assert page.read_text(encoding="utf-8").count(' data-chart="chart') == 15


def test_the_page_says_what_one_sees(page, runs):
    text = body(page)
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    chosen = ["Who was selected", "Why they were selected", "Clients"]
    last = ["Outcomes", "Data", "Devices", "How this was made"]
    assert headings == ["Results", "Learning curves", *chosen, *last]
    assert "<h1>Three &lt;selectors&gt;</h1>" in text
    assert "3 selectors, 3 seeds each: 100 clients, 10 of them selected in a round, 60 rounds." in text
    assert "interval over 3 seeds" in text
    assert "over 3 seeds (Student's t on logarithms)" in html.unescape(text)
    row = comparison_rows(runs, 0.8)[1]
    assert f"fedcs reaches 80 % in {1 / row['speed_up']:.2f} of random" in text
    assert "nan" not in re.sub(r"<style>.*</style>", "", text, flags=re.DOTALL).lower().split()


def test_scores_are_json_without_nan(page, runs):
    scores = json.loads((page.parent / "scores.json").read_text(), parse_constant=pytest.fail)
    assert [row["selector"] for row in scores] == ["oort", "fedcs", "random"]
    assert scores[0]["speed_up"] == pytest.approx(comparison_rows(runs, 0.8)[0]["speed_up"])


@pytest.mark.usefixtures("_no_files")
def test_a_single_run_has_no_interval_and_no_speed_up(tmp_path):
    page = write_report([example_run("oort")], tmp_path / "mine.html", "One", target=0.7)
    assert page == tmp_path / "mine.html"
    text = body(page)
    assert "oort, seed 0: 12 clients" in text
    assert "reaches 70 % after" in text
    for word in ("speed-up", "±", "interval", "bands", "random", "under oort", "time-to-target"):
        assert word not in text


@pytest.mark.usefixtures("_no_files")
def test_runs_of_regression(tmp_path):
    runs = []
    for run in (example_run("oort"), example_run()):
        rounds = {**run.rounds, "accuracy": np.full(8, NAN)}
        clients = {name: column for name, column in run.clients.items() if not name.startswith("class_")}
        runs.append(dataclasses.replace(run, rounds=rounds, clients=clients))
    page = write_report(runs, tmp_path)
    text = body(page)
    assert "reaches loss" in text
    assert "final loss" in text
    assert "accuracy" not in text
    assert "How much clients hold" in page.read_text(encoding="utf-8")
    assert "Which classes clients hold" not in page.read_text(encoding="utf-8")


def test_runs_that_know_little(tmp_path):
    """Never evaluated, no device columns, always everybody there: the page just has less to show."""
    run = example_run()
    rounds = {**run.rounds, "accuracy": np.full(8, NAN), "loss": np.full(8, NAN), "available": np.full(8, 12.0)}
    clients = {"client": run.clients["client"], "num_examples": np.full(12, 5.0)}
    page = write_report([dataclasses.replace(run, rounds=rounds, clients=clients)], tmp_path)
    text = body(page)
    assert "Nothing was evaluated." in text
    assert "All 12 clients were always available." in text
    assert "Every client holds 5 samples." in text
    assert "Learning curves" not in text
    found = {path.stem for path in (tmp_path / "charts").iterdir()}
    assert found == {"selected-by-size", "updates", "evenness", "outcomes", "sizes"}


def test_nothing_to_report(tmp_path):
    run = example_run()
    empty = dataclasses.replace(run, rounds={name: column[:0] for name, column in run.rounds.items()})
    for given in ([], [empty]):
        with pytest.raises(InputError, match="no run has finished a round"):
            write_report(given, tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        write_report([run], tmp_path / "file")


def test_random_comes_last():
    names = [run.name for run in ordered([example_run("random", 1), example_run("safa", 2), example_run("oort", 10)])]
    assert names == ["safa, seed 2", "oort, seed 10", "random, seed 1"]


# Sentences


def row(selector="oort", **values):
    plain = {"selector": selector, "measure": "accuracy", "target": 0.8, "seeds": 3, "reached": 3, "pairs": 3}
    plain |= {"baseline": "random", "speed_up": 2.0, "speed_up_low": 1.6, "speed_up_high": 2.5, "speed_up_bound": ""}
    return plain | {"rounds_to": 12.0, "time_to": 100.0, "final": 0.9} | values


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({}, "oort reaches 80 % in 0.50 of random's time (0.40 to 0.62 over 3 seeds)."),
        (
            {"speed_up_bound": ">="},
            "oort reaches 80 % in at most 0.50 of random's time (0.40 to 0.62 over 3 seeds).",
        ),
        (
            {"speed_up_bound": "<=", "reached": 2},
            "oort needs at least 0.50 of random's time to 80 % (0.40 to 0.62 over 3 seeds). "
            "oort reaches 80 % with only 2 of 3 seeds.",
        ),
        ({"speed_up_bound": "?", "reached": 1}, "oort reaches 80 % with only 1 of 3 seeds."),
        ({"speed_up": NAN, "reached": 0}, "oort does not reach 80 % with any of 3 seeds."),
        ({"speed_up": NAN}, "oort reaches 80 % after 12 rounds and 1 min 40 s, on average over 3 seeds."),
        ({"speed_up": NAN, "seeds": 1, "reached": 0}, "oort does not reach 80 %."),
        ({"target": NAN}, ""),
        (
            {"speed_up_low": 0.8},
            "oort reaches 80 % in 0.50 of random's time (0.40 to 1.25 over 3 seeds). "
            "The interval includes 1: these seeds do not distinguish the two.",
        ),
    ],
)
def test_sentences_about_speed(values, text):
    assert sentences.speed([row(**values)]) == text


def test_of_many_selectors_the_best_and_the_last_are_named():
    rows = [row(f"s{number}", speed_up=1.0 + number) for number in range(9)]
    text = sentences.speed(rows)
    assert [name for name in (f"s{number}" for number in range(9)) if name in text] == ["s0", "s6", "s7", "s8"]
    many = [example_run(name) for name in ("a", "b", "c", "d", "e", "f", "random")]
    assert sentences.evenness(many).count("under") == 5
    assert sentences.evenness(many).endswith("under random.")


def test_whoever_did_not_get_there_is_not_named_first():
    """A high bound from above is no high speed-up."""
    text = sentences.speed([row("poor", speed_up=9.0, speed_up_bound="<=", reached=1), row("good")])
    assert text.startswith("good reaches 80 %")


def test_sentences_about_runs_that_are_not_finished():
    stopped = dataclasses.replace(example_run(), result={"status": "stopped"})
    assert sentences.unfinished([example_run(), stopped]) == "Not finished: random, seed 0 (8 rounds so far)."
    assert sentences.unfinished([example_run()]) == ""


def test_sentences_about_late_updates():
    rows = [{"selector": name, "completed": 0.5, "arrived": late} for name, late in (("oort", 4.0), ("random", 2.0))]
    assert sentences.outcomes(rows) == (
        "Of the selected clients, 50 % delivered in time under oort and 50 % under random. "
        "Late updates that were merged afterwards: 4 under oort and 2 under random."
    )
    assert sentences.outcomes([{"selector": "a", "completed": NAN, "arrived": 0.0}]) == ""


# The command


@pytest.fixture
def call(monkeypatch, tmp_path, _no_files):
    app = typer.Typer()
    app.command()(report)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "140")

    def run(*arguments):
        return CliRunner().invoke(app, [str(argument) for argument in arguments])

    return run


@pytest.fixture
def comparison(tmp_path):
    folder = tmp_path / "both"
    for selector in ("oort", "random"):
        for seed in range(2):
            write_run(example_run(selector, seed), folder / "runs" / selector / str(seed))
    (folder / "comparison.json").write_text("{}")
    return folder


def test_the_command_prints_the_table_and_where_the_page_is(call, comparison):
    done = call("both", "--target", "0.7")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("2 selectors, 2 seeds each: 12 clients")
    assert [line.split()[0] for line in lines if line.startswith(("  oort", "  random"))] == ["oort", "random"]
    assert "speed-up" in done.stdout
    assert lines[-1] == "report: both/report/report.html"
    assert (comparison / "report" / "report.html").exists()
    assert call("both", "--target", "0.7").exit_code == 0


def test_the_command_takes_several_folders_and_a_place(call, comparison, tmp_path):
    done = call(comparison / "runs" / "oort", comparison / "runs" / "random" / "0", "--output", "here/page.html")
    assert done.exit_code == 0, done.output
    assert "<h1>Runs</h1>" in body(tmp_path / "here" / "page.html")
    done = call(comparison / "runs" / "oort" / "0", comparison / "runs" / "oort" / "1", "--title", "Mine")
    assert done.stdout.splitlines()[-1] == "report: runs/report-001/report.html"
    assert "<h1>Mine</h1>" in body(tmp_path / "runs" / "report-001" / "report.html")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["nowhere"], "does not exist"),
        (["both", "--target", "80"], "perhaps 0.8 was meant"),
        (["both", "--window", "0"], "window is 0"),
    ],
)
def test_the_command_refuses(call, comparison, arguments, problem):
    done = call(*arguments)
    assert isinstance(done.exception, InputError)
    assert problem in str(done.exception)
    assert not (comparison / "report").exists()


def test_a_narrow_terminal_leaves_columns_out(runs):
    from enlist.runs.printing import comparison_table

    rows = comparison_table(comparison_rows(runs, 0.8))
    console = open_console()
    shown = {}
    for width in (200, 110, 70):
        console.width = width
        with console.capture() as captured:
            show_table(console, rows, "Title")
        shown[width] = " ".join(captured.get().split())
    assert "not shown" not in shown[200]
    assert "Jain: evenness of updates" in shown[200]
    assert "3 columns not shown: Jain, seen, round time; see the report, or widen the terminal." in shown[110]
    assert "columns not shown: Jain, seen, round time," in shown[70]
    for width in (110, 70):
        assert "Jain:" not in shown[width], "what is not shown is not explained"
        assert "±: half a 95 % interval over seeds" in shown[width]
        assert "final: mean of the last three evaluations" in shown[width]
    assert folded("late / dropped / failed") == "late / dropped\n/ failed"
    assert folded("time to 80 %") == "time to\n80 %"
    assert folded("selector") == "selector"


def test_the_page_says_how_runs_were_made_what_is_no_default_first(tmp_path):
    from enlist.report.made import made_section
    from enlist.runs.tables import read_run
    from enlist.simulation import Config, compare

    config = Config(data={"clients": 8, "partition": "iid"}, rounds={"rounds": 2, "k": 3})
    result = compare(config, "random,oort", seeds=1, folder=tmp_path / "out")
    tables = [read_run(run.folder) for run in result.runs]
    note = tables[0].folder / "environment.json"
    known = json.loads(note.read_text())
    note.write_text(json.dumps({**known, "command": "enlist compare <b>.toml", "date": "2026-01-02 03:04 UTC"}))
    section = made_section(tables)
    facts = dict(section.table)
    assert facts["command"] == "enlist compare <b>.toml"
    assert facts["begun"].startswith("2026-01-02 03:04 UTC to ")
    assert f"Python {known['python']}, enlist" in facts["versions"]
    own = {key: value for key, value in facts.items() if "." in key}
    assert own == {"data.clients": "8", "data.partition.kind": "iid", "rounds.rounds": "2", "rounds.k": "3"}
    rest = dict(section.folded)
    assert rest["rounds.over_commit"] == "1.0"
    assert not own.keys() & rest.keys()
    assert not [key for key in rest if key.startswith(("seed", "selector"))], "the page tells these elsewhere"
    page = write_report(tables, tmp_path / "page.html").read_text()
    assert "<details><summary>The rest of the configuration</summary>" in page
    assert "&lt;b&gt;.toml" in page
    assert page == write_report(tables, tmp_path / "again.html").read_text(), "the same runs give the same page"
    note.write_text("{")
    assert "command" not in dict(made_section(tables[:1]).table), "a damaged note costs no report"


def test_scores_that_are_known_are_not_computed_again(tmp_path, monkeypatch):
    runs = [example_run(name, seed) for name in ("random", "oort") for seed in (0, 1)]
    write_report(runs, tmp_path / "one", target=0.7)
    rows = comparison_rows(runs, 0.7)
    monkeypatch.setattr("enlist.report.runs.comparison_rows", None)
    write_report(runs, tmp_path / "two", target=0.7, rows=rows)
    assert (tmp_path / "one" / "scores.json").read_text() == (tmp_path / "two" / "scores.json").read_text()
    assert [row["selector"] for row in json.loads((tmp_path / "two" / "scores.json").read_text())] == ["oort", "random"]


def test_doubts_are_said_once():
    rows = [row(selector="oort"), row(selector="bsfl", speed_up_low=0.8), row(selector="tifl", speed_up_low=0.9)]
    text = sentences.speed(rows)
    assert text.endswith("The intervals of bsfl and tifl include 1: these seeds do not distinguish them from random.")
    assert sentences.speed(rows[:2]).endswith(
        "The interval of bsfl includes 1: these seeds do not distinguish it from random."
    )
