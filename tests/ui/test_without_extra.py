"""The static report needs nothing of the extra `ui`, and the command of the page says what it needs."""

from __future__ import annotations

import subprocess
import sys

from tests.ui.ui_helpers import comparison

WITHOUT = """
import sys
for name in ("starlette", "uvicorn", "anyio"):
    sys.modules[name] = None  # as if it were not installed
from enlist.cli import main
main()
"""


def enlist(*words):
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *map(str, words)], capture_output=True, text=True, check=False
    )


def test_a_report_is_written_and_the_page_asks_for_the_extra(tmp_path):
    comparison(tmp_path / "compared")
    done = enlist("report", tmp_path / "compared", "--output", tmp_path / "report")
    assert done.returncode == 0, done.stderr
    assert "vegaEmbed" in (tmp_path / "report" / "report.html").read_text()
    refused = enlist("ui", tmp_path)
    assert refused.returncode == 2
    assert "enlist[ui]" in refused.stderr + refused.stdout
    assert "Traceback" not in refused.stderr
