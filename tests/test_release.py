"""What would be released: archives, versions that agree, and a package that works away from its repository."""

from __future__ import annotations

import datetime
import importlib
import re
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

import enlist
from tools import release
from tools.release import ROOT


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return release.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(archives: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with nothing but the wheel; what it depends on is borrowed from the one that runs the tests."""
    borrowed = [path for path in sys.path if path.endswith("site-packages")]
    binaries = release.environment(tmp_path_factory.mktemp("fresh") / "environment", borrowed)
    release.install(binaries, archives[0], options=["--no-deps", "--no-index"])
    release.cut_off(binaries)
    return binaries


def test_the_archives_hold_what_they_should(archives: list[Path]) -> None:
    wheel, sdist = archives
    assert wheel.name == f"enlist-{enlist.__version__}-py3-none-any.whl"
    assert sdist.name == f"enlist-{enlist.__version__}.tar.gz"
    assert [found for archive in archives for found in release.complaints(archive)] == []


def test_what_is_wrong_with_an_archive_is_said(archives: list[Path], tmp_path: Path) -> None:
    wheel = tmp_path / archives[0].name
    with zipfile.ZipFile(archives[0]) as source, zipfile.ZipFile(wheel, "w") as target:
        for name in source.namelist():
            if name != "enlist/py.typed":
                target.writestr(name, source.read(name))
        target.writestr("tests/test_release.py", "")
        target.writestr("enlist/picture.png", b"0" * 2_000_001)
    said = release.complaints(wheel)
    assert [line.removeprefix(f"{wheel.name} ") for line in said[1:]] == [
        "lacks enlist/py.typed",
        "holds enlist/picture.png",
        "holds tests/test_release.py",
    ]
    assert re.search(r"has \d\.\d MB, more than 2", said[0])


def test_the_wheel_of_the_sdist_is_the_same(archives: list[Path], tmp_path: Path) -> None:
    with tarfile.open(archives[1]) as tar:
        tar.extractall(tmp_path, filter="data")
    (source,) = tmp_path.iterdir()
    (again,) = release.build(tmp_path / "dist", source, ["wheel"])
    with zipfile.ZipFile(archives[0]) as first, zipfile.ZipFile(again) as second:
        assert first.namelist() == second.namelist()
        assert all(first.read(name) == second.read(name) for name in first.namelist())


def test_the_version_is_the_same_everywhere() -> None:
    cited: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert str(cited["version"]) == enlist.__version__
    assert f"version = {{{enlist.__version__}}}" in (ROOT / "docs" / "citing.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.M)
    assert newest is not None
    assert newest[1] == enlist.__version__
    released = None if newest[2] == "unreleased" else newest[2]
    assert cited.get("date-released") == (released and datetime.date.fromisoformat(released))


def test_names_in_the_changelog_can_be_imported() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    names = set(re.findall(r"`(enlist(?:\.\w+)+)`", text))
    assert len(names) > 10
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            module, _, attribute = name.rpartition(".")
            assert hasattr(importlib.import_module(module), attribute), name


def test_every_extra_is_documented_and_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = set(project["optional-dependencies"]) - {"test", "docs"}
    assert {*release.TRIALS} - {""} == extras
    text = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    assert [extra for extra in extras if f"`{extra}`" not in text] == []
    assert release.extras_of("ray,ui") == ["", "cli", "sim", "ui", "ray"]
    (together,) = release.combinations("all")
    assert {*together.split(",")} == extras
    assert release.combinations("each") == ["", *sorted(extras, key=[*release.TRIALS].index), together]


def test_continuous_integration_calls_the_makefile() -> None:
    """Nothing is said twice: each step is a target that exists, and each version of Python is a classifier."""
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))["jobs"]
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.M))
    called = []
    for job in jobs.values():
        lines = [step["run"] for step in job["steps"] if "run" in step]
        assert all("make " in line for line in lines), lines
        called += [word for line in lines for word in line.partition("make ")[2].split() if "=" not in word]
    called = [word for word in called if re.fullmatch(r"[a-z]+", word)]
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"][0]["hooks"]
    called += [hook["entry"].removeprefix("make ") for hook in hooks]
    assert set(called) <= targets
    assert {"lint", "types", "tests", "lowest", "docs", "package", "verify"} <= set(called)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {"", "all"} < set(jobs["package"]["strategy"]["matrix"]["extras"])
    versions = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == versions


def test_the_package_works_without_its_repository_and_without_a_network(installed: Path, tmp_path: Path) -> None:
    place = release.attempt(installed, ["python", "-c", "import enlist; print(enlist.__file__)"], tmp_path)
    assert Path(place.strip()).is_relative_to(installed.parent)
    for words in [*release.TRIALS[""], *release.TRIALS["cli"]]:
        release.attempt(installed, words, tmp_path)
    assert release.attempt(installed, ["enlist", "--version"], tmp_path) == f"enlist {enlist.__version__}\n"
    reach = "import socket; socket.create_connection(('192.0.2.1', 80), timeout=2)"
    with pytest.raises(SystemExit, match="no network in this environment"):
        release.attempt(installed, ["python", "-c", reach], tmp_path)


@pytest.mark.verify
@pytest.mark.parametrize("extra", [name for name in release.TRIALS if name not in ("", "cli", "mlflow")])
def test_trials_of_the_wheel_work_without_a_network(extra: str, installed: Path, tmp_path: Path) -> None:
    """All but `mlflow`, which the extra `test` leaves out; `make package EXTRAS=mlflow` tries it."""
    for words in release.TRIALS[extra]:
        release.attempt(installed, words, tmp_path)
    assert extra != "sim" or (tmp_path / "runs" / "demo-001" / "report" / "report.html").is_file()
