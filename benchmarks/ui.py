"""The live page under load: many viewers on one run that grows, and an overview of many folders.

    python -m benchmarks.ui                              200 viewers, 500 folders, ten minutes
    python -m benchmarks.ui --seconds 60 --folders 100   a short look

A server in a process of its own shows a folder with many finished runs and one that gets a round every second. Viewers
hold a stream of events open and ask for the view's data when they are told of a change, as browsers do; one in ten
asks for the overview. What is measured: the time from asking to having a view's data; for some viewers, the time from
the end of a round to having data with that round in it; and the server's memory, open files and processor time. The
page's rule is a 95th percentile of data under 300 ms and memory that stays flat, on a machine that does nothing else:
`cores` says how much of a core the server took, which does not depend on what else runs.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from enlist.runs.example import example_run, write_run

SERVE = """
import sys
from pathlib import Path
from enlist.ui import serve
serve([Path(sys.argv[1])], port=int(sys.argv[2]))
"""
LIMIT = 0.3
GROWTH = 1.15
"""The memory in the last quarter may be so many times that of the second."""


def fill(place: Path, folders: int, rounds: int = 60) -> Path:
    """Write finished runs, and the one that grows; returns its folder."""
    for number in range(folders - 1):
        method = ("oort", "bsfl", "fedsuv", "random")[number % 4]
        write_run(example_run(method, number // 4, clients=40, rounds=rounds), place / "done" / str(number))
    live = write_run(example_run("oort", 1, clients=500, rounds=2_000, k=20), place / "live")
    (live / "result.json").unlink()
    return live


class Growing:
    """A finished run whose tables are written again, round by round."""

    def __init__(self, folder: Path, first: int) -> None:
        self.folder, self.next = folder, first + 1
        self.lines = {name: (folder / f"{name}.csv").read_text().splitlines(keepends=True) for name in self.names}
        for name in self.names:
            kept = [line for line in self.lines[name][1:] if int(line.partition(",")[0]) <= first]
            (folder / f"{name}.csv").write_text(self.lines[name][0] + "".join(kept))

    names = ("participations", "reasons", "rounds")

    def step(self) -> float:
        """Append a round; returns when it ended."""
        start = f"{self.next},"
        for name in self.names:
            rows = [line for line in self.lines[name] if line.startswith(start)]
            with (self.folder / f"{name}.csv").open("a") as file:
                file.writelines(rows)
        self.next += 1
        return time.monotonic()


class Measured:
    """Times in seconds, and what the server used."""

    def __init__(self) -> None:
        self.data: list[float] = []
        self.shown: list[float] = []
        self.memory: list[float] = []
        self.files: list[int] = []
        self.failed = 0
        self.ended: dict[int, float] = {}


async def get(port: int, path: str) -> bytes:
    """One request; the body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        writer.write(head.encode())
        answer = await reader.read()
    finally:
        writer.close()
    if not answer.startswith(b"HTTP/1.1 200"):
        raise OSError(answer[:80].decode(errors="replace"))
    return answer


