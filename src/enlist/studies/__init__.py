"""Studies: reproductions of published work, as data. `enlist reproduce NAME` runs one. Needs the extra `sim`."""

from __future__ import annotations

import importlib

from enlist.errors import unknown
from enlist.studies.study import Study

STUDIES = {
    "mabfl": "enlist.studies.mabfl:MABFL",
    "darts": "enlist.studies.darts:DARTS",
    "bsfl": "enlist.studies.bsfl:STUDY",
    "fedsuv": "enlist.studies.fedsuv:STUDY",
    "power-of-choice": "enlist.studies.power_of_choice:STUDY",
    "fedcor": "enlist.studies.fedcor:STUDY",
    "asynchrony": "enlist.studies.asynchrony:STUDY",
}
"""Name -> where the study is defined."""


def names() -> list[str]:
    """Names of all studies.

    >>> "mabfl" in names()
    True
    """
    return list(STUDIES)


def get(name: str) -> Study:
    """The study of this name.

    >>> get("mabfl").name
    'mabfl'
    >>> get("mabfk")
    Traceback (most recent call last):
    ...
    enlist.errors.UnknownNameError: no study is called 'mabfk'. Did you mean 'mabfl'? Known: ...
    """
    if name not in STUDIES:
        raise unknown("study", name, STUDIES)
    module, _, attribute = STUDIES[name].partition(":")
    study: Study = getattr(importlib.import_module(module), attribute)
    return study
