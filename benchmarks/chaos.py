"""A chaos trial:  python -m benchmarks.chaos [--seed 1] [--share 1.0] [--only NAME] [--record FILE] [--minutes 5]

`--only kill` is everything that is killed, on this machine and on a Ray cluster. With `--record`, trials are kept in a
file, and those that it holds are not repeated: the same command goes on where the last one was ended.
Kills runs at random moments and at chosen file events, damages folders and saved states, and feeds nonsense to
configurations and selectors. A violation is a resumed run that differs by a byte, an error that is not an EnlistError,
an error that changed a selector, a silent change, or a hang. Every trial has a number of its own that is drawn from
--seed, printed with each violation, and repeats it: `--only NAME --number N`. docs/reliability.md has the last table.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import hashlib
import json
import math
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import enlist
from benchmarks.pages import between
from enlist import studies
from enlist.errors import EnlistError
from enlist.flower import replay
from enlist.personal.after import every_target
from enlist.personal.config import load as load_personal
from enlist.runs import RunFolder, read_run
from enlist.runs.comparing import comparison_rows
from enlist.runs.personal import find_personal, read_personal
from enlist.runs.tables import find_runs
from enlist.simulation import Comparison, Recorder, Simulation, load, parse
from enlist.studies.running import Reproduction
from enlist.testing import population, transcript
from enlist.training.workers import one_thread

TABLES = ("rounds.csv", "participations.csv", "clients.csv", "result.json")
ROUNDS = 40
"""Of a run that is killed at random moments."""
RAY_PACE = 2.5
"""Times that kills of a comparison come later on Ray, because a driver takes longer to connect."""
HANG = 240.0
"""Seconds after which a command that is still running counts as hanging."""
WORLD: dict[str, Any] = {
    "data": {"dataset": "digits", "clients": 24},
    "availability": {"kind": "diurnal", "sessions_per_day": 1000, "session_median": 20, "night_median": 0},
    "failures": {"crash": 0.15},
    "membership": {"joins": [{"round": 4, "clients": 2}], "leaves": [{"round": 5, "clients": [1]}]},
    "model": {"name": "mlp", "hidden": [6]},
    "training": {"batch": 20, "lr": 0.1, "steps": 3, "momentum": 0.5},
    "server": {"optimiser": "fedyogi", "norm_bound": 6.0, "exclude": 2},
    "hostile": [
        {"kind": "sign-flip", "share": 0.15, "factor": 8.0},
        {"kind": "lie", "share": 0.1, "about": "loss", "from_round": 2},
    ],
    "rounds": {
        "rounds": 8, "k": 3, "over_commit": 2.0, "late": "merge", "forecast": 0.9, "max_lateness": 3,
        "deadline": {"kind": "moving-average", "factor": 1.5}, "adaptive_target": True,
    },
    "evaluation": {"every": 3, "target": 0.2},
}  # fmt: skip
"""Everything at once: days and nights, crashes, over-commitment, late replies, comings and goings, hostile clients."""

Trial = Callable[[random.Random, Path], str]
"""One trial in an empty folder: what was violated, or nothing."""


class Outcome(NamedTuple):
    """How a trial ended: what was violated, or nothing; how many processes were killed, and the seconds it took.

    >>> Outcome("fuzzed calls", 7).violation
    ''
    """

    trial: str
    number: int
    violation: str = ""
    kills: int = 0
    seconds: float = 0.0


def world(selector: str, rounds: int = 8) -> dict[str, Any]:
    """The configuration of a run in the world above."""
    protocol = {"protocol": "safa", "adaptive_target": False} if selector == "safa" else {}
    return {**WORLD, "selector": selector, "rounds": {**WORLD["rounds"], **protocol, "rounds": rounds}}


def run_in(folder: Path, values: dict[str, Any], workers: int = 0) -> None:
    """Run in this process to the end, from the last checkpoint on; a checkpoint after every round.

    With workers, a round is written while they train the next one.
    """
    config = parse(values, "chaos")
    with RunFolder.open(folder, config.model_dump(mode="json"), resume=True) as opened, one_thread():
        recorder = Recorder(opened)
        recorder.SHARE = math.inf  # type: ignore[misc]
        with Simulation(config, workers=workers, callbacks=[recorder]) as simulation:
            recorder.restore(simulation)
            simulation.run()


def contents(folder: Path) -> dict[str, str]:
    """Digests of everything that a run promises to reproduce."""
    names = [folder / name for name in TABLES] + sorted((folder / "checkpoints").glob("*/*.safetensors"))
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in names}


_undisturbed: dict[str, dict[str, str]] = {}


def undisturbed(values: dict[str, Any]) -> dict[str, str]:
    """What a run gives that nobody disturbs."""
    key = json.dumps(values)
    if key not in _undisturbed:
        with tempfile.TemporaryDirectory() as place:
            run_in(Path(place) / "run", values)
            _undisturbed[key] = contents(Path(place) / "run")
    return _undisturbed[key]


def differing(folder: Path, values: dict[str, Any]) -> str:
    """Which promised files differ from those of an undisturbed run."""
    expected, found = undisturbed(values), contents(folder)
    names = [name for name in expected if expected[name] != found.get(name)]
    return f"{', '.join(names)} differ" if names else ""


# Kills.


def killed_at_a_random_moment(luck: random.Random, place: Path, more: Sequence[str] = (), least: int = 0) -> str:
    """`enlist run`, its whole process group killed up to three times, then resumed with other numbers of workers.

    What is killed has a worker at least: a round is written while the next one trains. One kill in four comes while the
    command starts, the others within a tenth of a second after a random round, however fast the machine is.
    """
    values = world(luck.choice(["random", "oort", "fedsuv", "bsfl", "safa"]), rounds=ROUNDS)
    (place / "config.json").write_text(json.dumps(values))

    def started(least: int) -> subprocess.Popen[str]:
        words = ["run", str(place / "config.json"), "--output", str(place / "run")]
        words += ["--resume"] if (place / "run" / "config.json").is_file() else []  # else it was killed before
        return _enlist([*words, "--workers", str(luck.randint(least, 2)), *more], place)

    rows = place / "run" / "rounds.csv"
    for _ in range(luck.randint(1, 3)):
        if luck.random() < 0.25:
            _killed(started(1), luck.uniform(0.0, 1.5))
        else:
            process = started(1)
            _await_rounds(process, rows, luck.randint(min(_lines(rows), ROUNDS - 1), ROUNDS - 1))
            _killed(process, luck.uniform(0.0, 0.1))
    code, output = _finished(started(least))
    return f"exit {code}: {output[-300:]}" if code else differing(place / "run", values)


def killed_at_a_file_event(luck: random.Random, place: Path, workers: int = 0) -> str:
    """A run that dies at the n-th time it opens, renames, cuts or removes something in its folder; then resumed."""
    values = world(luck.choice(["random", "oort", "cs-ucb", "refl", "thompson", "safa"]))
    at = luck.randint(1, 160)
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # processes that lose their parent say so
        _die_at(at, str(place))
        with contextlib.suppress(BaseException):
            run_in(place / "run", values, workers)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    _count_kill(os.WIFSIGNALED(status))
    run_in(place / "run", values)
    return differing(place / "run", values)


def killed_while_workers_train(luck: random.Random, place: Path) -> str:
    """The same of a run that writes while one or two workers train the next round."""
    return killed_at_a_file_event(luck, place, workers=luck.randint(1, 2))


def _die_at(number: int, below: str) -> None:
    """Kill this process at the n-th file event below a folder."""
    left = [number]
    events = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "shutil.rmtree")

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in events and str(arguments[0]).startswith(below):
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)


def killed_comparison(luck: random.Random, place: Path, more: Sequence[str] = (), pace: float = 1.0) -> str:
    """`enlist compare` with two processes, killed once or twice, then continued: every run as if alone."""
    values = world("random", rounds=20)
    (place / "config.json").write_text(json.dumps(values))
    command = ["compare", str(place / "config.json"), "--selectors", "random,oort", "--seeds", "2"]
    command += ["--output", str(place / "out")]
    for _ in range(luck.randint(1, 2)):
        _killed(_enlist([*command, "--jobs", str(luck.randint(1, 2)), *more], place), pace * luck.uniform(2.0, 8.0))
    code, output = _finished(_enlist([*command, "--jobs", "2", *more], place))
    if code:
        return f"exit {code}: {output[-300:]}"
    wrong = []
    for result in sorted((place / "out" / "runs").glob("*/*/result.json")):
        selector, seed = result.parent.parent.name, int(result.parent.name)
        found = differing(result.parent, {**values, "selector": selector, "seed": seed})
        wrong += [f"{selector} {seed}: {found}"] if found else []
    return "; ".join(wrong)


def killed_run_on_ray(luck: random.Random, place: Path) -> str:
    """The same of a run whose training workers are actors of a Ray cluster, which lives on."""
    with _on_ray():
        return killed_at_a_random_moment(luck, place, ("--engine", "ray"), least=1)


def killed_comparison_on_ray(luck: random.Random, place: Path) -> str:
    """The same of a comparison whose runs are tasks of a Ray cluster, which lives on."""
    with _on_ray():
        return killed_comparison(luck, place, ("--engine", "ray"), pace=RAY_PACE)


@functools.cache
def _cluster() -> Any:
    """A Ray cluster of this machine, until this program ends."""
    os.environ.setdefault("RAY_worker_niceness", "0")
    from ray.cluster_utils import Cluster

    return Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})


@contextlib.contextmanager
def _on_ray() -> Iterator[None]:
    os.environ["RAY_ADDRESS"] = _cluster().address
    try:
        yield
    finally:
        del os.environ["RAY_ADDRESS"]


def killed_personalisation(luck: random.Random, place: Path) -> str:
    """`enlist personalise`, killed, then resumed: the same tables as without the kill."""
    settings = ["--set", "rounds.rounds=6", "--set", "workers.dataset.rows=3000", "--seeds", "1"]
    command = ["personalise", str(Path("examples/personal/telecom.toml").absolute()), *settings]
    code, output = _finished(_enlist([*command, "--output", str(place / "whole")], place))
    if code:
        return f"exit {code}: {output[-300:]}"
    _killed(_enlist([*command, "--output", str(place / "cut")], place), luck.uniform(1.5, 6.0))
    again = [*command, "--output", str(place / "cut"), *(["--resume"] if (place / "cut").is_dir() else [])]
    code, output = _finished(_enlist(again, place))
    return f"exit {code}: {output[-300:]}" if code else _same_tables(place / "whole", place / "cut")


def killed_study(luck: random.Random, place: Path) -> str:
    """`enlist reproduce mabfl --scale smoke`, killed, then resumed: all experiments are there, none twice."""
    command = ["reproduce", "mabfl", "--scale", "smoke", "--output", str(place / "out")]
    _killed(_enlist(command, place), luck.uniform(3.0, 12.0))
    again = [*command, *(["--resume"] if (place / "out").is_dir() else [])]
    code, output = _finished(_enlist(again, place))
    if code:
        return f"exit {code}: {output[-300:]}"
    facts = json.loads((place / "out" / "settings.json").read_text())
    return f"experiments failed: {facts['failed']}" if facts["failed"] else ""


def _enlist(arguments: Sequence[str], place: Path) -> subprocess.Popen[str]:
    script = "from enlist.cli import main; main()"
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        cwd=place, start_new_session=True, env=surroundings,
    )  # fmt: skip


def _lines(file: Path) -> int:
    """Lines of a table below its header, as far as they are there."""
    return max(file.read_bytes().count(b"\n") - 1, 0) if file.is_file() else 0


def _await_rounds(process: subprocess.Popen[str], rows: Path, wanted: int) -> None:
    """Wait until a run has written so many rounds, or has ended."""
    until = time.monotonic() + HANG
    while process.poll() is None and _lines(rows) < wanted and time.monotonic() < until:
        time.sleep(0.002)


def _killed(process: subprocess.Popen[str], seconds: float) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=seconds)
    _count_kill(process.poll() is None)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


_kills = 0


def _count_kill(hit: bool) -> None:
    """Note that something was killed, unless it had ended by itself."""
    global _kills
    _kills += hit


def _finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    try:
        output, _ = process.communicate(timeout=HANG)
    except subprocess.TimeoutExpired:
        _killed(process, 0.0)
        return 1, f"hangs: no end after {HANG:.0f} s"
    return process.returncode, output


def _same_tables(one: Path, other: Path) -> str:
    names = sorted(path.relative_to(one) for path in one.rglob("*.csv") if path.name != "wall.csv")
    wrong = [str(name) for name in names if (one / name).read_bytes() != (other / name).read_bytes()]
    return f"{', '.join(wrong)} differ" if wrong else ""


# Damage.


def damaged_folder(luck: random.Random, place: Path) -> str:
    """A stopped run with one file damaged: resuming it ends as if nothing were, or is refused with a sentence."""
    values = world("oort")
    template = _stopped(values)
    outside = place / "outside.txt"
    outside.write_text("precious")
    folder = Path(shutil.copytree(template, place / "run"))
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in ("wall.csv", "lock"))
    path = luck.choice(files)
    how = _damage(luck, path, files, outside)
    name = f"{path.relative_to(folder)}: {how}"
    try:
        with _alarm(HANG):
            run_in(folder, values)
    except EnlistError:
        return "" if outside.read_text() == "precious" else f"{name}: a file outside was changed"
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    if outside.read_text() != "precious":
        return f"{name}: a file outside was changed"
    found = differing(folder, values)
    return f"{name}: silently {found}" if found else ""


def damaged_other_folder(luck: random.Random, place: Path) -> str:
    """A comparison, study, personalised run or federation with one file damaged: read, or refused with a sentence."""
    kind = luck.choice(list(READERS))
    outside = place / "outside.txt"
    outside.write_text("precious")
    folder = Path(shutil.copytree(SAVED / kind, place / kind))
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    path = luck.choice(files)
    name = f"{path.relative_to(place)}: {_damage(luck, path, files, outside)}"
    try:
        with _alarm(HANG), contextlib.suppress(EnlistError):
            READERS[kind](folder)
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    return "" if outside.read_text() == "precious" else f"{name}: a file outside was changed"


def _read_comparison(folder: Path) -> None:
    tables = [read_run(run) for run in find_runs([folder])]
    comparison_rows(tables)
    Comparison(load(SAVED / "run" / "config.json"), ("random", "oort"), 2, 0).run(folder)


def _read_study(folder: Path) -> None:
    study = studies.get("mabfl")
    with Reproduction.open(study, study.scale("smoke"), folder, resume=True):
        pass


def _read_personal(folder: Path) -> None:
    for found in find_personal([folder]):
        read_personal(found)
    every_target(load_personal(SAVED / "personal/seed-0/2/config.json"), folder / "seed-0", targets=["2"], resume=True)


def _read_federation(folder: Path) -> None:
    comparison_rows([read_run(folder)])
    replay(folder)


SAVED = Path(__file__).parents[1] / "tests" / "saved" / "0.1"
READERS: dict[str, Callable[[Path], None]] = {
    "comparison": _read_comparison,
    "study": _read_study,
    "personal": _read_personal,
    "federation": _read_federation,
}

_templates: dict[str, Path] = {}


def _stopped(values: dict[str, Any]) -> Path:
    """A run that was stopped half-way."""
    key = json.dumps(values)
    if key not in _templates:
        folder = Path(tempfile.mkdtemp()) / "run"
        child = os.fork()
        if child == 0:
            _die_at(60, str(folder))
            with contextlib.suppress(BaseException):
                run_in(folder, values)
            os._exit(0)
        os.waitpid(child, 0)
        _templates[key] = folder
    return _templates[key]


def _damage(luck: random.Random, path: Path, others: Sequence[Path], outside: Path) -> str:
    """Damage a file in one of many ways; returns which."""
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    kind = luck.choice(
        ["flip", "cut", "empty", "remove", "grow", "swap", "row", "digit", "link", "folder", "fifo", "hard link"]
    )
    if kind == "flip" and content:
        at = luck.randrange(len(content))
        path.write_bytes(content[:at] + bytes([content[at] ^ (1 << luck.randrange(8))]) + content[at + 1 :])
    elif kind == "cut":
        path.write_bytes(content[: luck.randrange(len(content) + 1)])
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "grow":
        path.write_bytes(content + luck.randbytes(luck.randint(1, 40)))
    elif kind == "swap":
        path.write_bytes(luck.choice(others).read_bytes())
    elif kind == "row" and len(lines) > 2:
        row = luck.randrange(1, len(lines))
        path.write_bytes(b"".join(lines[:row] + lines[row + 1 :]))
    elif kind == "digit" and any(48 <= byte <= 57 for byte in content):
        at = luck.choice([index for index, byte in enumerate(content) if 48 <= byte <= 57])
        path.write_bytes(content[:at] + bytes([48 + (content[at] - 47) % 10]) + content[at + 1 :])
    else:
        path.unlink()
        if kind == "link":
            path.symlink_to(outside)
        elif kind == "hard link":
            os.link(outside, path)
        elif kind == "folder":
            path.mkdir()
        elif kind == "fifo":
            os.mkfifo(path)
    return kind


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Turns a hang into a TimeoutError."""

    def ring(number: int, frame: Any) -> None:
        raise TimeoutError("hangs")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, min(seconds, 30.0))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)


