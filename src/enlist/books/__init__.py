"""Driving a selector: the books between it and a federation, and the log of what it was asked and told.

Arena, simulator and Flower adapter all drive selectors through `Books`, so one recorded log replayed through any of
them gives the same selections. Replies may come in any order; they are told in client order when the round closes.
"""

from __future__ import annotations

from enlist.books.books import Books
from enlist.books.log import cut, replay, replay_lines
from enlist.books.replies import Replies

__all__ = ["Books", "Replies", "cut", "replay", "replay_lines"]
