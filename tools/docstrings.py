"""An extension of Griffe, which reads docstrings: their examples and aligned formulas become code blocks."""

from __future__ import annotations

from typing import Any

import griffe

from tools.reference import fenced


class Fenced(griffe.Extension):
    """Applies `fenced` to all that Griffe reads."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)
