"""The command line: what it writes and prints, and what it says when something is wrong."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

import enlist
from enlist.arena import SCENARIOS, MatchRecord, Summary, Tournament, compare
from enlist.arena.compare import Results
from enlist.cli import main
from enlist.cli.app import app
from enlist.cli.arena import HEADER, LEGEND, describe, interval, table
from enlist.cli.console import new_folder, numbered, to_resume
from enlist.cli.tables import show_table
from enlist.errors import InputError
from enlist.report.charts import colours, styled
from enlist.report.page import Section, write_page
from enlist.report.regret import regret_chart, regret_rows

SMALL = ["--clients", "10", "-k", "2", "--rounds", "8", "--seeds", "2", "--jobs", "1"]
SCRIPT = Path(sys.executable).parent / ("enlist.exe" if os.name == "nt" else "enlist")
OUTSIDE = re.compile(r"""(?:\bsrc|\bhref)\s*=\s*["']?\s*(?:https?:)?//""", re.IGNORECASE)


def enlisted(*arguments, environment=None, cwd=None):
    """The installed script in a process of its own, its output in pipes."""
    surroundings = {**os.environ, **(environment or {})}
    surroundings.pop("FORCE_COLOR", None)
    return subprocess.run(
        [str(SCRIPT), *arguments], capture_output=True, text=True, env=surroundings, cwd=cwd, check=False, timeout=120
    )


