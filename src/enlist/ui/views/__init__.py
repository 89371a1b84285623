"""Views: pure functions of the content of folders, which return text, tables and charts for the page."""

from __future__ import annotations