def damaged_state(luck: random.Random, place: Path) -> str:
    """A saved selector with one file damaged: it loads and goes on as saved, or is refused with a sentence."""
    name = luck.choice(enlist.names())
    selector = enlist.create(name, population(20), seed=7)
    transcript(selector, luck.randint(0, 25))
    selector.save(place / "state")
    chosen = transcript(selector, 6)
    outside = place / "outside.txt"
    outside.write_text("precious")
    files = sorted(path for path in (place / "state").rglob("*") if path.is_file())
    path = luck.choice(files)
    how = f"{name}/{path.name}: {_damage(luck, path, files, outside)}"
    try:
        with _alarm(HANG):
            loaded = enlist.load(place / "state")
    except EnlistError:
        return ""
    except Exception as error:
        return f"{how}: {type(error).__name__}: {error}"
    return "" if transcript(loaded, 6) == chosen else f"{how}: loaded silently, and chooses others"


# Nonsense.

NONSENSE: tuple[Any, ...] = (
    math.inf, -math.inf, math.nan, 0, -1, 1, 0.5, 1e200, 1e-320, 2**31, 2**63, 10**40, -(10**40), True, None, "", "x",
    "x" * 10_000, "\x1b[31m", "../../up", [], {}, [1, 2], {"a": 1}, [[[]]], "oort", "1e400", 1e308, -0.0,
)  # fmt: skip


