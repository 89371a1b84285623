"""What earlier releases saved (tests/saved) is read and continued, or refused with the sentence that stands here."""

from __future__ import annotations

import contextlib
import json
import math
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import enlist
from enlist import studies
from enlist.errors import EnlistError
from enlist.flower import replay
from enlist.personal.after import every_target
from enlist.personal.config import load as load_personal
from enlist.runs import RunFolder, read_run
from enlist.runs.federation import starts
from enlist.runs.personal import find_personal, read_personal
from enlist.simulation import Recorder, Simulation, load
from enlist.simulation.comparison import Comparison
from enlist.studies.running import Reproduction
from enlist.testing import transcript
from tests.flower.test_resuming import decisions, federation

SAVED = Path(__file__).parent / "saved"
RELEASES = sorted(path.name for path in SAVED.iterdir() if (path / "run").is_dir())
REFUSED = {("0.1", "study"): "holds study 'mabfl' as another version of Enlist had it"}
"""(release, what) -> a part of the sentence that refuses it. What is not listed must be read."""


@contextlib.contextmanager
def reading(release: str, what: str) -> Iterator[None]:
    """Holds that what happens inside works or, if it is listed in REFUSED, is refused as said there."""
    if (release, what) not in REFUSED:
        yield
        return
    with pytest.raises(EnlistError, match=re.escape(REFUSED[release, what])):
        yield


@pytest.fixture(params=RELEASES)
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def copied(release: str, what: str, place: Path) -> Path:
    """A copy that may be written to."""
    return Path(shutil.copytree(SAVED / release / what, place / what))


def alike(one: str, two: str) -> bool:
    """The same text; numbers may differ in their last digits, because another processor adds up in another order."""
    words, others = (re.split(r"([,\s]+)", text) for text in (one, two))
    return len(words) == len(others) and all(
        word == other or number(word) == pytest.approx(number(other), rel=1e-4)
        for word, other in zip(words, others, strict=True)
    )


def number(word: str) -> float:
    """What is no number differs from everything."""
    try:
        return float(word)
    except ValueError:
        return math.nan


def test_alike_is_the_same_but_for_last_digits() -> None:
    assert alike("round,loss\n1,0.52078\n", "round,loss\n1,0.52079\n")
    assert not alike("round,loss\n1,0.52\n", "round,loss\n1,0.53\n")
    assert not alike("round,loss\n1,late\n", "round,loss\n1,dropped\n")
    assert not alike('{"rounds": 6}', '{"rounds": 6, "more": 1}')


def test_there_is_something_of_every_release() -> None:
    assert enlist.__version__.rpartition(".")[0] in RELEASES, "python tests/saved/make.py tests/saved/VERSION"
    parts = {"run", "run-finished", "comparison", "study", "personal", "federation", "selectors"}
    for each in RELEASES:
        assert {path.name for path in (SAVED / each).iterdir()} == parts


def test_a_stopped_run_goes_on_and_ends_as_it_would_have(release: str, tmp_path: Path) -> None:
    place = copied(release, "run", tmp_path)
    with reading(release, "run"):
        config = load(place / "config.json")
        with RunFolder.open(place, config.model_dump(mode="json"), resume=True) as folder:
            recorder = Recorder(folder)
            with Simulation(config, callbacks=[recorder]) as simulation:
                assert recorder.restore(simulation)
                simulation.run()
        for table in ("rounds.csv", "participations.csv", "clients.csv", "result.json"):
            assert alike((place / table).read_text(), (SAVED / release / "run-finished" / table).read_text()), table


def test_a_finished_run_can_be_read(release: str) -> None:
    with reading(release, "run-finished"):
        tables = read_run(SAVED / release / "run-finished")
        assert tables.selector == "oort"
        assert tables.rounds["round"].tolist() == [1, 2, 3, 4, 5, 6]


def test_a_comparison_runs_what_is_missing(release: str, tmp_path: Path) -> None:
    place = copied(release, "comparison", tmp_path)
    with reading(release, "comparison"):
        config = load(place / "runs" / "random" / "0" / "config.json")
        kept = {path: path.stat().st_mtime_ns for path in place.rglob("rounds.csv")}
        ended = Comparison(config, ("random", "oort"), 2, 0).run(place)
        assert not ended.failed
        assert len(ended.finished) == 4
        assert kept == {path: path.stat().st_mtime_ns for path in kept}
        assert (place / "runs" / "oort" / "1" / "result.json").exists()


def test_experiments_of_a_study_are_kept_or_refused_in_a_sentence(release: str, tmp_path: Path) -> None:
    """MAB-FL has been recalibrated since version 0.1: old results are not mixed with new ones, and stay as they are."""
    place = copied(release, "study", tmp_path)
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    found = studies.get("mabfl")
    with reading(release, "study"), Reproduction.open(found, found.scale("smoke"), place, resume=True) as work:
        assert len(work.outputs) == 3
    assert before == {path: path.read_bytes() for path in before}


def test_a_personalised_run_can_be_read_and_is_not_run_again(release: str, tmp_path: Path) -> None:
    place = copied(release, "personal", tmp_path)
    with reading(release, "personal"):
        (saved,) = (place / "seed-0").glob("*2/config.json")
        assert [read_personal(found).config["target"] for found in find_personal([place])] == ["2"]
        before = {path: path.read_bytes() for path in place.rglob("*.csv")}
        every_target(load_personal(saved), place / "seed-0", targets=["2"], resume=True)
        assert before == {path: path.read_bytes() for path in before}


def test_a_federation_goes_on(release: str, tmp_path: Path) -> None:
    place = copied(release, "federation", tmp_path)
    federation(tmp_path / "straight", 6)
    with reading(release, "federation"):
        federation(place, 6)
        assert decisions(place) == decisions(tmp_path / "straight")
        assert len(replay(place)) == 6
        assert [start.what for start in starts(read_run(place))][-2:] == ["continued", "finished"]


@pytest.mark.parametrize(
    ("release", "name"), sorted(path.parts[-3::2] for path in SAVED.glob("*/selectors/*")), ids="-".join
)
def test_a_selector_goes_on(release: str, name: str) -> None:
    place = SAVED / release / "selectors" / name
    with reading(release, f"selectors/{name}"):
        chosen = json.loads((place / "next.json").read_text())
        assert transcript(enlist.load(place), len(chosen)) == chosen
