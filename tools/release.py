"""Is the package fit to be released?  python -m tools.release [--extras sim,flower | all | each]

Builds wheel and sdist, checks what is in them and how large they are, installs the wheel with the extras into an empty
environment and tries what these extras are for. `all` means every extra together; `each` tries the bare package, every
extra alone, and all together, each in an environment of its own.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LARGEST = {".whl": 2.0, ".gz": 20.0}
"""Megabytes that an archive may have."""
NEEDED = (
    "enlist/py.typed",
    "enlist/cli/demo.toml",
    "enlist/ladder/known/published.csv",
    "enlist/ladder/rungs/alike.toml",
    "enlist/ui/pages/index.html",
)
"""Files that are no modules, and without which a command fails."""
TRAVELS = {".py", ".typed", ".toml", ".csv", ".json", ".js", ".css", ".html", ".svg"}
"""Kinds of files in the wheel. Pictures, fixtures and pages of the documentation stay at home."""
OFFLINE = """
import socket

_connect = socket.socket.connect

def here(family, host):
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))  # only an address of this machine can be bound
        except OSError:
            return False
    return True

def connect(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6) and not here(self.family, address[0]):
        raise OSError(f"no network in this environment: {address}")
    return _connect(self, address)

socket.socket.connect = connect
"""
"""sitecustomize.py of an environment whose programs reach nothing but this machine."""
CORE = """
import enlist
selector = enlist.create("tempo", enlist.Clients(count=20), seed=1)
for _ in range(3):
    picked = selector.ask(k=5)
    selector.tell(picked, enlist.Feedback(latency=[1.0 + client for client in picked.clients]))
selector.save("state")
assert (enlist.load("state").ask(k=5).clients == selector.ask(k=5).clients).all()
"""
FLOWER = """
from flwr.app import ArrayRecord
from flwr.serverapp.strategy import FedAvg
from enlist.flower import with_selector
with_selector(FedAvg(), "tempo", k=2)
"""
UI = """
import re, subprocess, sys, urllib.request
from pathlib import Path
from enlist.runs.example import example_run, write_run
write_run(example_run(), Path("shown"))
command = [str(Path(sys.executable).with_name("enlist")), "ui", "shown", "--port", "0"]
with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as page:
    try:
        address = re.search("http://[0-9.:]+", page.stdout.readline())[0]
        answers = [urllib.request.urlopen(address + path, timeout=60).read() for path in ("/", "/data/runs")]
    finally:
        page.terminate()
