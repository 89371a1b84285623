"""Seconds per round against the machine's limit, pfl-research, Flower and a naive loop, side by side:

    python -m benchmarks.training [--models mlp,cnn] [--peers bare,pfl] [--blocks 6] [--output docs/training-speed.md]
    python -m benchmarks.training --precision bf16 --models cnn --sizes equal --peers float32,pfl,pfl-tuned,naive
    python -m benchmarks.training --headline DIR        pfl-research's own workload, on CIFAR-10 in DIR

All of them hold 500 Fashion-MNIST clients (120 images each, or lognormal), 25 a round, batch 20, one epoch. They run
in processes of their own and take turns, block by block, so that a slow minute of the machine hits everybody; what
counts is the ratio of the medians. Peers are installed into a virtual environment of the benchmark's own. Each of the
three kinds of run has a table of its own on the page.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median

import numpy as np

from benchmarks.pages import between

ROUNDS = {"logistic": 30, "mlp": 12, "cnn": 3}
"""Rounds in a block of ours; a peer's block lasts about as long."""
NEEDED = {
    ("bare", "logistic", "equal"): 0.5,
    ("bare", "mlp", "equal"): 0.85,
    ("bare", "cnn", "equal"): 0.9,
    ("bare", "mlp", "lognormal"): 0.75,
    ("bare", "cnn", "lognormal"): 0.85,
    ("pfl", "logistic", "equal"): 4.0,
    ("pfl", "mlp", "equal"): 2.3,
    ("pfl", "cnn", "equal"): 1.5,
    ("flower", "logistic", "equal"): 20.0,
    ("flower", "mlp", "equal"): 10.0,
    ("flower", "cnn", "equal"): 2.0,
    ("float32", "cnn", "equal"): 1.5,
}
OWN_ENVIRONMENT = ("pfl", "pfl-tuned", "flower")
AS_IT_COMES = ("--plain", "--allocator", "default", "--processes", "1")
PEERS: dict[str, tuple[str, tuple[tuple[str, ...], ...]]] = {
    "enlist": ("ours", ((),)),
    "bare": ("bare", ((),)),
    "pfl": ("pfl_peer", (("--threads", "1", *AS_IT_COMES), ("--threads", "2", *AS_IT_COMES))),
    "pfl-tuned": ("pfl_peer", (("--threads", "1"),)),
    "flower": ("flower_peer", ((),)),
    "naive": ("naive", ((),)),
    "float32": ("ours", (("--precision", "float32"),)),
    "headline": ("headline", ((),)),
}
"""Module and variants of each; a peer is judged by its best variant.

`pfl` is pfl-research as it comes, with one and with two threads. `pfl-tuned` has besides what this benchmark found for
itself: our faster form of the CNN, an allocator that keeps memory, and its own multi-process mode, one per core.
"""


class Peer:
    """One subprocess that runs rounds on demand."""

    def __init__(self, name: str, model: str, sizes: str, python: str, variant: Sequence[str] = ()) -> None:
        command = [python, "-m", f"benchmarks.peers.{PEERS[name][0]}", "--model", model, "--sizes", sizes, *variant]
        self.name, self.seconds = name, list[float]()
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if not self._read().get("ready"):
            sys.exit(f"{name} did not start; run it alone to see why: {' '.join(command)}")

    def run(self, rounds: int) -> None:
        assert self.process.stdin is not None
        print(f"run {rounds}", file=self.process.stdin, flush=True)
        self.seconds += self._read()["seconds_per_round"]

    def _read(self) -> dict[str, object]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {}

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()


def measure(
    model: str, sizes: str, names: Sequence[str], blocks: int, python: str, precision: str = "float32"
) -> list[dict[str, object]]:
    """Rows (peer, seconds per round, ratio to ours with its range over blocks)."""
    peers = []
    for name in ("enlist", *names):
        used = python if name in OWN_ENVIRONMENT else sys.executable
        given = [("--precision", precision, *variant) for variant in PEERS[name][1]]  # the last of two counts
        peers += [Peer(name, model, sizes, used, words) for words in given]
    return alternating(peers, model, sizes, ROUNDS[model], blocks)