@pytest.fixture
def call(monkeypatch, capsys, tmp_path):
    """`main` in this process; gives exit code, standard output and standard error."""

    def run(*arguments):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["enlist", *arguments])
        with pytest.raises(SystemExit) as stop:
            main()
        code = stop.value.code
        found = capsys.readouterr()
        return (0 if code is None else code), found.out, found.err

    return run


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small run of the real script."""
    folder = tmp_path_factory.mktemp("arena")
    done = enlisted("arena", *SMALL, "--selectors", "bsfl:paper,random,genie", "--output", "out", cwd=folder)
    return folder / "out", done


# A run


def test_a_run_writes_everything_and_says_where(finished):
    folder, done = finished
    assert done.returncode == 0, done.stderr
    names = ["curves.csv", "regret.html", "regret.png", "regret.svg", "report.html", "scores.csv", "settings.json"]
    assert sorted(path.name for path in folder.iterdir()) == names
    assert all(path.stat().st_size > 100 for path in folder.iterdir())
    assert (folder / "regret.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert "<svg" in (folder / "regret.svg").read_text(encoding="utf-8")[:500]
    assert done.stderr == ""
    assert done.stdout.rstrip().endswith("report: out/report.html")


def test_the_table_is_printed(finished):
    _, done = finished
    lines = done.stdout.splitlines()
    assert lines[0].rstrip() == "10 clients, 2 a round, 8 rounds, 2 seeds · slow-minority"
    header = next(line for line in lines if "selector" in line)
    titles = re.split(r"\s{2,}", header.strip())
    assert titles == ["selector", "pseudo regret", *HEADER[2:]]
    cells = [
        re.split(r"\s{2,}", line.strip()) for line in lines if line.startswith("  ") and line.rstrip().endswith("%")
    ]
    rows = {row[0]: dict(zip(titles, row, strict=True)) for row in cells}
    assert list(rows) == ["bsfl:paper", "random", "genie"]
    assert rows["genie"]["pseudo regret"] == "0.0 ± 0.0", "the genie has no regret"
    assert rows["genie"]["rollout"] == "–"
    assert rows["genie"]["vs random"].endswith("%")
    assert rows["random"]["vs random"] == "–"
    assert re.fullmatch(r"-?\d+\.\d ± \d+\.\d", rows["random"]["rollout"])


def test_pipes_get_no_escape_codes_and_no_progress_bar(finished):
    _, done = finished
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout
    assert " runs" not in done.stdout
    assert "━" * 40 not in done.stdout.split("┏")[0]


def test_the_files_hold_what_was_asked_for(finished):
    folder, _ = finished
    settings = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
    assert settings["selectors"] == ["bsfl:paper", "random", "genie"]
    assert (settings["clients"], settings["k"], settings["rounds"], settings["seeds"]) == (10, 2, 8, 2)
    with open(folder / "scores.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6
    assert {float(row["pseudo_regret"]) for row in rows if row["selector"] == "genie"} <= {0.0}
    with open(folder / "curves.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 6 * 8


@pytest.mark.parametrize("name", ["report.html", "regret.html"])
def test_pages_open_without_a_network(finished, name):
    page = (finished[0] / name).read_text(encoding="utf-8")
    tags = re.findall(r"<(?:script|link|img|iframe|style)\b[^>]*>", page)
    assert tags
    assert [tag for tag in tags if OUTSIDE.search(tag)] == []
    assert "@import" not in page
    assert "cdn.jsdelivr.net/npm/vega@" not in page
    assert page.count("<script") >= 1
    assert len(page) > 300_000, "the charts' library is not inside"


def test_the_report_shows_the_table_and_three_charts(finished):
    page = (finished[0] / "report.html").read_text(encoding="utf-8")
    assert "<h2>10 clients, 2 a round, 8 rounds, 2 seeds · slow-minority</h2>" in page
    for name in ("selector", "pseudo regret", *HEADER[2:]):
        assert f"<th>{name}</th>" in page
    for name in ("bsfl:paper", "random", "genie"):
        assert f"<td>{name}</td>" in page
    assert page.count(' data-chart="chart') == 3
    assert page.count('<div id="chart') == 3
    assert "</html>" in page[-20:]


def test_the_results_are_those_of_the_library(finished):
    settings = Tournament(("bsfl:paper", "random", "genie"), "slow-minority", clients=10, k=2, rounds=8, seeds=2)
    expected = compare(settings)
    with open(finished[0] / "scores.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            record = expected[row["selector"], int(row["seed"])]
            assert {name: float(row[name]) for name in record.scores} == record.scores


def test_two_processes_give_the_same_files(finished, call, tmp_path):
    code, _, _ = call("arena", *SMALL[:-1], "2", "--selectors", "bsfl:paper,random,genie", "--output", "two")
    assert code == 0
    for name in ("scores.csv", "curves.csv", "settings.json", "report.html"):
        assert (tmp_path / "two" / name).read_bytes() == (finished[0] / name).read_bytes(), name


def test_without_output_the_next_free_folder_is_taken(call, tmp_path):
    for number in (1, 2):
        code, out, _ = call("arena", *SMALL, "--selectors", "random")
        assert code == 0
        assert f"report: runs/arena-00{number}/report.html" in out
        assert (tmp_path / "runs" / f"arena-00{number}" / "report.html").exists()


def test_options_reach_the_run(call, tmp_path):
    options = ["--selectors", " random , cs-ucb,", "--scenario", "uneven", "--reward", "printed", "--alpha", "3"]
    more = ["--over-commit", "1.5", "--delay", "1", "--late", "learn", "--output", "deep/er"]
    code, _, error = call("arena", *SMALL, *options, *more)
    assert code == 0, error
    settings = json.loads((tmp_path / "deep" / "er" / "settings.json").read_text(encoding="utf-8"))
    assert settings["selectors"] == ["random", "cs-ucb"]
    assert (settings["scenario"], settings["over_commit"], settings["delay"]) == ("uneven", 1.5, 1)
    assert settings["late"] == "learn"
    assert settings["reward"] == {"alpha": 3.0, "beta": 1.0, "normalised": False, "by_size": False, "capped": False}


@pytest.mark.parametrize("smallest", [["--rounds", "1"], ["--seeds", "1"], ["--clients", "1", "-k", "1"]], ids=str)
def test_the_smallest_runs_work(call, smallest):
    code, out, error = call("arena", *SMALL, "--selectors", "random,genie", *smallest)
    assert (code, error) == (0, "")
    assert "report:" in out
    assert "nan" not in out
    assert "-0.0" not in out


def test_a_run_of_the_genie_alone_works(call):
    code, out, _ = call("arena", *SMALL, "--selectors", "genie")
    assert code == 0
    assert "genie" in out


# What is refused


def refused(found, *parts):
    code, out, error = found
    assert code == 2
    assert out == ""
    assert "Traceback" not in error
    assert "\x1b" not in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1, f"not one sentence: {error}"
    assert error.rstrip().endswith(".")
    for part in parts:
        assert part in error, error


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--selectors", "bsfk"], ["'bsfk'", "Did you mean 'bsfl'", "oort"]),
        (["--selectors", "random,nobody"], ["'nobody'"]),
        (["--selectors", "bsfl:papr"], ["'bsfl'", "'papr'", "paper"]),
        (["--selectors", "random:paper"], ["'random'", "'paper'"]),
        (["--selectors", ","], ["no methods were given"]),
        (["--scenario", "diurnall"], ["'diurnall'", "Did you mean 'diurnal'"]),
        (["--reward", "real"], ["reward", "'real'", "normalised", "printed"]),
        (["--regret", "real"], ["regret", "'real'", "hypervolume", "pseudo"]),
        (["--late", "maybe"], ["late", "'maybe'", "learn", "drop"]),
        (["-k", "0"], ["k is 0", "at least 1"]),
        (["-k", "-3"], ["k is -3"]),
        (["--clients", "0"], ["clients is 0"]),
        (["--clients", "-1"], ["clients is -1"]),
        (["--rounds", "0"], ["rounds is 0"]),
        (["--rounds", "-5"], ["rounds is -5"]),
        (["--seeds", "0"], ["seeds is 0", "at least 1"]),
        (["--seeds", "-1"], ["seeds is -1", "at least 1"]),
        (["--jobs", "-1"], ["jobs is -1"]),
        (["--delay", "-1"], ["delay is -1"]),
        (["--over-commit", "0.5"], ["over_commit is 0.5"]),
        (["--over-commit", "nan"], ["over_commit is nan"]),
        (["--alpha", "nan"], ["alpha is nan"]),
        (["--alpha", "-1"], ["alpha is -1"]),
        (["--selectors", "[/bold]"], ["'[/bold]'"]),
        (["--selectors", "[red]bsfl"], ["'[red]bsfl'"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("-") else "",
)
def test_what_cannot_be_is_refused_in_one_sentence(call, tmp_path, arguments, parts):
    refused(call("arena", *SMALL, *arguments), *parts)
    assert list(tmp_path.iterdir()) == [], "a refused run left files behind"


def test_a_folder_that_holds_something_is_not_touched(call, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious.txt").write_text("keep", encoding="utf-8")
    refused(call("arena", *SMALL, "--output", "mine"), "mine", "not empty", "--output")
    refused(call("demo", "--output", "mine"), "mine", "not empty", "--output")
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["precious.txt"]
    refused(call("arena", *SMALL, "--output", "mine/precious.txt"), "precious.txt")


def test_an_empty_folder_is_used(tmp_path):
    (tmp_path / "new").mkdir()
    with new_folder(tmp_path / "new", "arena") as folder:
        assert folder == tmp_path / "new"
        (folder / "x").write_text("x", encoding="utf-8")
    with pytest.raises(InputError), new_folder(tmp_path, "arena"):
        pass


def test_folders_are_numbered_and_an_unused_one_goes_away(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with new_folder(None, "arena") as first, new_folder(None, "arena") as second:
        assert (first.name, second.name) == ("arena-001", "arena-002")
        (second / "x").write_text("x", encoding="utf-8")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["arena-002"]


def test_a_folder_that_cannot_be_made_is_refused_before_the_run(call, tmp_path):
    (tmp_path / "file").write_text("x", encoding="utf-8")
    refused(call("arena", *SMALL, "--selectors", "random", "--output", "file/inside"), "file/inside")


def test_a_path_with_brackets_is_printed_as_it_is(call, tmp_path):
    code, out, _ = call("arena", *SMALL, "--selectors", "random", "--output", "run[bold]")
    assert code == 0
    assert (tmp_path / "run[bold]" / "report.html").exists()
    assert "report: run[bold]/report.html" in out


@pytest.mark.parametrize("arguments", [["arena", "--clients", "many"], ["arena", "--nonsense"], ["nonsense"]], ids=str)
def test_what_cannot_be_parsed_is_refused_by_name(call, arguments):
    code, _, error = call(*arguments)
    assert code == 2
    assert "Traceback" not in error
    assert arguments[-1] in error


def test_the_real_script_refuses_too():
    done = enlisted("arena", "--selectors", "bsfk")
    refused((done.returncode, done.stdout, done.stderr), "'bsfk'", "Did you mean 'bsfl'")


def test_output_that_knows_only_ascii_gets_ascii(tmp_path):
    done = enlisted("arena", *SMALL, "--selectors", "random", environment={"PYTHONIOENCODING": "ascii"}, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-300:]
    assert done.stdout.isascii()


# Lists, version, help


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.output == f"enlist {enlist.__version__}\n"
    assert enlisted("--version").stdout == result.output


@pytest.mark.parametrize("arguments", [["list"], ["list", "selectors"]], ids=str)
def test_list_selectors(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    first = [line.split()[0] for line in result.output.splitlines()[3:] if line.startswith("  ") and line[2:3].strip()]
    assert [name for name in first if name] == enlist.names()
    oort = next(line for line in result.output.splitlines() if line.startswith("  oort"))
    assert "Lai et al. 2021" in oort
    assert "latency, loss_rms" in oort


def test_list_scenarios():
    result = CliRunner().invoke(app, ["list", "scenarios"])
    assert result.exit_code == 0
    lines = result.output.splitlines()[3:]
    rows = {line.split()[0]: line for line in lines if line.startswith("  ") and line[2:3].strip()}
    assert list(rows) == list(SCENARIOS)
    assert "reshuffled" in rows["changing"]


def test_list_refuses_what_there_is_not(call):
    refused(call("list", "datsets"), "'datsets'", "datasets", "selectors", "scenarios")


@pytest.mark.parametrize("command", ["arena", "demo", "list", "run", "compare", "report", "describe", "profile", "ui"])
def test_help_has_an_example(command):
    result = CliRunner().invoke(app, [command, "--help"], terminal_width=200)
    assert result.exit_code == 0
    assert f"Example: enlist {command}" in " ".join(result.output.split())
    assert CliRunner().invoke(app, [command, "-h"]).exit_code == 0


def test_the_example_of_the_help_is_accepted():
    text = " ".join(CliRunner().invoke(app, ["arena", "--help"], terminal_width=300).output.split())
    example = re.search(r"Example: enlist (arena [^╭]*?--seeds \d+)", text)
    assert example
    # Everything but its size: click takes the last of two values.
    result = CliRunner().invoke(app, [*example[1].split(), *SMALL, "--output", "/dev/null/nowhere"])
    assert "No such option" not in result.output
    assert result.exit_code != 2


def test_the_bare_command_shows_help(call):
    _, out, error = call()
    assert "arena" in out + error
    assert "demo" in out + error


# Without the extra


@pytest.mark.parametrize("missing", ["typer", "rich", "altair", "vl_convert"])
def test_without_the_extra_one_line_says_what_to_type(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import enlist.cli; sys.argv = ['enlist', 'arena', '-k', '3']"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; enlist.cli.main()"], capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert done.stdout == ""
    assert done.stderr == "'enlist arena' needs the extra 'cli': pip install 'enlist[cli]'\n"


def test_nothing_of_the_extra_is_needed_to_use_the_library():
    block = "; ".join(f"sys.modules[{name!r}] = None" for name in ("typer", "rich", "altair", "vl_convert"))
    use = "import enlist.arena as a; a.compare(a.Tournament(('random',), 'alike', clients=5, k=2, rounds=3, seeds=1))"
    done = subprocess.run([sys.executable, "-c", f"import sys; {block}; {use}"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


# Tables, charts, pages


@pytest.fixture(scope="module")
def played() -> tuple[Tournament, Results]:
    settings = Tournament(("bsfl", "random", "genie"), "slow-minority", clients=10, k=2, rounds=30, seeds=3)
    return settings, compare(settings)


def test_the_table_holds_the_summaries(played):
    settings, results = played
    header, *rows = table(settings, results)
    assert header == ["selector", "pseudo regret", *HEADER[2:]]
    by_name = {row[0]: dict(zip(header, row, strict=True)) for row in rows}
    times = {name: [results[name, seed].scores["round_time"] for seed in range(3)] for name in settings.selectors}
    mean = {name: sum(values) / 3 for name, values in times.items()}
    assert by_name["bsfl"]["round time"].startswith(f"{mean['bsfl']:.3f} ± ")
    change = 100 * (mean["bsfl"] - mean["random"]) / mean["random"]
    assert by_name["bsfl"]["vs random"].startswith(f"{change:.1f} ± ")
    assert by_name["random"]["vs random"] == "–"
    assert by_name["genie"]["pseudo regret"] == "0.0 ± 0.0"
    lost = [
        results["genie", s].scores["expected_reward"] - results["bsfl", s].scores["expected_reward"] for s in range(3)
    ]
    assert by_name["bsfl"]["rollout"] == interval(Summary.of(lost))
    seen = 100 * sum(results["bsfl", seed].scores["coverage"] for seed in range(3)) / 3
    assert by_name["bsfl"]["seen"] == f"{seen:.0f}%"
    alone = Tournament(("bsfl",), "slow-minority", clients=10, k=2, rounds=30, seeds=3)
    without = {key: record for key, record in results.items() if key[0] == "bsfl"}
    row = dict(zip(header, table(alone, without)[1], strict=True))
    assert (row["vs random"], row["rollout"]) == ("–", "–"), "nothing to compare with"
    header, *rows = table(settings, results, "hypervolume")
    assert header[1] == "hypervolume regret"
    area = [results["random", seed].scores["hypervolume_regret"] for seed in range(3)]
    assert rows[1][1] == interval(Summary.of(area))


def test_the_table_fits_a_terminal_of_eighty_columns(played):
    settings, results = played
    console = Console(width=80, force_terminal=True, color_system=None)
    with console.capture() as capture:
        show_table(console, table(settings, results), describe(settings), LEGEND, ("rollout", "seen", "Jain"))
    assert "…" not in capture.get(), "figures are cut off"
    assert "2 columns not shown: rollout, seen; see the report, or widen the terminal." in capture.get()
    assert "rollout:" not in capture.get(), "what is not shown is not explained"
    assert "±: half a 95 % interval over seeds" in " ".join(capture.get().split())


def test_intervals_are_written_with_sense():
    assert interval(Summary.of([1.0, 2.0, 3.0])) == "2.0 ± 2.5"
    assert interval(Summary.of([4.0])) == "4.0"
    assert interval(Summary(12345.6, 12000.0, 12691.2)) == "12346 ± 346"
    assert interval(Summary(-61.25, -62.25, -60.25), "%") == "-61.2 ± 1.0%"
    assert interval(Summary(-1e-17, -1e-17, -1e-17)) == "0.0 ± 0.0", "minus nothing is nothing"


def test_rows_of_a_chart_are_summaries_of_the_curves(played):
    settings, results = played
    rows = regret_rows(results, "printed")
    assert len(rows) == 3 * 30
    for row in rows:
        curves = [results[row["selector"], seed].curves["printed"] for seed in range(3)]
        summary = Summary.of([curve[row["round"] - 1] for curve in curves])
        assert row["mean"] == summary.mean
        assert row["high"] == summary.high
        assert row["low"] <= row["mean"] <= row["high"]
    assert list(dict.fromkeys(row["selector"] for row in rows)) == list(settings.selectors)


def test_a_band_surrounds_its_line_even_below_zero():
    results = {
        ("lucky", seed): MatchRecord([1], {"printed": [value]}, None, {})
        for seed, value in enumerate([-2.0, -1.0, -1.5])
    }
    row = regret_rows(results, "printed")[0]
    assert row["low"] <= row["mean"] <= row["high"]


def test_charts_are_pictures_of_their_rows(played):
    rows = regret_rows(played[1])
    chart = styled(regret_chart(rows, "A title", "an axis")).to_dict()
    assert chart["title"] == "A title"
    assert list(chart["datasets"].values()) == [rows]
    text = json.dumps(chart)
    assert '"an axis"' in text
    logarithmic = json.dumps(regret_chart(rows, "A title", logarithmic=True).to_dict())
    assert "symlog" in logarithmic
    assert "symlog" not in text


def test_random_is_grey_and_the_genie_dark_whoever_else_plays():
    for names in (["random", "genie", "bsfl"], ["bsfl", "oort", "genie", "random"]):
        scale = dict(zip(names, colours(names).range, strict=True))
        assert scale["random"] == "#8d99ae"
        assert scale["genie"] == "#2b2d42"
    many = [f"s{number}" for number in range(8)] + ["random", "genie"]
    found = colours(many).range
    assert len(set(found)) == len(found), "two selectors share a colour"


def test_pages_escape_what_they_are_given(tmp_path):
    rows = [{"selector": "</script><b>", "round": 1, "mean": 1.0, "low": 0.5, "high": 1.5}]
    section = Section(
        "<i>heading</i>", text="a < b", table=[["<x>"], ["&"]], charts=[regret_chart(rows, "t")], note="<n>"
    )
    page = write_page(tmp_path / "deep" / "page.html", "<t>", "<l>", [section]).read_text(encoding="utf-8")
    for raw in ("<i>heading", "<x>", "<n>", "<l>", "<t>"):
        assert raw not in page
    assert "&lt;i&gt;heading" in page
    assert "a &lt; b" in page
    assert page.count("</script>") == 3, "a name can end the script"  # a chart, the library, what draws


def test_pages_are_written_in_utf_8(tmp_path):
    code = (
        "from pathlib import Path; from enlist.report.page import write_page, Section; import sys;"
        r"write_page(Path(sys.argv[1]), 'T', '\u00b1', [Section('\u2013')])"
    )
    path = tmp_path / "page.html"
    surroundings = {**os.environ, "LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], env=surroundings, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-300:]
    assert "±" in path.read_text(encoding="utf-8")


def test_folders_are_numbered_after_the_last_one_and_that_is_resumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert numbered("bsfl-laptop") == Path("runs/bsfl-laptop-001")
    with pytest.raises(InputError, match="--resume finds no runs/bsfl-laptop-NNN here"):
        to_resume(None, "bsfl-laptop")
    for name in ("bsfl-laptop-002", "bsfl-laptop-010", "bsfl-laptop-1000", "bsfl-laptop-old", "bsfl-007"):
        (tmp_path / "runs" / name).mkdir(parents=True)
    with pytest.raises(InputError, match="runs/bsfl-laptop-1000 holds nothing to resume; leave --resume out"):
        to_resume(None, "bsfl-laptop")
    (tmp_path / "runs" / "bsfl-laptop-1000" / "config.json").touch()
    assert to_resume(None, "bsfl-laptop") == Path("runs/bsfl-laptop-1000")
    with pytest.raises(InputError, match="nowhere does not exist, so there is nothing to resume; leave --resume out"):
        to_resume(Path("nowhere"), "bsfl-laptop")
    assert numbered("bsfl-laptop") == Path("runs/bsfl-laptop-1001")
    assert numbered("bsfl") == Path("runs/bsfl-008")
