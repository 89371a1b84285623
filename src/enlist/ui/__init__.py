"""The live page: watch runs choose their clients, and see why. Needs the extra `ui`.

    enlist ui runs/ ~/enlist-state            http://127.0.0.1:8765

The run folders are the truth. They are read as they grow and never written; there is no database.

Addresses, each of which can be sent to somebody else. An id is the name of a folder that was given, followed by the
path below it: `compare-001/runs/oort/0`.

    /                                   all runs; ?q= text, kind=, state=, group= key, sort= column, of= chosen runs
    /run/ID                             one simulation; ?round=41 shows whom that round asked, and why
    /client/ID?client=7&round=41        one client: its history, and why it was (not) chosen in a round
    /compare?of=ID&of=ID                runs, comparisons or sweeps side by side; method= names some, target=0.8
    /federation/ID                      a Flower federation, as its operator needs it
    /ladder/ID   /study/ID              leaderboard; verdicts with their figures
    /personal/ID                        personalised learning

Every view's data are JSON under /data and the same rest, its charts (Vega-Lite) under /chart/NAME, its tables as CSV
under /table/NAME, a report that opens offline under /report. /events tells what has changed, /metrics is for
Prometheus.

Safety, each line held by a test in tests/ui/test_safety.py:

* Only GET and HEAD; nothing below the folders is written.
* Loopback by default. Another address needs a token: it is shown at the start, kept as a cookie after the first visit
  or sent as "Authorization: Bearer ...", compared in constant time, and written to no log.
* The Host header must name this server (DNS rebinding). Data are refused to pages of other sites.
* The content security policy allows scripts and connections of this server alone; no script is made from data.
* An id is looked up among the folders that were found, so it cannot point elsewhere; links are not followed.
* Nothing that a folder names is imported.
* Names, ids and text from folders are text: the page writes them as text, charts carry them as data.
* A folder that is damaged or half written says so, and hides nothing else.
* Caches, viewers, requests and open files are bounded; a viewer that goes frees what it used.
"""

from __future__ import annotations

from enlist.ui.app import create_app
from enlist.ui.server import serve

__all__ = ["create_app", "serve"]