def alternating(
    peers: Sequence[Peer], model: str, sizes: str, rounds: int, blocks: int, fixed: bool = False
) -> list[dict[str, object]]:
    """Rows of peers that take turns, the first of them ours; blocks of about a second, or of a fixed length."""
    ours, middle = peers[0], mean if fixed else median  # evaluations belong to all rounds of a block
    ratios: dict[int, list[float]] = {index: [] for index in range(1, len(peers))}
    counts = [rounds] * len(peers)
    for block in range(1 if fixed else 0, blocks + 1):
        before = [len(peer.seconds) for peer in peers]
        for peer, count in zip(peers, counts, strict=True):
            peer.run(count)
        spent = [middle(peer.seconds[start:]) for peer, start in zip(peers, before, strict=True)]
        if block == 0:  # the first block only says how many rounds make a block of about a second
            counts = [max(2, round(1.0 / seconds)) for seconds in spent]
            for peer in peers:
                peer.seconds.clear()
            continue
        for index in ratios:
            ratios[index].append(spent[index] / spent[0])
    rows = [{"peer": "enlist", "model": model, "sizes": sizes, "seconds": middle(ours.seconds)}]
    for index, found in ratios.items():
        low, high = np.quantile(found, [0.1, 0.9])
        seconds = middle(peers[index].seconds)
        row = {"peer": peers[index].name, "model": model, "sizes": sizes, "seconds": seconds}
        rows.append(row | {"ratio": median(found), "low": float(low), "high": float(high)})
    for peer in peers:
        peer.close()
    best: dict[str, dict[str, object]] = {}
    for row in rows:
        name = str(row["peer"])
        if name not in best or float(row["seconds"]) < float(best[name]["seconds"]):  # type: ignore[arg-type]
            best[name] = row
    return list(best.values())


def headline(folder: Path, blocks: int, python: str) -> list[dict[str, object]]:
    """The workload that pfl-research is judged by in its own paper, 20 rounds a block, evaluations included."""
    peers = [Peer("headline", "cnn", "equal", sys.executable, ("--data", str(folder), "--simulator", "enlist"))]
    for threads in ("1", "2"):
        words = ("--data", str(folder), "--simulator", "pfl", "--threads", threads)
        peers.append(Peer("headline", "cnn", "equal", python, words))
    for peer, name in zip(peers, ("enlist", "pfl, 1 thread", "pfl, 2 threads"), strict=True):
        peer.name = name
    return alternating(peers, "two-layer CNN", "CIFAR-10 iid", 20, blocks, fixed=True)


def lines(rows: Sequence[dict[str, object]]) -> list[str]:
    """A Markdown table."""
    text = ["| model | sizes | | seconds per round | time of peer / time of Enlist | goal |"]
    text.append("|---|---|---|---|---|---|")
    for row in rows:
        if "ratio" not in row:
            text.append(f"| {row['model']} | {row['sizes']} | **enlist** | {row['seconds']:.4f} | 1 | |")
            continue
        needed = NEEDED.get((str(row["peer"]), str(row["model"]), str(row["sizes"])))
        wanted = "" if needed is None else f"at least {needed:g}"
        ratio = f"{row['ratio']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
        text.append(f"| {row['model']} | {row['sizes']} | {row['peer']} | {row['seconds']:.4f} | {ratio} | {wanted} |")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default="logistic,mlp,cnn")
    parser.add_argument("--sizes", default="equal,lognormal")
    parser.add_argument("--peers", default="bare,pfl,pfl-tuned,flower,naive")
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--environment", type=Path, default=Path(".venv-peers"), help="of the peers; made if missing")
    parser.add_argument("--precision", choices=("float32", "bf16"), default="float32", help="of all but 'float32'")
    parser.add_argument("--headline", type=Path, metavar="DIR", help="pfl-research's workload, on CIFAR-10 in DIR")
    parser.add_argument("--output", type=Path, default=None, help="the page that has the tables")
    options = parser.parse_args()
    names, python = options.peers.split(","), str(options.environment / "bin" / "python")
    if set(names) & set(OWN_ENVIRONMENT):
        from benchmarks.peers.install import install

        install(options.environment)
    if options.headline:
        if not (options.environment / "bin" / "python").exists():
            from benchmarks.peers.install import install

            install(options.environment)
        rows = headline(options.headline, options.blocks, python)
        print("\n".join(lines(rows)))
        if options.output:
            between(options.output, "headline", ["`python -m benchmarks.training --headline DIR`:", "", *lines(rows)])
        return
    rows = []
    for sizes in options.sizes.split(","):
        for model in options.models.split(","):
            wanted = [name for name in names if sizes == "equal" or name == "bare"]
            rows += measure(model, sizes, wanted, options.blocks, python, options.precision)
            print("\n".join(lines(rows)[-len(wanted) - 1 :]), flush=True)
    missed = [
        row
        for row in rows
        if "ratio" in row and float(row["ratio"]) < NEEDED.get((row["peer"], row["model"], row["sizes"]), 0.0)  # type: ignore[arg-type,call-overload]
    ]
    if options.output:
        given = {name: getattr(options, name) for name in ("precision", "models", "sizes", "peers", "blocks")}
        words = "".join(f" --{name} {value}" for name, value in given.items() if value != parser.get_default(name))
        between(options.output, options.precision, [f"`python -m benchmarks.training{words}`:", "", *lines(rows)])
    print("every ratio reaches its goal" if not missed else f"{len(missed)} ratios miss their goals")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
