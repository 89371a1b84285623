"""Views: pure functions of what lies in folders, each giving text, tables and charts for the page to show."""

from __future__ import annotations
