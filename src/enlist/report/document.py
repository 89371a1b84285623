"""An HTML document that opens offline, and in which data are never markup or script.

Text is escaped. Charts are JSON in elements that browsers do not execute, drawn by one fixed script. A content security
policy allows that script and the chart library by their digests, and nothing else: no other script, no network.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import html
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from enlist._internal.text import printable
from enlist.report.library import library

LONGEST = 240
"""Most characters of a string in a chart."""
CODE = {"calculate", "expr", "filter", "labelExpr", "test"}
"""Keys of a specification whose strings are expressions, which must not be shortened. None is made from data."""
PARAGRAPH = 20_000
"""Most characters of a piece of text on a page."""

# `ast` makes Vega interpret expressions instead of compiling them with `new Function`, so that the policy needs no
# 'unsafe-eval': vl-convert's bundle of vega-embed includes vega-interpreter. A chart that fails says so.
DRAW = """
for (const data of document.querySelectorAll('script[data-chart]')) {
  const place = document.getElementById(data.dataset.chart);
  const options = {mode: 'vega-lite', ast: true, actions: false, renderer: 'svg'};
  vegaEmbed(place, JSON.parse(data.textContent), options).catch(error => {
    place.textContent = 'This chart cannot be drawn: ' + error.message;
    console.error(error);
  });
}
"""
# Columns of numbers are sorted by value, largest first; others by their text. Unknown values come last.
SORT = r"""
for (const table of document.querySelectorAll('table.sortable')) {
  table.tHead.addEventListener('click', event => {
    const head = event.target.closest('th');
    if (!head) return;
    const rows = [...table.tBodies[0].rows], text = row => row.cells[head.cellIndex].textContent;
    const number = /^-?[\d,]*\.?\d+(e[+-]?\d+)?( %)?$/, known = rows.filter(row => text(row) !== '–');
    const numeric = known.every(row => number.test(text(row)));
    const value = row => parseFloat(text(row).replaceAll(',', ''));
    const before = head.getAttribute('aria-sort');
    const falling = before === null ? numeric : before === 'ascending';
    const compare = numeric ? (a, b) => value(a) - value(b) : (a, b) => text(a).localeCompare(text(b));
    known.sort((a, b) => falling ? compare(b, a) : compare(a, b));
    for (const other of head.parentNode.cells) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', falling ? 'descending' : 'ascending');
    table.tBodies[0].append(...known, ...rows.filter(row => text(row) === '–'));
  });
}
"""
# Inline styles are allowed because Vega writes styles into the page while drawing; they do not reach a network either.
POLICY = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'"
)


def document(
    title: str, style: str, body: str, charts: Sequence[Mapping[str, Any]] = (), sortable: bool = False
) -> str:
    """A whole page. `body` is HTML; chart number 3 (from 0) goes into its element with the id "chart3".

    With `sortable`, a click on a heading sorts tables of the class "sortable".

    >>> page = document("<One>", "", "<p>a</p>")
    >>> page.count("<script"), "<title>&lt;One&gt;</title>" in page, "script-src 'none'" in page
    (0, True, True)
    """
    scripts = [*([library(), DRAW] if charts else []), *([SORT] if sortable else [])]
    data = "".join(
        f'<script type="application/json" data-chart="chart{number}">{embedded(chart)}</script>'
        for number, chart in enumerate(charts)
    )
    allowed = " ".join(map(_digest, scripts)) or "'none'"
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY.format(scripts=allowed)}">'
        f"<title>{escaped(title)}</title><style>{style}</style>"
        f"<body>{body}{data}{''.join(f'<script>{script}</script>' for script in scripts)}</body></html>"
    )


def escaped(text: str) -> str:
    """Text for a page: without markup, and with escaped control characters.

    >>> escaped("</SCRIPT><b>\\x07 & co")
    '&lt;/SCRIPT&gt;&lt;b&gt;\\\\x07 &amp; co'
    """
    return html.escape(printable(text, PARAGRAPH, keep="\n"))


def embedded(value: Any) -> str:
    """JSON for a script element: no character of it can end the element or begin a comment.

    >>> embedded({"name": "</SCRIPT><!-- &", "value": float("nan")})
    '{"name": "\\\\u003c/SCRIPT\\\\u003e\\\\u003c!-- \\\\u0026", "value": null}'
    """
    # json.dumps escapes everything that is not ASCII, including the separators U+2028 and U+2029.
    content = json.dumps(cleaned(value), allow_nan=False)
    return content.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def cleaned(value: Any, most: int | None = LONGEST) -> Any:
    """A chart's specification with printable strings and valid JSON numbers: NaN and infinity become null.

    A control character makes the picture renderer end the whole process, and Vega's parser fails at U+2028.

    >>> cleaned({"values": [{"name": "ring\\x07", "at": float("inf")}]})
    {'values': [{'name': 'ring\\\\x07', 'at': None}]}
    """
    if isinstance(value, str):
        return printable(value, most, keep="\n")
    if isinstance(value, Mapping):
        return {name: cleaned(item, None if name in CODE else most) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(item, most) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@functools.cache
def _digest(script: str) -> str:
    """The source expression of an inline script in a policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
