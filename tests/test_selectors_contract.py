"""Every registered selector passes the published contract suite."""

from __future__ import annotations

import pytest

import enlist
import enlist.testing


@pytest.mark.parametrize("check", enlist.testing.CHECKS)
@pytest.mark.parametrize("selector", enlist.names())
def test_contract(check: str, selector: str) -> None:
    enlist.testing.run(check, selector)
