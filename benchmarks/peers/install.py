"""The virtual environment of the peers:  python -m benchmarks.peers.install DIR

Peers are installed here and nowhere else: the product does not depend on them. Prints the path of the environment's
Python. A second call with the same directory does nothing.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
from pathlib import Path

# The same torch as ours, or the comparison would be one of torch versions.
REQUIREMENTS = ("torch==2.13.0", "pfl[pytorch]==0.6.0", "flwr[simulation]==1.41.0")
IMPORTS = "import torch, pfl.model.pytorch, flwr.simulation, ray"


def install(directory: Path) -> Path:
    """Makes the environment unless it is there already and returns the path of its Python."""
    directory = directory.absolute()
    python = directory / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = directory / "peers.txt"
    wanted = "\n".join(REQUIREMENTS) + "\n"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    venv.create(directory, with_pip=True)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    # pip talks on standard output, which is for the path alone.
    subprocess.run([*pip, *REQUIREMENTS], check=True, stdout=sys.stderr)
    subprocess.run([str(python), "-c", IMPORTS], check=True, stdout=sys.stderr)
    stamp.write_text(wanted)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.install")
    parser.add_argument("directory", type=Path, help="where the environment goes, such as .peers")
    print(install(parser.parse_args().directory))


if __name__ == "__main__":
    main()
