"""`python -m benchmarks.ladder`: merging results into the known ones, and the page that is made of them."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import ladder as benchmark
from benchmarks.pictures import _pixels, smaller
from enlist.errors import InputError
from enlist.ladder import known, known_results
from enlist.ladder.results import write_results
from enlist.ladder.rung import NAMES, PUBLISHED, VERSION

ROW = {"data": "fashion-mnist", "target": 0.7, "reached": 1, "seconds": 100.0, "rounds": 50, "final": 0.8}
ROW |= {"wasted": 0.1, "worst_tenth": math.nan, "server_ms": 0.5}


def row(selector: str, rung: str = "silos", seed: int = 1000, **values: Any) -> dict[str, Any]:
    return {"rung": rung, "selector": selector, "seed": seed, **ROW, **values}


def folder(place: Path, *rows: dict[str, Any], version: int = VERSION, **header: Any) -> Path:
    place.mkdir()
    write_results(rows, place / "results.csv")
    (place / "ladder.json").write_text(json.dumps({"version": version, **header}))
    return place


def keys(rows: list[dict[str, Any]]) -> list[tuple[str, str, int]]:
    return [(each["rung"], each["selector"], each["seed"]) for each in rows]


def test_results_are_merged_by_seed_range_and_sorted(tmp_path: Path) -> None:
    first = folder(tmp_path / "a", row("random", "users", data="fedprox-synthetic"), row("random"), row("oort"))
    second = folder(tmp_path / "b", row("random", seed=0), row("bsfl", seed=0), row("random"), row("bsfl"))
    assert benchmark.add([first, second], tmp_path / "known")[1].endswith("published.csv: 4 runs")
    published = known_results(True, tmp_path / "known")
    assert keys(published) == [
        ("silos", "bsfl", 1000),
        ("silos", "oort", 1000),
        ("silos", "random", 1000),
        ("users", "random", 1000),
    ]
    assert keys(known_results(False, tmp_path / "known")) == [("silos", "bsfl", 0), ("silos", "random", 0)]
    benchmark.add([folder(tmp_path / "c", row("random"), row("oort", seconds=61.23456789))], tmp_path / "known")
    [oort] = [each for each in known_results(True, tmp_path / "known") if each["selector"] == "oort"]
    assert oort["seconds"] == 61.2346  # the newest wins, with six digits
    assert len(known_results(True, tmp_path / "known")) == 4


def test_another_random_is_refused_or_takes_with_it_what_it_measured(tmp_path: Path) -> None:
    before = [row("random"), row("oort"), row("random", seed=1001), row("oort", seed=1001)]
    benchmark.add([folder(tmp_path / "a", *before)], tmp_path / "known")
    other = folder(tmp_path / "b", row("random", seconds=90.0, server_ms=9.0), row("bsfl"))
    with pytest.raises(InputError, match="random has another result on silos with seed 1000"):
        benchmark.add([other], tmp_path / "known")
    assert len(known_results(True, tmp_path / "known")) == 4  # nothing was written
    assert benchmark.add([other], tmp_path / "known", replace=True)[1].endswith("4 runs, 1 left out")
    found = keys(known_results(True, tmp_path / "known"))
    assert ("silos", "oort", 1000) not in found
    assert ("silos", "oort", 1001) in found
    slower = folder(tmp_path / "c", row("random", seconds=90.0, server_ms=70.0), row("afl"))
    benchmark.add([slower], tmp_path / "known")  # processor times are no difference


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([row("random")], {"version": 0}, "of version 0 of the ladder, and the known results are of version 1"),
        ([row("random", "mine")], {}, "has results of mine, which is no rung of the package"),
        ([row("random")], {"own": ["silos"]}, "has results of silos, which is no rung of the package"),
        ([row("random", data="digits")], {}, "silos with digits instead of fashion-mnist"),
        ([row("random", seed=17)], {}, "has seed 17"),
        ([row("oort")], {}, "oort on silos with seed 1000 was measured by another random, or by none"),
        ([row("random"), row("oort", target=0.6)], {}, "oort on silos with seed 1000 was measured by another random"),
    ],
)
def test_what_does_not_belong_is_refused(tmp_path: Path, rows: list[Any], header: dict[str, Any], message: str) -> None:
    place = folder(tmp_path / "a", *rows, **header)
    with pytest.raises(InputError, match=message):
        benchmark.add([place], tmp_path / "known")
    assert not (tmp_path / "known").exists()


def test_a_file_alone_needs_its_version(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_results([row("random", seed=0)], tmp_path / "some.csv")
    places = ["--known", str(tmp_path / "known"), "--docs", str(tmp_path / "docs")]
    assert benchmark.main([str(file), *places]) == 1
    assert "say so with --version 1" in capsys.readouterr().err
    assert benchmark.main([str(file), *places, "--version", "1"]) == 0
    assert "development.csv: 1 runs" in capsys.readouterr().out
    assert benchmark.main([str(tmp_path), *places]) == 1
    assert "holds no results.csv" in capsys.readouterr().err


def test_the_page_is_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = ["--known", str(tmp_path / "known"), "--docs", str(tmp_path / "docs")]
    assert benchmark.main(["--check", *places]) == 0  # nothing is known, and there is no page
    rows = [row(name, seed=seed, seconds=100.0 / fast + seed) for name, fast in TIMES for seed in PUBLISHED]
    assert benchmark.main([str(folder(tmp_path / "a", *rows)), *places]) == 0
    pictures = re.findall(r"\]\((ladder/.*?\.png)\)", (tmp_path / "docs" / "ladder.md").read_text())
    assert len(pictures) == 4
    for picture in pictures:
        content = (tmp_path / "docs" / picture).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert len(content) < 200 * 1024
    assert benchmark.main(["--check", *places]) == 0
    benchmark.add(
        [folder(tmp_path / "b", row("random", seconds=1100.0), row("bsfl", seconds=90.0))], tmp_path / "known"
    )
    assert benchmark.main(["--check", *places]) == 1
    assert "is not what the known results give" in capsys.readouterr().out
    assert benchmark.main(places) == 0  # without a folder, only the page
    assert benchmark.main(["--check", *places]) == 0
    (tmp_path / "docs" / "ladder" / "ranks.png").unlink()
    assert benchmark.main(["--check", *places]) == 1


def test_the_page_is_of_development_seeds_until_ours_is_published(tmp_path: Path) -> None:
    place = tmp_path / "known"
    rows = [*(row(name, seed=0) for name in ("random", "tempo")), row("random", seed=1000)]
    benchmark.add([folder(tmp_path / "a", *rows)], place)
    board = benchmark.board_of(place)
    assert board is not None
    assert not board.published
    assert "`tempo` was tuned on them" in benchmark.pages(board)["choosing.md"]
    published = [row(name, seed=1000) for name in ("random", "oort", "tempo")]
    published += [row(name, seed=1001) for name in ("random", "tempo")]
    benchmark.add([folder(tmp_path / "b", *published)], place)
    board = benchmark.board_of(place)
    assert board is not None
    assert board.published
    assert "These seeds were never used for tuning" in benchmark.pages(board)["choosing.md"]
    assert board.fewer_seeds == {"oort": 1}
    assert "With fewer, so far: 1 seed: `oort`." in benchmark.pages(board)["ladder.md"]


TIMES = (("random", 1.0), ("oort", 2.0), ("oracle", 4.0))


def test_what_is_shipped_is_whole_and_the_page_is_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    for published in (False, True):
        assert known.known_file(published).is_file()
        rows = known_results(published)
        assert keys(benchmark.merge(rows, [])) == keys(rows)  # sorted, none twice, each with its random
        assert {each["rung"] for each in rows} <= set(NAMES)
        assert all((each["seed"] in PUBLISHED) == published for each in rows)
    assert known.version_of(known.FOLDER) == VERSION
    assert benchmark.main(["--check"]) == 0, capsys.readouterr().out


def test_small_pictures_look_the_same() -> None:
    import altair as alt
    import vl_convert

    rows = [{"x": x, "y": y, "z": x * y} for x in range(6) for y in range(6)]
    chart = alt.Chart(alt.InlineData(values=rows)).mark_rect().encode(x="x:O", y="y:O", color="z:Q")
    png = vl_convert.vegalite_to_png(chart.to_dict(), scale=2.0)
    pixels = _pixels(png)
    assert pixels is not None
    small = smaller(png)
    assert len(small) < 0.6 * len(png)
    assert smaller(small) == small  # a palette is left as it is
    indices, palette = _decoded(small)
    shown = palette[indices].astype(int)
    assert shown.shape == pixels.shape
    assert np.abs(shown - pixels).max() < 24
    assert (shown == pixels).all(axis=2).mean() > 0.98


def _decoded(png: bytes) -> tuple[np.ndarray, np.ndarray]:
    import zlib

    from benchmarks.pictures import _chunks

    parts = dict(_chunks(png))
    width, height = (int.from_bytes(parts[b"IHDR"][at : at + 4], "big") for at in (0, 4))
    lines = np.frombuffer(zlib.decompress(parts[b"IDAT"]), dtype=np.uint8).reshape(height, width + 1)
    return lines[:, 1:], np.frombuffer(parts[b"PLTE"], dtype=np.uint8).reshape(-1, 3)