def fuzzed_configuration(luck: random.Random, place: Path) -> str:
    """A configuration with one to three nonsensical values: it is refused with a sentence, or it is valid."""
    values = json.loads(json.dumps(parse(world("oort"), "chaos").model_dump(mode="json")))
    changed = []
    for _ in range(luck.randint(1, 3)):
        table, path = values, []
        while True:
            key = luck.choice(sorted(table)) if table else "new"
            path.append(key)
            if isinstance(table.get(key), dict) and table[key] and luck.random() < 0.8:
                table = table[key]
                continue
            table[key] = luck.choice(NONSENSE)
            changed.append(f"{'.'.join(path)} = {table[key]!r:.40}")
            break
    try:
        parse(values, "chaos")
    except EnlistError:
        return ""
    except Exception as error:
        return f"{'; '.join(changed)}: {type(error).__name__}: {error!s:.120}"
    return ""


def fuzzed_calls(luck: random.Random, place: Path) -> str:
    """40 calls of one selector with nonsense: each works, or is an EnlistError that leaves the selector as it was."""
    name = luck.choice(enlist.names())
    selector = enlist.create(name, population(12), seed=3)
    picked: list[Any] = []
    for turn in range(40):
        before = _fingerprint(selector)
        call, arguments = _call(luck, selector, picked)
        try:
            with np.errstate(all="ignore"):
                result = getattr(selector, call)(*arguments[0], **arguments[1])
            if call == "ask":
                picked.append(result)
        except EnlistError:
            if _fingerprint(selector) != before:
                return f"{name}, call {turn}: {call}{arguments!r:.160} was refused and changed the selector"
        except Exception as error:
            return f"{name}, call {turn}: {call}{arguments!r:.160}: {type(error).__name__}: {error!s:.100}"
    chosen = selector.ask(k=3, deadline=50.0)
    return "" if len(chosen) == 3 or selector.may_choose_fewer else f"{name} selects {len(chosen)} of 3 afterwards"


