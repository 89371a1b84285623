"""A run of 3,500 clients and 1,000 rounds, and hundreds of runs: nothing sent is large, and looks stay cheap."""

from __future__ import annotations

import json
import shutil

import pytest

from enlist.runs.example import example_run, write_run
from enlist.ui.catalogue import Catalogue
from tests.ui.ui_helpers import Server, unfinished

LARGEST = 1_000_000


def test_a_large_run_is_sent_in_small_pieces(tmp_path):
    unfinished(tmp_path / "all" / "large", rounds=999, of=1_000, clients=3_500, k=50)
    with Server(tmp_path / "all") as client:
        for view in ("run/all/large?round=700", "client/all/large?client=3&round=700", "compare?of=all/large"):
            found = client.get(f"/data/{view}", headers={"Accept-Encoding": "identity"})
            assert found.status_code == 200
            assert len(found.content) < LARGEST
            for name in {name for part in found.json()["parts"] for name in part["charts"]}:
                chart = client.get(f"/chart/{name}/{view}", headers={"Accept-Encoding": "identity"})
                assert "cannot be drawn" not in chart.text
                assert len(chart.content) < LARGEST, name
        tables = client.application.catalogue.tables
        path = tmp_path / "all" / "large" / "participations.csv"
        following = next(each for (name, _), (each, _) in tables._tables.items() if name == str(path))
        with path.open("a") as file:
            file.write(path.read_text().splitlines()[-1] + "\n")
        client.get("/data/run/all/large?round=701")
        assert 0 < following.fresh < 200  # bytes: one row of 50,000
        assert tables.size < 60_000_000


@pytest.mark.verify
def test_a_large_comparison_is_sent_in_small_pieces(tmp_path):
    methods = [f"method-{number}" for number in range(12)]
    first = write_run(
        example_run(methods[0], 0, clients=3_500, rounds=1_000, k=50), tmp_path / "all" / "runs" / methods[0] / "0"
    )
    for name in methods[1:]:
        copy = shutil.copytree(first, tmp_path / "all" / "runs" / name / "0")
        config = json.loads((copy / "config.json").read_text())
        (copy / "config.json").write_text(json.dumps({**config, "selector": {"name": name}}))
    (tmp_path / "all" / "comparison.json").write_text(json.dumps({"selectors": methods, "seeds": 1}))
    with Server(tmp_path / "all") as client:
        found = client.get("/data/compare?of=all", headers={"Accept-Encoding": "identity"})
        assert len(found.content) < LARGEST
        assert len(found.json()["parts"][0]["table"]["rows"]) == len(methods)
        names = {name for part in found.json()["parts"] for name in part["charts"]}
        assert {"selected-by-speed", "accuracy-time", "evenness"} <= names
        sent = 0
        for name in names:
            chart = client.get(f"/chart/{name}/compare?of=all", headers={"Accept-Encoding": "identity"})
            assert "cannot be drawn" not in chart.text
            assert len(chart.content) < LARGEST / 2, name
            with client.stream("GET", f"/chart/{name}/compare?of=all", headers={"Accept-Encoding": "gzip"}) as packed:
                sent += sum(map(len, packed.iter_raw()))
        assert sent < LARGEST  # all that a browser is sent for this view


def test_an_overview_of_hundreds_of_runs_is_small(tmp_path):
    first = write_run(example_run("oort", 0, rounds=30), tmp_path / "all" / "0")
    for number in range(1, 600):
        shutil.copytree(first, tmp_path / "all" / str(number))
    with Server(tmp_path / "all") as client:
        found = client.get("/data/runs", headers={"Accept-Encoding": "identity"})
        assert len(found.json()["rows"]) == 600
        assert len(found.content) < LARGEST
        assert client.application.catalogue.tables.size == 0


def test_finished_runs_are_not_read_again(tmp_path, monkeypatch):
    for number in range(20):
        write_run(example_run("oort", number), tmp_path / "all" / str(number))
    catalogue = Catalogue([tmp_path / "all"])
    catalogue.refresh()
    read = []
    monkeypatch.setattr("enlist.ui.cache.summarise", lambda *given: read.append(given))
    catalogue._scanned = -1e9
    assert catalogue.refresh() == set()
    assert read == []
