"""`why`: what the tables tell of a choice, and nothing else."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from enlist.cli.app import app
from enlist.errors import InputError
from enlist.runs.example import example_run, write_run
from enlist.runs.tables import RunTables, read_run
from enlist.runs.why import why
from enlist.simulation import Run, simulate
from tests.simulation.simulation_helpers import config

LATE = {"rounds": 8, "k": 3, "over_commit": 1.4, "late": "merge", "deadline": {"kind": "percentile", "percentile": 50}}


@pytest.fixture(scope="module")
def late() -> Run:
    """Late updates are used, so clients may be busy; two clients join in round 4, and one leaves in round 6."""
    membership = {"joins": [{"round": 4, "clients": 2}], "leaves": [{"round": 6, "clients": [0]}]}
    settings = config(
        data={"clients": 20},
        devices={"kind": "phones"},
        rounds=LATE,
        selector={"name": "cs-ucb"},
        membership=membership,
    )
    return simulate(settings)


def said(run: RunTables, round: int, client: Any) -> str:
    return why(run, round, client).sentences[1]


def test_the_table_holds_whom_the_round_asked(late: Run) -> None:
    found = late.why(7)
    asked = late.participations.query("selected_in == 7 and round == 7")
    assert found.table["client"].tolist() == asked["client"].tolist()
    assert found.table["outcome"].tolist() == asked["outcome"].tolist()
    before = late.participations.query("selected_in < 7").drop_duplicates(["client", "selected_in"])
    assert found.table["selected_before"].tolist() == [(before["client"] == each).sum() for each in asked["client"]]
    kept = late.reasons.query("round == 7")
    assert found.table["mean"].tolist() == kept["mean"].tolist()
    assert len(found.sentences) == 1 + len(asked)


def test_who_was_busy_away_or_gone(late: Run) -> None:
    came = late.participations.query("outcome == 'arrived' and round > selected_in + 1")
    assert len(came), "somebody is to come two rounds late"
    for client, since, until in came[["client", "selected_in", "round"]].itertuples(index=False):
        assert f"it was still busy with round {since}, whose update came in round {until}" in said(
            late.tables, since + 1, client
        )
    assert said(late.tables, 3, 19) == "Client 19 was not chosen: it joined in round 4 only."
    assert said(late.tables, 7, 0) == "Client 0 was not chosen: it had left in round 6."


def test_what_stands_out_is_said_and_only_in_the_sense_that_speaks_for_a_client() -> None:
    run = example_run("oort")
    asked = np.flatnonzero(run.reasons["round"] == 5)
    terms = {"bonus": [0.1, 0.1, 0.1, 0.9], "latency": [9.0, 9.0, 1.0, 9.0], "own": [5.0, 1.0, 1.0, 1.0]}
    kept = {name: np.full(len(run.reasons["round"]), np.nan) for name in terms}
    for name, values in terms.items():
        kept[name][asked] = values
    run = dataclasses.replace(run, kept={**{name: run.reasons[name] for name in ("round", "client")}, **kept})
    lines = why(run, 5).sentences[1:]
    assert "what stands out is its own of 5, the highest of the 4 chosen" in lines[0]
    assert "does not stand out" in lines[1]
    assert "because its latency was low: 1, the lowest of the 4 chosen" in lines[2]
    assert "because its bonus was high: 0.9, the highest of the 4 chosen" in lines[3]


def test_random_and_everybody_need_no_terms() -> None:
    run = simulate(config(rounds={"rounds": 2, "k": 3}))
    first = run.why(1).sentences[0]
    assert first == "Round 1: random selected 3 of 10 available clients, drawn with equal probabilities."
    assert "not drawn among the 3" in " ".join(
        sentence for client in range(10) for sentence in run.why(2, client).sentences
    )
    run = simulate(config(rounds={"rounds": 1, "k": 10}), "oort")
    assert run.why(1).sentences[0].endswith("selected 10 of 10 available clients, all of them.")


def test_what_cannot_be_answered_is_refused_with_the_way_out(tmp_path: Path) -> None:
    run = example_run("oort")
    with pytest.raises(InputError, match="round 99 is not in oort, seed 0; it has rounds 1 to 8"):
        why(run, 99)
    with pytest.raises(InputError, match=r"client '12' is not in .*; name a position from 0 to 11"):
        why(run, 5, 12)
    without = dataclasses.replace(run, kept={})
    with pytest.raises(InputError, match=r"keeps no reasons: .* Run it again with them"):
        why(without, 5)
    off = dataclasses.replace(without, config={**run.config, "evaluation": {"reasons": False}})
    with pytest.raises(InputError, match=r"evaluation\.reasons is false"):
        why(off, 5)


def test_user_ids_name_clients() -> None:
    run = example_run("oort")
    users = np.array([f"u{number}" for number in range(11)] + ["3"])
    run = dataclasses.replace(run, clients={**run.clients, "user": users})
    assert said(run, 5, "u4").startswith("Client 4 (u4) was chosen")
    assert said(run, 5, "3").startswith("Client 3 (u3) was")
    assert said(run, 5, "user:3").startswith("Client 11 (3) was")
    with pytest.raises(InputError, match="or a user id such as 'u0'"):
        why(run, 5, "nobody")


def test_a_folder_that_was_edited_is_named_or_does_no_harm(tmp_path: Path) -> None:
    run = example_run("oort")
    config = {**run.config, "membership": {"joins": [{"round": "soon"}], "leaves": 7}}
    folder = write_run(dataclasses.replace(run, config=config, selector="oort"), tmp_path / "run")
    table = folder / "reasons.csv"
    table.write_text(table.read_text().replace("speed", "sp\x1b[2Jeed", 1))
    assert said(read_run(folder), 5, 7).startswith("Client 7 was not chosen: 9 of 12 clients were available")
    assert "\x1b" not in repr(why(read_run(folder), 5))
    table.write_text(table.read_text().replace("9.", "nine", 1))
    with pytest.raises(InputError, match=r"reasons\.csv is damaged: column .* holds text; run it again"):
        why(read_run(folder), 5)


def test_the_command(tmp_path: Path) -> None:
    folder = write_run(example_run("oort"), tmp_path / "runs" / "one")
    done = CliRunner().invoke(app, ["why", str(folder), "--round", "5", "--client", "0"], catch_exceptions=False)
    assert "selected before" in done.output
    assert "Client 0 was chosen because its speed was high: 9.38, the highest of the 4 chosen" in done.output
    write_run(example_run("random"), tmp_path / "runs" / "two")
    with pytest.raises(InputError, match=r"holds 2 runs; name one of them, for example .*one"):
        CliRunner().invoke(app, ["why", str(tmp_path), "--round", "5"], catch_exceptions=False)


def test_a_client_that_was_behind_is_told_by_how_much():
    run = example_run("oort", clients=12, rounds=8)
    chosen = run.reasons["round"] == 5
    out = next(
        int(client)
        for client in np.unique(run.reasons["client"][run.reasons["round"] < 5])
        if client not in run.reasons["client"][chosen]
    )
    speed = run.reasons["speed"].copy()
    speed[(run.reasons["client"] == out) & (run.reasons["round"] < 5)] = 0.25
    behind = dataclasses.replace(run, kept={**run.reasons, "speed": speed})
    text = why(behind, 5, client=out).sentences[1]
    least, most = speed[chosen].min(), speed[chosen].max()
    assert f"its speed was 0.25; those chosen in round 5 had {least:.3g} to {most:.3g}." in text
    speed[(run.reasons["client"] == out) & (run.reasons["round"] < 5)] = 99.0
    ahead = dataclasses.replace(run, kept={**run.reasons, "speed": speed})
    assert "its speed was" not in why(ahead, 5, client=out).sentences[1]


def test_a_selector_that_only_watched_chose_nobody():
    run = example_run("oort", clients=12, rounds=8)
    config = {**run.config, "strategy": "FedAvg", "shadow": True}
    watched = dataclasses.replace(run, config=config, kept={})
    told = why(watched, 5).sentences
    assert told[0] == "Round 5: Flower's sampling selected 4 of 9 available clients; oort only watched (shadow mode)."
    assert "was chosen like all the others" in told[1]
    out = next(client for client in range(12) if client not in why(watched, 5).columns["client"])
    assert "not drawn among the 4" in why(watched, 5, client=out).sentences[1]


def test_terms_that_change_while_a_client_waits_are_no_reason():
    run = example_run("oort", clients=12, rounds=8)
    chosen = run.reasons["round"] == 5
    out = next(int(each) for each in np.unique(run.reasons["client"]) if each not in run.reasons["client"][chosen])
    kept = {name: column for name, column in run.reasons.items() if name != "speed"}
    low = np.where(run.reasons["client"] == out, 0.0, 1.0)
    assert "its width was" not in why(dataclasses.replace(run, kept={**kept, "width": low}), 5, client=out).sentences[1]
