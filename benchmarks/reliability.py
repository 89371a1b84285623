"""docs/reliability.md:  python -m benchmarks.reliability --output docs/reliability.md [--seed 1] [--share 1.0]

What a hostile folder, file, reply or machine must not be able to do: how often each was tried, and how often it got
through. The trials are those of benchmarks/chaos.py; the tests are those of `make test`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

from benchmarks import chaos

TESTS = {
    "what version 0.1 saved is read and continued, or refused": ("tests/test_saved.py",),
    "links, foreign files and edited tables in a received folder": (
        "tests/runs/test_hostile_folder.py",
        "tests/flower/test_hostile_folder.py",
        "tests/studies/test_hostile_folder.py",
    ),
    "code named in a received configuration": ("tests/runs/test_trust.py",),
    "script in names, opened in Chromium": ("tests/report/test_hostile_pages.py",),
    "names that are paths": ("tests/personal/test_names.py",),
    "one absurd value from one client, every selector": ("tests/selectors/test_absurd.py",),
    "bad arguments to every public call, bad states": ("tests/test_bad_calls.py",),
    "bad configurations, labels and archives": ("tests/simulation/test_bad_configurations.py",),
    "markup and control characters in names": ("tests/cli/test_hostile_names.py",),
    "small /dev/shm, full disk": ("tests/training/test_memory.py", "tests/cli/test_full_disk.py"),
    "workers that die, stop or fall silent": ("tests/training/test_workers.py", "tests/test_processes.py"),
    "endless availability and resampling": ("tests/devices/test_availability.py", "tests/personal/test_metrics.py"),
    "threads that share a selector": ("tests/test_threads.py",),
    "hostile clients and robust aggregation": ("tests/simulation/test_hostile.py", "tests/training/test_robust.py"),
}
"""What must not happen, and the files whose tests try it."""


def tested() -> tuple[list[str], bool]:
    """The table of tests; False if one failed."""
    files = [file for group in TESTS.values() for file in group]
    with tempfile.TemporaryDirectory() as place:
        found = Path(place) / "tests.xml"
        options = ["-q", "-n", "auto", "-m", "not verify", f"--junitxml={found}"]
        subprocess.run([sys.executable, "-m", "pytest", *options, *files], check=False, stdout=subprocess.DEVNULL)
        cases = ElementTree.parse(found).getroot().iter("testcase")
        count: Counter[str] = Counter()
        failed: Counter[str] = Counter()
        for case in cases:
            name = case.attrib["classname"].replace(".", "/") + ".py"
            count[name] += 1
            failed[name] += any(child.tag in ("failure", "error") for child in case)
    rows = ["| what was tried | tests | violations |", "|---|---|---|"]
    for title, group in TESTS.items():
        total, wrong = (sum(each[file] for file in group) for each in (count, failed))
        if not total:
            raise SystemExit(f"no test was found in {', '.join(group)}")
        rows.append(f"| {title} | {total:,} | {wrong} |")
        print(f"{title}: {total} tests, {wrong} violations", flush=True)
    return rows, not failed.total()


PAGE = """# Reliability

This page says what a hostile folder, file, reply or machine must not be able to do, how often it was tried, and how
often it succeeded. It was made in {minutes:.0f} minutes on {cores} cores by

```
{command}
```

## Random trials

Runs are killed and continued, folders and states are damaged, configurations and calls are fuzzed. A violation is a
continued run that differs by a byte, an exception that is not one of Enlist's, an error that changed a selector,
damage that went unnoticed, or a hang. Each trial has a number; `python -m benchmarks.chaos --only NAME --number N`
repeats it. `make verify` runs a quarter of them. This command adds trials of one kind to the table:

```
python -m benchmarks.chaos --only "kill of a run on Ray" --record trials.jsonl --minutes 5 --output docs/reliability.md
```

If you run it again, it continues where it stopped: trials in the record are not repeated.

<!-- trials -->
{trials}
<!-- /trials -->

## Tests

`make test` runs these. [trust.md](trust.md) says what is code, and [hostile.md](hostile.md) how much accuracy hostile
clients cost.

{tests}
"""


def page(seed: int, share: float, record: Path | None = None) -> tuple[str, bool]:
    """The page, and whether nothing was violated."""
    start = time.perf_counter()
    tests, sound = tested()
    trials, holds = chaos.table(seed, share, None, chaos.Record(record))
    minutes = (time.perf_counter() - start) / 60
    command = f"python -m benchmarks.reliability --output docs/reliability.md --seed {seed}"
    command += "" if share == 1 else f" --share {share}"
    command += "" if record is None else f" --record {record}"
    tables = {"trials": "\n".join(trials), "tests": "\n".join(tests)}
    return PAGE.format(minutes=minutes, cores=os.cpu_count(), command=command, **tables), sound and holds


def main() -> None:
    """Write the page; exit 1 if anything was violated."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="share of the random trials to run")
    parser.add_argument("--record", type=Path, help="trials that were made before; see benchmarks/chaos.py")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    text, holds = page(options.seed, options.share, options.record)
    print(text)
    if options.output:
        options.output.write_text(text)
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