def _call(luck: random.Random, selector: Any, picked: Sequence[Any]) -> tuple[str, tuple[tuple[Any, ...], Any]]:
    def odd(usual: Any) -> Any:
        return luck.choice(NONSENSE) if luck.random() < 0.3 else usual

    call = luck.choice(["ask", "ask", "ask", "tell", "tell", "observe", "accept", "explain"])
    if call == "ask" or not picked:
        named = {"now": odd(float(selector.round)), "deadline": odd(20.0), "busy": odd([0])}
        return "ask", ((odd([1, 2, 3, 5, 7]), odd(3)), named)
    selection = odd(luck.choice(picked))
    if call == "tell":
        count = len(selection) if isinstance(selection, enlist.Selection) else 2
        names = ("latency", "loss", "loss_rms", "accuracy", "accuracy_gain", "num_examples", "upload_latency")
        columns = {name: [odd(luck.uniform(0.1, 9.0)) for _ in range(count)] for name in names}
        try:
            feedback = enlist.Feedback(**columns)
            metrics = enlist.RoundMetrics(accuracy=odd(0.5), loss=odd(1.0), duration=odd(9.0))
        except EnlistError:
            return "observe", (([0, 1], 1.0), {})
        return "tell", ((selection, odd(feedback)), {"round": odd(metrics)})
    if call == "observe":
        return call, ((odd([0, 1]), odd(2.0)), {})
    return (call, ((odd([1, 2]), odd(2)), {})) if call == "accept" else (call, ((selection,), {}))