async def viewer(port: int, number: int, until: float, found: Measured) -> None:
    """Watch, and ask for the view's data after every change."""
    path = "/data/runs" if number % 10 == 0 else "/data/run/place/live"
    last = 0
    await asyncio.sleep(random.random() * 5)
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**20)
    try:
        writer.write(
            f"GET /events{'' if number % 10 == 0 else '?of=place/live'} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        )
        while time.monotonic() < until:
            line = await asyncio.wait_for(reader.readline(), 30)
            if not line.startswith(b"event: change"):
                continue
            await asyncio.sleep(0.3 * random.random())  # as the page does
            began = time.monotonic()
            answer = await get(port, path)
            found.data.append(time.monotonic() - began)
            if number % 10 == 1:
                shown = rounds_in(answer)
                found.shown += [time.monotonic() - found.ended[each] for each in range(last + 1, shown + 1) if last]
                last = shown
    except (OSError, TimeoutError) as error:
        found.failed += 1
        print(f"viewer {number}: {error!r}", file=sys.stderr)
    finally:
        writer.close()


def rounds_in(answer: bytes) -> int:
    """Rounds of the run that an answer shows."""
    head, _, body = answer.partition(b"\r\n\r\n")
    content = gzip.decompress(body) if b"content-encoding: gzip" in head.lower() else body
    return int(json.loads(content)["state"]["rounds"])


async def grow(growing: Growing, until: float, found: Measured) -> None:
    """A round every second."""
    while time.monotonic() < until:
        number = growing.next
        found.ended[number] = growing.step()
        await asyncio.sleep(1.0)


async def meter(pid: int, until: float, found: Measured) -> None:
    """Memory in MB and open files of the server, every second."""
    while time.monotonic() < until:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                found.memory.append(int(line.split()[1]) / 1024)
        found.files.append(len(os.listdir(f"/proc/{pid}/fd")))
        await asyncio.sleep(1.0)


def cpu_seconds(pid: int) -> float:
    """Processor time of the server so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def ready(port: int, seconds: float = 120.0) -> float:
    """Wait for the server; returns how long the first overview took."""
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        try:
            await get(port, "/data/runs")
            return time.monotonic() - began
        except OSError:
            await asyncio.sleep(0.2)
    raise TimeoutError("the server does not answer")


def measure(viewers: int, folders: int, seconds: float, port: int) -> dict[str, Any]:
    """Run everything; the figures."""
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch) / "place"
        growing = Growing(fill(place, folders), first=200)
        with subprocess.Popen(
            [sys.executable, "-c", SERVE, str(place), str(port)], stdout=subprocess.DEVNULL
        ) as server:
            try:
                return asyncio.run(_measure(viewers, folders, seconds, port, growing, server.pid))
            finally:
                server.terminate()


async def _measure(viewers: int, folders: int, seconds: float, port: int, growing: Growing, pid: int) -> dict[str, Any]:
    found, first = Measured(), await ready(port)
    until = time.monotonic() + seconds
    before = cpu_seconds(pid)
    tasks = [viewer(port, number, until, found) for number in range(viewers)]
    await asyncio.gather(grow(growing, until, found), meter(pid, until, found), *tasks)
    quarter = max(len(found.memory) // 4, 1)
    early, late = found.memory[quarter : 2 * quarter] or found.memory, found.memory[-quarter:]
    return {
        "viewers": viewers,
        "folders": folders,
        "seconds": seconds,
        "first_overview_s": round(first, 2),
        "answers": len(found.data),
        "failed_viewers": found.failed,
        "data_ms": {name: round(1000 * float(np.quantile(found.data, share)), 1) for name, share in SHARES.items()},
        "shown_ms": {name: round(1000 * float(np.quantile(found.shown, share)), 1) for name, share in SHARES.items()},
        "memory_mb": {
            "second quarter": round(float(np.mean(early)), 1),
            "last quarter": round(float(np.mean(late)), 1),
        },
        "most_files": max(found.files),
        "cores": round((cpu_seconds(pid) - before) / seconds, 2),
        "load": round(os.getloadavg()[0], 1),
    }


SHARES = {"median": 0.5, "p95": 0.95, "p99": 0.99}


def main() -> None:
    """Measure, print JSON, and fail if the rule is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewers", type=int, default=200)
    parser.add_argument("--folders", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--port", type=int, default=8799)
    given = parser.parse_args()
    figures = measure(given.viewers, given.folders, given.seconds, given.port)
    print(json.dumps(figures, indent=1))
    slow = figures["data_ms"]["p95"] > 1000 * LIMIT
    grew = figures["memory_mb"]["last quarter"] > GROWTH * figures["memory_mb"]["second quarter"]
    if slow or grew or figures["failed_viewers"]:
        sys.exit("the rule is broken: data under 300 ms at the 95th percentile, flat memory, nobody lost.")


if __name__ == "__main__":
    main()
