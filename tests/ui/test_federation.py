"""A Flower federation is followed while it runs: its real strategy and folder, on a grid in memory."""

from __future__ import annotations

import csv
import io
import shutil
import threading
import time

import pytest

from tests.ui.ui_helpers import Server

pytest.importorskip("flwr")

from flwr.serverapp.strategy import FedAvg

from enlist.flower.fake import FakeGrid, FakeReply
from enlist.report.flower import shadow_sentence, shadow_table
from enlist.runs.tables import read_run
from tests.flower.flower_helpers import behaving, reply, run

ROUNDS = 6


def train(message):
    node = message.metadata.dst_node_id
    if node == 13:
        return FakeReply(1.0, error=(1, "its disk is full"))
    return FakeReply(0.5 * (node - 10), reply(message, client_id=f"phone-{node}", loss=0.5, loss_rms=0.6))


def test_a_federation_is_followed_round_by_round(tmp_path):
    place = tmp_path / "lab"
    place.mkdir()
    steps = [threading.Event() for _ in range(ROUNDS)]
    done: list[int] = []

    def on_round(told):
        done.append(told.number)
        steps[told.number - 1].wait(60)

    grid = FakeGrid(list(range(11, 19)), behaving(train))
    running = threading.Thread(
        target=run, args=(grid, ROUNDS, "oort"), kwargs={"folder": place / "clinic", "on_round": on_round}, daemon=True
    )
    running.start()
    seen: list[tuple[str, str]] = []
    with Server(place) as client:
        deadline = time.monotonic() + 120
        for number in range(1, ROUNDS + 1):
            while len(done) < number and time.monotonic() < deadline:
                time.sleep(0.02)
            ended = time.monotonic()
            while time.monotonic() < deadline:
                rows = {row["id"]: row for row in client.get("/data/runs").json()["rows"]}
                if rows.get("lab/clinic", {}).get("rounds") == number:
                    break
                time.sleep(0.05)
            assert time.monotonic() - ended < 10  # seconds of a busy machine; the page's own rule has a test of its own
            found = client.get("/data/federation/lab/clinic").json()
            figures = {each["name"]: each["value"] for each in found["figures"]}
            seen.append((rows["lab/clinic"]["state"], figures["rounds finished"]))
            steps[number - 1].set()
        running.join(60)
        client.application.catalogue._scanned = -1e9
        time.sleep(0.5)
        last = client.get("/data/federation/lab/clinic").json()
        assert last["state"]["state"] == "finished"
        assert "nodes online" in {each["name"] for each in last["figures"]}
        assert [part["heading"] for part in last["parts"]][:2] == ["Nodes", "Events"]
        why = client.get("/data/client/lab/clinic?client=phone-11&round=2").json()
        assert "phone-11" in why["parts"][0]["text"][1]
        assert 'enlist_rounds_total{run="lab/clinic"' in client.get("/metrics").text
    assert seen == [("running", str(number)) for number in range(1, ROUNDS + 1)]


def figures(found):
    return {each["name"]: each["value"] for each in found["figures"]}


def test_nodes_at_work_are_counted_in_buffered_mode(tmp_path):
    grid = FakeGrid(
        list(range(11, 31)), behaving(lambda message: FakeReply(message.metadata.dst_node_id - 10.0, reply(message)))
    )
    told, out = tmp_path / "lab" / "clinic", []

    def on_round(seen):
        if seen.number == 4:  # it is looked at in the middle: whoever was asked and has not replied is at work
            shutil.copytree(told, tmp_path / "seen" / "clinic")
            out.append(len(grid._coming))

    terms = {"mode": "buffered", "concurrency": 7, "buffer": 3, "deadline": 100.0}
    run(grid, 6, "random", folder=told, on_round=on_round, **terms)
    with Server(tmp_path / "seen") as client:
        found = client.get("/data/federation/seen/clinic").json()
        assert figures(found)["at work"] == str(out[0])
        assert 0 < out[0] <= 7
    with Server(tmp_path / "lab") as client:
        assert figures(client.get("/data/federation/lab/clinic").json())["at work"] == "0"  # it has ended


def test_shadow_mode_and_deadlines_are_shown(tmp_path):
    strategy = FedAvg(fraction_evaluate=0.0, fraction_train=0.5, min_available_nodes=1, min_train_nodes=1)
    grid = FakeGrid(list(range(11, 19)), behaving(train))
    run(grid, ROUNDS, "oort", strategy=strategy, shadow=True, folder=tmp_path / "lab" / "clinic", deadline=20.0)
    run(FakeGrid(list(range(11, 19)), behaving(train)), 3, "oort", folder=tmp_path / "lab" / "ward", deadline=20.0)
    table = shadow_table(read_run(tmp_path / "lab" / "clinic"))
    with Server(tmp_path / "lab") as client:
        found = client.get("/data/federation/lab/clinic").json()
        part = next(part for part in found["parts"] if part["heading"] == "oort in shadow mode")
        assert part["text"] == [shadow_sentence(table, "oort", 8.0)]
        assert "spec" in client.get("/chart/shadow/federation/lab/clinic").json()
        rows = list(csv.DictReader(io.StringIO(client.get("/table/shadow/federation/lab/clinic").text)))
        assert len(rows) == len(table["round"]) > 0
        rounds = next(
            part for part in client.get("/data/federation/lab/ward").json()["parts"] if part["heading"] == "Rounds"
        )["table"]
        place = rounds["columns"].index("deadline")
        assert [row[place] for row in rounds["rows"]] == ["20 s"] * 3
