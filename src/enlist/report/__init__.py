"""Charts as pure functions of run tables, and the page that shows them. Needs the extra `cli`."""
