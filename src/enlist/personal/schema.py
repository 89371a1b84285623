"""The page docs/personalisation-keys.md, made from the options classes.

`python -m enlist.personal.schema > docs/personalisation-keys.md` rewrites it.
"""

from __future__ import annotations

import sys

from enlist.personal.config import PersonalConfig
from enlist.simulation.schema import page

INTRODUCTION = """\
# Keys of personalised learning

`enlist personalise my.toml` reads one TOML file. Every key below may be left out unless it is marked as required.
Unknown keys, wrong types and values out of bounds are refused before anything runs, with the nearest key that exists.
[personalisation.md](personalisation.md) explains the sections. Change single keys from the command line:
`enlist personalise my.toml --set rounds.rounds=30 --set rule=extreme-explore`.

If a section has alternatives, its `kind` (for data sets and models its `name`) says which one is meant. The word
alone stands for the table with defaults: `rule = "ucb"` is short for `rule = { kind = "ucb" }`. A number as `epochs` is
fixed: `epochs = 6`. A worker's file may be given by its path alone: `files = { north = "north.npz" }`.

This page is made from the code: `python -m enlist.personal.schema > docs/personalisation-keys.md`.
"""


def markdown() -> str:
    """The page: every section, every key, and every alternative of those that have some.

    >>> print(markdown()[:31])
    # Keys of personalised learning
    """
    return page(PersonalConfig.model_json_schema(), INTRODUCTION)


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(markdown())
