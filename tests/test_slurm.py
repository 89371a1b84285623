"""The scripts for Slurm: they are sound, call what they should, and one of them runs on a real Ray cluster."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ray_helpers import TABLES, files

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "examples" / "slurm"
NODES = ("n01", "n02", "n03")
SMALL = """
[data]
clients = 12
[rounds]
rounds = 6
k = 4
over_commit = 1.4
deadline = 40.0
late = "merge"
[training]
steps = 3
"""


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """A folder of programs that stand in for those of a cluster; each writes down how it was called."""
    place = tmp_path / "bin"
    place.mkdir()
    log = f'echo "${{0##*/}} $*" >> "{tmp_path}/calls"'
    names = "\\n".join(NODES)
    for name, then in {
        "scontrol": f'printf "{names}\\n"',
        "srun": "exec sleep 60",  # as a step does that blocks
        "python": "cat > /dev/null; exit ${NO_HEAD:-0}",
        # Steps begin in the background, and end with the script.
        "enlist": f'until (($(grep -c ^srun "{tmp_path}/calls") >= STEPS)); do sleep 0.1; done; exit ${{FAILS:-0}}',
    }.items():
        (place / name).write_text(f"#!/bin/bash\n{log}\n{then}\n")
        (place / name).chmod(0o755)
    return tmp_path


def call(bench: Path, script: str, *words: str, **variables: str) -> tuple[int, list[str], str]:
    """How a script ends, what it calls, and what it writes."""
    given = {"SLURM_JOB_ID": "123456", "SLURM_JOB_NODELIST": "n[01-03]", "SLURM_JOB_NUM_NODES": "3"}
    given |= {"SLURM_CPUS_PER_TASK": "32", "SLURM_ARRAY_TASK_ID": "3", "SLURM_ARRAY_TASK_COUNT": "16"}
    given |= {"STEPS": "0", "PATH": f"{bench / 'bin'}{os.pathsep}/usr/bin{os.pathsep}/bin"}
    command = ["bash", str(SCRIPTS / script), *words]
    done = subprocess.run(
        command, env={**given, **variables}, capture_output=True, text=True, check=False, timeout=50, cwd=bench
    )
    log = bench / "calls"
    calls = log.read_text().splitlines() if log.exists() else []
    log.unlink(missing_ok=True)
    return done.returncode, calls, done.stdout + done.stderr


@pytest.mark.parametrize("script", ["array.sh", "ray.sh"])
def test_a_script_is_sound_and_says_what_it_wants(script: str, bench: Path) -> None:
    assert subprocess.run(["bash", "-n", str(SCRIPTS / script)], check=False).returncode == 0
    assert os.access(SCRIPTS / script, os.X_OK)
    code, calls, said = call(bench, script)
    assert (code, calls) == (2, [])
    assert f"usage: sbatch {script}" in said
    asked = re.findall(r"^#SBATCH (\S+)", (SCRIPTS / script).read_text(), flags=re.M)
    assert "--time=12:00:00" in asked
    assert script in (ROOT / "docs" / "slurm.md").read_text()


def test_an_array_runs_its_part(bench: Path) -> None:
    words = ("sweep", "a study.toml", "--set", "rounds.k=5,10")
    code, calls, _ = call(bench, "array.sh", *words)
    assert (code, calls) == (0, ["enlist sweep a study.toml --set rounds.k=5,10 --jobs 32 --shard 3/16"])
    code, calls, _ = call(bench, "array.sh", *words, PARTS="20", SLURM_ARRAY_TASK_COUNT="1", FAILS="1")
    assert code == 1, "Slurm must see that a part failed"
    assert calls[0].endswith("--shard 3/20")


def test_a_cluster_is_started_and_the_command_runs_on_it(bench: Path) -> None:
    code, calls, said = call(
        bench, "ray.sh", "compare", "study.toml", "--output", "out", SLURM_GPUS_ON_NODE="4", STEPS="2"
    )
    assert code == 0, said
    steps = [each for each in calls if each.startswith("srun")]
    assert len(steps) == 2
    others, head = sorted(steps, key=lambda step: "--head" in step)
    assert head.startswith("srun --nodes=1 --ntasks=1 --cpus-per-task=32 --nodelist=n01 ray start --head --port=23456 ")
    assert others.startswith("srun --nodes=2 --ntasks=2 --cpus-per-task=32 --exclude=n01 ray start --address=n01:23456")
    for step in steps:
        assert step.endswith("--num-cpus=32 --block --num-gpus=4")
    assert [each for each in calls if each.startswith("python")] == ["python - 1", "python - 3"], "all nodes are there"
    assert "enlist compare study.toml --output out --engine ray" in calls


def test_an_engine_with_options_is_kept_and_one_node_is_enough(bench: Path) -> None:
    words = ("run", "study.toml", "--engine", "ray?cpus=2")
    code, calls, _ = call(bench, "ray.sh", *words, SLURM_JOB_NUM_NODES="1", FAILS="3", STEPS="1")
    assert code == 3, "Slurm must see that the command failed"
    assert len([each for each in calls if each.startswith("srun")]) == 1
    assert "--num-gpus" not in "".join(calls)
    assert "enlist run study.toml --engine ray?cpus=2" in calls


def test_without_a_head_nothing_is_run(bench: Path) -> None:
    code, calls, _ = call(bench, "ray.sh", "run", "study.toml", NO_HEAD="1")
    assert code == 1
    assert not [each for each in calls if each.startswith("enlist")]


@pytest.mark.verify
def test_the_script_runs_on_a_real_cluster(bench: Path) -> None:
    """Two nodes, which both are this machine: only Slurm is made up. The same bytes as without a cluster."""
    pytest.importorskip("ray")
    place, programs = bench / "bin", Path(sys.executable).parent
    (place / "scontrol").write_text("#!/bin/bash\nhostname; echo elsewhere\n")
    # What it starts must end with it, as the processes of a step do.
    (place / "srun").write_text('#!/bin/bash\nwhile [[ $1 == --* ]]; do shift; done\nexec "$@"\n')
    (place / "enlist").write_text(f'#!/bin/bash\nexec {sys.executable} -c "from enlist.cli import main; main()" "$@"\n')
    (place / "python").unlink()
    (bench / "small.toml").write_text(SMALL)
    words = ("compare", "small.toml", "--selectors", "random,oort", "--seeds", "2", "--output")
    surroundings = {**os.environ, "PATH": f"{place}{os.pathsep}{programs}{os.pathsep}{os.environ['PATH']}"}
    surroundings |= {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "RAY_worker_niceness": "0"}
    slurm = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NODELIST": "x", "SLURM_JOB_NUM_NODES": "2"}
    surroundings |= {**slurm, "SLURM_CPUS_PER_TASK": "1"}
    commands = ["bash", str(SCRIPTS / "ray.sh"), *words, "many"], [str(place / "enlist"), *words, "one"]
    for command in commands:
        done = subprocess.run(
            command, env=surroundings, cwd=bench, capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, done.stdout + done.stderr
        if command is commands[0]:
            assert "Ray: 2 of 2 nodes are there." in done.stdout
    found = [files(bench / name) for name in ("many", "one")]
    assert len(found[0]) == 4 * len(TABLES)
    assert found[0] == found[1]
    shutil.rmtree(f"/tmp/ray-{os.getpid()}")  # its logs
    left = subprocess.run(["pgrep", "-f", f"/tmp/ray-{os.getpid()}/"], capture_output=True, text=True, check=False)
    assert not left.stdout, "nothing that was started is left"
