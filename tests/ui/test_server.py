"""The server answers with what the folders hold: views, tables, charts, metrics, and what has changed."""

from __future__ import annotations

import asyncio
import csv
import gzip
import io
import json
import re
import time
from pathlib import Path

import anyio
import pytest

from enlist.runs.comparing import comparison_rows
from enlist.runs.example import example_run, write_run
from enlist.runs.printing import comparison_table
from enlist.runs.scores import run_scores
from enlist.runs.tables import read_run
from enlist.ui.answers import AnswerCache
from enlist.ui.catalogue import Catalogue
from enlist.ui.metrics import METRICS, metrics, names
from enlist.ui.watcher import Viewer, Watcher
from tests.ui.ui_helpers import Server, comparison, everything, federation, unfinished

LARGEST = 1_000_000


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return everything(tmp_path_factory.mktemp("ui") / "all")


@pytest.fixture(scope="module")
def page(folders):
    with Server(folders) as client:
        yield client


VIEWS = (
    "run/all/single",
    "compare?of=all/compared",
    "compare?of=all/single&of=all/compared",
    "client/all/single?client=19&round=5",
    "federation/all/clinic",
    "client/all/clinic?client=phone-11&round=3",
    "personal/all/personal/2/0",
    "study/all/study",
)


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_with_its_charts_and_tables(page, view):
    path = view.partition("?")[0]
    found = page.get(f"/data/{view}")
    assert found.status_code == 200, found.text
    content = found.json()
    assert content["state"]["state"] != "damaged", content["state"]
    assert content["title"]
    assert len(found.content) < LARGEST
    assert page.get(f"/{view}").headers["content-type"].startswith("text/html")
    drawn = 0
    for name in {name for part in content["parts"] for name in part["charts"]}:
        chart = page.get(f"/chart/{name}/{view}")
        assert chart.status_code == 200, (name, chart.text)
        assert len(chart.content) < LARGEST
        drawn += "spec" in chart.json()
        assert not chart.json().get("empty", "").startswith("This chart cannot")
    assert drawn or path.startswith("study")
    for name in content["tables"]:
        table = page.get(f"/table/{name}/{view}")
        assert table.status_code == 200, (name, table.text)
        assert table.headers["content-disposition"].startswith("attachment")
        assert csv.reader(io.StringIO(table.text))
    for part in content["parts"]:
        if not part.get("table"):
            continue
        table = page.get(f"/table/{part['csv']}/{view}")  # every table that is shown is offered as CSV
        assert table.status_code == 200, (part["heading"], part["csv"])
        assert len(list(csv.reader(io.StringIO(table.text)))) > len(part["table"]["rows"]) * (
            part["csv"] not in content["tables"]
        )


def test_the_overview_has_every_folder(page):
    found = page.get("/data/runs").json()
    assert {row["id"]: row["kind"] for row in found["rows"]} == {
        "all/clinic": "federation",
        "all/compared": "comparison",
        "all/compared/runs/oort/0": "run",
        "all/compared/runs/oort/1": "run",
        "all/compared/runs/random/0": "run",
        "all/compared/runs/random/1": "run",
        "all/personal/2/0": "personal",
        "all/single": "run",
        "all/study": "study",
    }
    whole = next(row for row in found["rows"] if row["id"] == "all/compared")
    assert (whole["state"], whole["runs"], whole["methods"]) == ("finished", 4, 2)
    assert "selector.name" in found["keys"]


def test_it_is_filtered_sorted_and_grouped(page):
    def ids(query):
        return [row["id"] for row in page.get(f"/data/runs?{query}").json()["rows"]]

    assert ids("q=oort+runs") == ["all/compared/runs/oort/0", "all/compared/runs/oort/1"]
    assert ids("kind=federation") == ["all/clinic"]
    assert ids("state=running") == []
    assert ids("q=compared&down=1") == [
        "all/compared", *(f"all/compared/runs/{name}" for name in ("random/1", "random/0", "oort/1", "oort/0"))
    ]  # fmt: skip
    finals = [row["final"] for row in page.get("/data/runs?sort=final&down=1&kind=run").json()["rows"]]
    assert finals == sorted(finals, reverse=True)
    grouped = page.get("/data/runs?group=k&kind=run").json()["rows"]
    assert [row["group"] for row in grouped] == sorted((row["group"] for row in grouped), key=float)
    assert page.get("/data/runs?sort=colour").status_code == 400


def test_a_method_has_one_colour_everywhere(page):
    rows = page.get("/data/runs").json()["rows"]
    colours = {row["method"]: row["colour"] for row in rows if row["kind"] in ("run", "federation")}
    assert len({row["colour"] for row in rows if row["method"] == "oort"}) == 1
    for view in ("compare?of=all/compared", "federation/all/clinic", "compare?of=all/single&of=all/compared"):
        name = "curves-rounds" if "single" in view else "loss-rounds"
        text = json.dumps(page.get(f"/chart/{name}/{view}").json())
        assert colours["oort"] in text
        scale = next(
            found for found in walk(page.get(f"/chart/{name}/{view}").json()) if "oort" in (found.get("domain") or ())
        )
        for method, colour in zip(scale["domain"], scale["range"], strict=True):
            assert colours[method] == colour