def _fingerprint(selector: Any) -> Any:
    leaves = [(name, value.tobytes() if isinstance(value, np.ndarray) else value) for name, value in _leaves(selector)]
    return repr(leaves), selector.round, sorted(selector.openings), selector.rng.bit_generator.state["state"]["state"]


def _leaves(selector: Any) -> list[tuple[str, Any]]:
    return [*selector.state.leaves(), ("selected", selector.counts.selected), ("observed", selector.counts.observed)]


TRIALS: dict[str, tuple[Trial, int]] = {
    "kill of a run at a random moment": (killed_at_a_random_moment, 50),
    "kill of a run at a file event": (killed_at_a_file_event, 150),
    "kill of a run with workers at a file event": (killed_while_workers_train, 50),
    "kill of a comparison": (killed_comparison, 10),
    "kill of a run on Ray": (killed_run_on_ray, 25),
    "kill of a comparison on Ray": (killed_comparison_on_ray, 25),
    "kill of a personalised run": (killed_personalisation, 8),
    "kill of a study": (killed_study, 4),
    "damaged run folder": (damaged_folder, 300),
    "damaged comparison, study, personalised run or federation": (damaged_other_folder, 200),
    "damaged selector state": (damaged_state, 400),
    "fuzzed configuration": (fuzzed_configuration, 1500),
    "fuzzed calls (40 each)": (fuzzed_calls, 850),
}
"""What is tried, and how often."""


