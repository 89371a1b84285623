"""Helpers that every layer uses and no user imports: checks, text, files, statistics, settings and options."""