assert b"<script" in answers[0] and b"shown" in answers[1], answers
"""
RAY = """
import grpc, ray, tempfile
from enlist.simulation import compare, load
own = {"_node_ip_address": "127.0.0.1", "_temp_dir": tempfile.mkdtemp()}  # no cluster that was here before
ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, **own)
ended = compare(load("small.toml"), "random", seeds=1, engine="ray")
assert not ended.failed and [len(run.rounds) for run in ended.runs] == [2], ended
ray.shutdown()
"""
PARQUET = """
import pyarrow, pyarrow.parquet
table = pyarrow.table({"age": [float(row) for row in range(200)], "label": [row // 100 for row in range(200)]})
pyarrow.parquet.write_table(table, "mine.parquet")
"""
SMALL = "data = { clients = 8 }\nrounds = { rounds = 2, k = 3 }\nevaluation = { every = 1 }\n"
"""small.toml, which trials find in their folder."""
OWN = "data.dataset={ name = 'file', path = 'mine.parquet', label = 'label' }"
HOLDS = """
import sys
from pathlib import Path
wanted, *patterns = sys.argv[1:]
files = [path for pattern in patterns for path in Path().glob(pattern) if path.is_file()]
assert any(wanted == path.name or wanted.encode() in path.read_bytes() for path in files), f"{wanted}: not in {files}"
"""
"""Fails if no file of these patterns holds the text, or is called so."""
TRACKERS = {
    "tensorboard": "tracked/tensorboard/tensorboard/events.*",
    "mlflow": "mlruns/*/*/metrics/*",
    "wandb": "wandb/offline-run-*/*.wandb",
}
"""Where each writes what it is told."""
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "WANDB_MODE": "offline",
    "WANDB_ERROR_REPORTING": "false",
    "MLFLOW_TRACKING_URI": "file:mlruns",  # its databases need what mlflow-skinny does not bring
    "MLFLOW_ALLOW_FILE_STORE": "true",
}
"""The environment of trials: nothing of a tracker leaves the folder."""


def tracked(name: str) -> list[list[str]]:
    """A run with a tracker, and a look at what that has written.

    >>> tracked("wandb")[0]
    ['enlist', 'run', 'small.toml', '--workers', '0', '--output', 'tracked/wandb', '--wandb']
    """
    run = ["enlist", "run", "small.toml", "--workers", "0", "--output", f"tracked/{name}", f"--{name}"]
    return [run, ["python", "-c", HOLDS, "accuracy", TRACKERS[name]]]


TRIALS: dict[str, list[list[str]]] = {
    "": [["python", "-c", CORE], ["enlist", "--version"]],
    "cli": [["enlist", "list", "selectors"], ["enlist", "arena", "--help"]],
    "sim": [["enlist", "demo"]],
    "flower": [["python", "-c", FLOWER]],
    "ui": [["python", "-c", UI]],
    "ray": [["python", "-c", RAY]],
    "parquet": [
        ["python", "-c", PARQUET],
        ["enlist", "run", "small.toml", "--set", OWN, "--workers", "0", "--output", "from-parquet"],
        ["python", "-c", HOLDS, "mine.parquet", "from-parquet/config.json"],
    ],
    **{name: tracked(name) for name in TRACKERS},
}
"""What an extra is for, as commands of an environment that has it."""


def build(place: Path, source: Path = ROOT, targets: Sequence[str] = ("wheel", "sdist")) -> list[Path]:
    """Build archives of a source tree with the backend that pyproject.toml names."""
    wanted = [part for target in targets for part in ("-t", target)]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *wanted, "-d", str(place)],
        cwd=source,
        check=True,
        capture_output=True,
    )
    return sorted([*place.glob("*.whl"), *place.glob("*.tar.gz")], key=lambda path: path.suffix, reverse=True)


def inside(archive: Path) -> list[str]:
    """Names of the files in a wheel or an sdist; of the latter without its first folder."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            return sorted(wheel.namelist())
    with tarfile.open(archive) as tar:
        return sorted(name.partition("/")[2] for name in tar.getnames())


def complaints(archive: Path) -> list[str]:
    """What is wrong with an archive: too large, something missing, something that should stay at home."""
    names, size = inside(archive), archive.stat().st_size / 1e6
    limit = LARGEST[archive.suffix]
    found = [f"{archive.name} has {size:.1f} MB, more than {limit:g}"] if size > limit else []
    found += [f"{archive.name} holds {name}" for name in names if "__pycache__" in name or name.startswith("build/")]
    if archive.suffix == ".whl":
        found += [f"{archive.name} lacks {name}" for name in NEEDED if name not in names]
        own = [name for name in names if ".dist-info/" not in name]
        found += [
            f"{archive.name} holds {name}"
            for name in own
            if not name.startswith("enlist/") or Path(name).suffix not in TRAVELS
        ]
        if not any(name.endswith("licenses/LICENSE") for name in names):
            found.append(f"{archive.name} lacks its licence")
    else:
        tracked = {
            "pyproject.toml",
            "README.md",
            "LICENSE",
            "CITATION.cff",
            "conftest.py",
            "tests/test_contract.py",
            "docs/index.md",
        }
        found += [f"{archive.name} lacks {name}" for name in sorted(tracked - set(names))]
    return found


def environment(place: Path, borrow: Sequence[str] = ()) -> Path:
    """An empty virtual environment; with `borrow`, packages of other folders can be imported in it. Its bin folder."""
    subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
    (packages,) = place.glob("lib/python*/site-packages")
    if borrow:
        (packages / "borrowed.pth").write_text("\n".join(borrow) + "\n", encoding="utf-8")
    return place / "bin"


def install(binaries: Path, wheel: Path, extras: str = "", options: Sequence[str] = ()) -> None:
    """Install the wheel with its extras."""
    what = f"{wheel}[{extras}]" if extras else str(wheel)
    subprocess.run(
        [str(binaries / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install", *options, what],
        check=True,
    )


def cut_off(binaries: Path) -> None:
    """From now on programs of this environment reach no other machine."""
    (packages,) = binaries.parent.glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(OFFLINE, encoding="utf-8")


def attempt(binaries: Path, words: Sequence[str], folder: Path) -> str:
    """Run a program of the environment in a folder of trials; its output, or the end of this program if it fails."""
    (folder / "small.toml").write_text(SMALL, encoding="utf-8")
    place = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | QUIET
    done = subprocess.run(
        [str(binaries / words[0]), *words[1:]], cwd=folder, env=place, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(words)[:200]} failed:\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done.stdout


def extras_of(names: str) -> list[str]:
    """The extras whose commands are tried: those that are named, those that they bring along, and the bare package.

    >>> extras_of("sim")
    ['', 'cli', 'sim']
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: set[str] = set()

    def add(name: str) -> None:
        if name in found:
            return
        found.add(name)
        for line in project["optional-dependencies"][name]:
            if own := re.match(r"enlist\[(.*)\]", line):
                for other in own[1].split(","):
                    add(other)

    for name in filter(None, names.split(",")):
        add(name)
    return [name for name in TRIALS if not name or name in found]


def combinations(extras: str) -> list[str]:
    """The sets of extras to install, one environment for each.

    >>> combinations("sim,ui"), combinations("each")[:3], combinations("all") == combinations("each")[-1:]
    (['sim,ui'], ['', 'cli', 'sim'], True)
    """
    together = ",".join(filter(None, TRIALS))
    if extras == "each":
        return [*TRIALS, together]
    return [together if extras == "all" else extras]


def trial(wheel: Path, extras: str, constraints: Path) -> None:
    """Install the wheel with some extras into an empty environment, and try them and all that they bring."""
    with tempfile.TemporaryDirectory() as place:
        binaries = environment(Path(place) / "environment")
        install(binaries, wheel, extras, ["-c", str(constraints)])
        cut_off(binaries)
        folder = Path(place) / "work"
        folder.mkdir()
        tried = extras_of(extras)
        for words in [words for extra in tried for words in TRIALS[extra]]:
            attempt(binaries, words, folder)
        print(f"enlist[{extras}]: {len(tried)} of {len(TRIALS)} sets of commands work", flush=True)


def main() -> None:
    """Build, look, install, try."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist")
    parser.add_argument("--extras", default="", help="such as sim,flower; or all, or each; none by default")
    parser.add_argument("--constraints", type=Path, default=ROOT / "constraints.txt", help="versions to install")
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    archives = build(options.output)
    if wrong := [found for archive in archives for found in complaints(archive)]:
        raise SystemExit("\n".join(wrong))
    for archive in archives:
        print(f"{archive.name}: {archive.stat().st_size / 1e6:.2f} MB, {len(inside(archive))} files")
    for extras in combinations(options.extras):
        trial(archives[0], extras, options.constraints)


if __name__ == "__main__":
    main()
