"""Text that no one would use as a name, except to see what happens."""

from __future__ import annotations

SET = "window.__pwned=1"
"""What a payload does if it runs."""

SCRIPTS = (
    f"</SCRIPT><script>{SET}</SCRIPT>",
    f"</sCripT\n><script>{SET}</sCripT>",
    f"<!--<script>{SET}",
    f"<img src=x onerror={SET}>",
    f'"><svg onload="{SET}">',
    f"']; {SET}; //",
    f"${{{SET}}}",
    f"`+({SET})+`",
    f"]]><script>{SET}</script>",
    f"javascript:{SET}",
    f"\\u003cscript>{SET}\\",
    f"&lt;img src=x onerror={SET}&gt;",
    f"datum['a'] || {SET}",
)
CONTROLS = {
    "bell": "a\x07b",
    "escape": "a\x1b[2Jb",
    "null": "a\x00b",
    "backspace": "a\x08b",
    "line feed": "a\nb",
    "C1": "a\x9b2Jb",
    "no character": "a\uffffb",
    "line separator": "a\u2028b\u2029c",
    "override": "a\u202etxt.exe",
    "isolate": "a\u2066b",
    "private use": "a\ue000b",
}
MARKUP = ("[/x]", "[bold]loud", "[red", "a\\[/]", ":warning:", "[link=https://example.org]here[/link]")
ODD = ("emoji 👩‍🔬🚴", "שלום", "a" * 5_000, "=1+1", " ")

NAMES = (*SCRIPTS, *CONTROLS.values(), *MARKUP, *ODD)