def walk(value):
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from walk(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from walk(inner)


def test_numbers_are_those_of_the_tables(page, folders):
    runs = [
        read_run(folders / "compared" / "runs" / name / str(seed)) for name in ("oort", "random") for seed in (0, 1)
    ]
    shown = page.get("/data/compare?of=all/compared").json()["parts"][0]["table"]
    lines = comparison_table(comparison_rows(runs))
    assert [shown["columns"], *shown["rows"]] == lines
    text = page.get("/table/rounds/run/all/single").text
    rounds = read_run(folders / "single").rounds
    back = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["end"]) for row in back] == rounds["end"].tolist()
    figures = {each["name"]: each["value"] for each in page.get("/data/run/all/single").json()["figures"]}
    scores = run_scores(read_run(folders / "single"))
    assert figures["last accuracy"] == f"{100 * scores['last']:.1f} %"
    assert figures["Jain"] == f"{scores['jain']:.2f}"


def test_why_a_client_was_chosen_or_was_not(page):
    text = page.get("/data/client/all/single?client=19&round=5").json()["parts"][0]["text"]
    assert text[0].startswith("Round 5: bsfl selected")
    assert "Client 19 was not chosen" in text[1]
    assert page.get("/data/client/all/single?client=999").status_code == 404
    assert "0 to 29" in page.get("/data/client/all/single?client=999").json()["error"]
    assert page.get("/data/client/all/single?client=3&round=99").status_code == 404
    assert page.get("/data/client/all/single?client=3&round=x").status_code == 400


def test_an_operator_sees_trouble_first(page):
    found = page.get("/data/federation/all/clinic").json()
    figures = {each["name"]: each["value"] for each in found["figures"]}
    assert (figures["nodes online"], figures["refused"], figures["doubted"]) == ("10", "1", "1")
    assert [part["heading"] for part in found["parts"]][:2] == ["Nodes", "Events"]
    assert "its reply holds no model" in json.dumps(found["parts"][1])


def test_a_report_is_made_from_the_page(page):
    for view in ("compare?of=all/compared", "run/all/single", "federation/all/clinic", "personal/all/personal/2/0"):
        found = page.get(f"/report/{view}")
        assert found.status_code == 200, found.text
        assert found.headers["content-disposition"].startswith("attachment")
        assert "vegaEmbed" in found.text


def test_unknown_addresses_say_so(page):
    for address in ("/data/run/all/none", "/data/nothing/all/single", "/data/compare", "/pages/none.js", "/none"):
        found = page.get(address)
        assert found.status_code == 404
        assert found.json()["error"]
    assert (
        "there are" in page.get("/chart/none/run/all/single").json()["error"]
        or "Known" in page.get("/chart/none/run/all/single").json()["error"]
    )


