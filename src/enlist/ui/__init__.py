"""The live page: watch runs select their clients, and see why. Needs the extra `ui`.

    enlist ui runs/ ~/enlist-state            http://127.0.0.1:8765

The run folders are the only source of data. They are read as they grow and never written; there is no database.

Addresses, all of which can be shared. An id is the name of a given folder, followed by the path below it:
`compare-001/runs/oort/0`.

    /                                   all runs; ?q= text, kind=, state=, group= key, sort= column, of= chosen runs
    /run/ID                             one simulation; ?round=41 shows the clients that round selected, and why
    /client/ID?client=7&round=41        one client: its history, and why it was (not) selected in a round
    /compare?of=ID&of=ID                runs, comparisons or sweeps side by side; method= names some, target=0.8
    /federation/ID                      a Flower federation, for its operator
    /ladder/ID   /study/ID              leaderboard; verdicts with their figures
    /personal/ID                        personalised learning

The JSON data of a view are under /data and the same path, its charts (Vega-Lite) under /chart/NAME, its tables as CSV
under /table/NAME, a report that opens offline under /report. /events reports changes, /metrics is for Prometheus.

Safety; a test in tests/ui/test_safety.py checks each line:

* Only GET and HEAD; nothing below the folders is written.
* Loopback by default. Another address needs a token: it is shown at the start, kept as a cookie after the first visit
  or sent as "Authorization: Bearer ...", compared in constant time, and never logged.
* The Host header must name this server (DNS rebinding). Pages of other sites are refused data.
* The content security policy allows only scripts and connections of this server; no script is made from data.
* An id is looked up among the folders that were found, so it cannot point elsewhere; links are not followed.
* Nothing that a folder names is imported.
* Names, ids and text from folders are shown as text, and are data in charts.
* A damaged or half-written folder says so, and hides nothing else.
* Caches, viewers, requests and open files are bounded; a viewer that leaves frees its resources.
"""

from __future__ import annotations

from enlist.ui.app import create_app
from enlist.ui.server import serve

__all__ = ["create_app", "serve"]