def attempt(name: str, number: int) -> Outcome:
    """One trial, in a folder of its own that is gone afterwards."""
    place, begun, before = Path(tempfile.mkdtemp(prefix="enlist-chaos-")), time.perf_counter(), _kills
    try:
        found = TRIALS[name][0](random.Random(number), place)
    except Exception as error:
        found = f"{type(error).__name__}: {error!s:.300}"
    finally:
        for path in place.rglob("*"):
            if not path.is_symlink() and stat.S_ISFIFO(path.lstat().st_mode):
                path.unlink()
        shutil.rmtree(place, ignore_errors=True)
    return Outcome(name, number, found, _kills - before, round(time.perf_counter() - begun, 1))


class Record:
    """Outcomes so far, and a file that keeps them, if there is one.

    >>> Record(None).outcomes
    {}
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.outcomes: dict[tuple[str, int], Outcome] = {}
        if path is not None and path.exists():
            every = (Outcome(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())
            self.outcomes = {(each.trial, each.number): each for each in every}

    def add(self, outcome: Outcome) -> None:
        """Keep one more."""
        self.outcomes[outcome.trial, outcome.number] = outcome
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(outcome._asdict()) + "\n")


def table(
    seed: int, share: float, only: str | None, record: Record | None = None, minutes: float = math.inf
) -> tuple[list[str], bool]:
    """The table of all trials, with those of a record; False if anything was violated.

    After so many minutes no further trial is begun.
    """
    rows = [f"Seed {seed}.", "", "| trial | count | violations |", "|---|---|---|"]
    record, until, left = record or Record(None), time.monotonic() + 60 * minutes, 0
    violated, killed = False, []
    for name, (_, count) in TRIALS.items():
        chosen = name == only if only in TRIALS else name.startswith(only or "")
        luck = random.Random(f"{seed} {name}")
        numbers = [luck.randrange(2**32) for _ in range(max(count, round(share * count)))]
        for number in numbers[: max(1, round(share * count))] if chosen else ():
            if (name, number) in record.outcomes:
                continue
            if time.monotonic() >= until:
                left += 1
                continue
            record.add(attempt(name, number))
            if violation := record.outcomes[name, number].violation:
                print(f"  violated: --only '{name}' --number {number}: {violation}", flush=True)
        found = [record.outcomes[name, number] for number in numbers if (name, number) in record.outcomes]
        if not found:
            continue
        kills, wrong = sum(each.kills for each in found), sum(bool(each.violation) for each in found)
        seconds = sum(each.seconds for each in found)
        print(f"{name}: {len(found)} trials, {kills} kills, {wrong} violations, {seconds:.0f} s", flush=True)
        rows.append(f"| {name} | {len(found):,} | {wrong} |")
        killed += [f"{kills} in '{name}'"] if kills else []
        violated |= wrong > 0
    rows += ["", f"Processes killed: {', '.join(killed)}."] if killed else []
    if left:
        print(f"{left} trials are left: type the same command again", flush=True)
    return rows, not violated


def joined(page: str, rows: Sequence[str]) -> list[str]:
    """Rows, and those of a page for trials that are not among them.

    >>> joined("| kill of a study | 1 | 0 |", ["| trial |", "|---|", "| fuzzed configuration | 9 | 0 |", "", "More."])
    ['| trial |', '|---|', '| kill of a study | 1 | 0 |', '| fuzzed configuration | 9 | 0 |', '', 'More.']
    """
    begin = next(at for at, line in enumerate(rows) if line.startswith("|---")) + 1
    end = next((at for at, line in enumerate(rows) if at >= begin and not line), len(rows))
    found = {line.split(" | ")[0][2:]: line for line in (*page.splitlines(), *rows[begin:end]) if line.startswith("| ")}
    return [*rows[:begin], *(found[name] for name in TRIALS if name in found), *rows[end:]]


def main() -> None:
    """Run the trials; exit 1 if anything was violated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="share of the trials to run")
    parser.add_argument("--only", help="a trial of the table, or how the names of several begin, such as kill")
    parser.add_argument("--number", type=int, help="repeat this one trial of --only")
    parser.add_argument("--record", type=Path, help="a file that keeps trials, which are not repeated")
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no trial after so many minutes")
    parser.add_argument("--output", type=Path, help="a page with the marks <!-- trials --> and <!-- /trials -->")
    options = parser.parse_args()
    if options.only and not any(name.startswith(options.only) for name in TRIALS):
        parser.error(f"--only is {options.only!r}; trials are: {', '.join(TRIALS)}")
    if options.number is not None:
        if options.only not in TRIALS:
            parser.error("--number repeats one trial: give its whole name with --only")
        sys.exit(attempt(options.only, options.number).violation or 0)
    print(f"seed {options.seed}", flush=True)
    record = Record(options.record)
    _, holds = table(options.seed, options.share, options.only, record, options.minutes)
    if options.output:
        rows, holds = table(options.seed, options.share, None, record, minutes=0.0)
        between(options.output, "trials", joined(options.output.read_text(encoding="utf-8"), rows))
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