def test_what_has_not_changed_is_not_sent_again(page):
    first = page.get("/data/run/all/single")
    assert first.headers["etag"]
    again = page.get("/data/run/all/single", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_a_damaged_run_says_so_and_hides_nothing(tmp_path):
    comparison(tmp_path / "all")
    broken = tmp_path / "all" / "runs" / "oort" / "0"
    (broken / "participations.csv").write_text("round,client\nx,\n")
    with Server(tmp_path / "all") as client:
        found = client.get("/data/run/all/runs/oort/0").json()
        assert found["state"]["state"] == "damaged"
        assert "participations.csv" in json.dumps(found)
        assert str(tmp_path) not in json.dumps(found)
        both = client.get("/data/compare?of=all").json()
        assert "participations.csv" in json.dumps(both["parts"][-1])
        assert len(both["parts"][0]["table"]["rows"]) == 2
        assert client.get("/chart/accuracy-time/compare?of=all").status_code == 200


def test_a_run_that_has_just_begun_is_shown(tmp_path):
    folder = write_run(example_run(), tmp_path / "all" / "run")
    for name in ("rounds.csv", "participations.csv", "result.json", "clients.csv"):
        (folder / name).unlink()
    (folder / "lock").touch()
    with Server(tmp_path / "all") as client:
        assert client.get("/data/runs").json()["rows"][0]["state"] == "waiting"
        found = client.get("/data/run/all/run").json()
        assert found["parts"][0]["heading"] == "Nothing to show yet"


def test_metrics_are_what_prometheus_reads(tmp_path):
    federation(tmp_path / "lab" / "clinic")
    unfinished(tmp_path / "lab" / "going", rounds=4, of=8)
    write_run(example_run(), tmp_path / "lab" / "done")
    with Server(tmp_path / "lab") as client:
        text = client.get("/metrics").text
    assert text.endswith("\n")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    values = dict(line.rpartition(" ")[::2] for line in lines)
    clinic = 'run="lab/clinic",kind="federation",method="oort",seed="3"'
    for name, number in (
        ("selected", 16),
        ("completed", 15),
        ("failed", 1),
        ("refused", 1),
        ("doubted", 1),
        ("rounds", 4),
    ):
        assert values[f"enlist_{METRICS[name].name}{{{clinic}}}"] == str(number), name
    assert float(values[f"enlist_checkpoint_age_seconds{{{clinic}}}"]) >= 0
    assert 'run="lab/going"' in text
    assert 'run="lab/done"' not in text
    assert values['enlist_runs{state="finished"}'] == "2"
    told = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(told) == len(set(told))


def test_the_dashboard_asks_for_metrics_that_exist():
    text = (Path(__file__).parents[2] / "docs" / "grafana.json").read_text()
    asked = set(re.findall(r"enlist_[a-z_]+", json.dumps(json.loads(text)["panels"])))
    assert len(asked) > 8
    assert asked <= {*names(), "enlist_runs", "enlist_state"}


def test_the_former_name_of_a_metric_is_told_with_the_same_value(tmp_path):
    federation(tmp_path / "lab" / "clinic")
    catalogue = Catalogue([tmp_path / "lab"])
    catalogue.refresh()
    lines = metrics(catalogue).splitlines()
    [now] = [line for line in lines if line.startswith("enlist_selected_total{")]
    [former] = [line for line in lines if line.startswith("enlist_asked_total{")]
    assert former == now.replace("selected", "asked", 1)
    assert "# HELP enlist_asked_total The former name of enlist_selected_total." in lines


def test_labels_of_metrics_are_escaped(tmp_path):
    federation(tmp_path / "lab" / "clinic")
    config = json.loads((tmp_path / "lab" / "clinic" / "config.json").read_text())
    config["selector"] = {"name": 'a"} 1\nenlist_rounds_total 9 \\'}
    (tmp_path / "lab" / "clinic" / "config.json").write_text(json.dumps(config))
    catalogue = Catalogue([tmp_path / "lab"])
    catalogue.refresh()
    text = metrics(catalogue)
    assert "\nenlist_rounds_total 9" not in text
    assert 'method="a\\"} 1' in text


def test_answers_are_packed_for_who_wants_that(page):
    plain = page.get("/data/run/all/single", headers={"Accept-Encoding": "identity"})
    packed = page.get("/data/run/all/single", headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.json() == plain.json()


def test_viewers_are_told_within_two_seconds_and_only_of_what_concerns_them(tmp_path):
    folder = unfinished(tmp_path / "all" / "mine", rounds=4, of=8)
    unfinished(tmp_path / "all" / "other", rounds=4, of=8)
    whole = (write_run(example_run("oort"), tmp_path / "whole") / "rounds.csv").read_text().splitlines(keepends=True)

    async def run():
        watch = Watcher(Catalogue([tmp_path / "all"]))
        task = asyncio.create_task(watch.run())
        mine, other = Viewer(["all/mine"]), Viewer(["all/other"])
        streams = [watch.stream(viewer) for viewer in (mine, other)]
        for stream in streams:
            assert "hello" in await anext(stream)
        await watch.refresh()
        await asyncio.sleep(0.6)
        for viewer in (mine, other):
            viewer.wake.clear()
        with (folder / "rounds.csv").open("a") as file:
            file.write(whole[5])
        began = time.monotonic()
        async with asyncio.timeout(2.0):
            assert "event: change" in await anext(streams[0])
        assert time.monotonic() - began < 2.0
        assert not other.wake.is_set()
        for stream in streams:
            await stream.aclose()
        assert watch.viewers == set()
        task.cancel()

    asyncio.run(run())


def test_who_asks_at_once_shares_one_answer():
    async def run():
        kept, calls = AnswerCache(), []

        def make():
            calls.append(1)
            time.sleep(0.05)
            return b"x" * 2_000

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(kept.get, "view", "v1", make)
        assert len(calls) == 1
        answer = await kept.get("view", "v1", make)
        assert gzip.decompress(answer.packed) == answer.body
        await kept.get("view", "v2", make)
        assert len(calls) == 2

    asyncio.run(run())


def test_answers_are_kept_within_a_bound():
    async def run():
        kept = AnswerCache(room=10_000)
        for number in range(100):
            await kept.get(number, "v", lambda: b"x" * 900)
        assert kept.size <= 10_000

    asyncio.run(run())


def test_an_error_is_told_to_all_who_wait_and_not_kept():
    async def run():
        kept = AnswerCache()

        def fail():
            raise ValueError("no")

        for _ in range(2):
            with pytest.raises(ValueError, match="no"):
                await kept.get("view", "v", fail)
        assert (await kept.get("view", "v", lambda: b"yes")).body == b"yes"

    asyncio.run(run())
