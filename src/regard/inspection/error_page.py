"""HTML page for a failed inspection: the error message, and a form for another input."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import quote

from regard.inspection.html_bundle import standalone_script
from regard.inspection.static_page import static_page

MAIN = """<section class="card">
<h1>There is nothing to show</h1>
<p class="wrong" role="alert">{line}</p>
<form class="asking" action="/" method="get">{hidden}
<textarea class="ask" name="text" rows="{rows}" aria-label="Input" autocomplete="off">
{text}</textarea>
<button type="submit" class="action">Inspect</button></form>
{others}</section>"""


MAX_TEXTAREA_ROWS = 6


def error_page(message: str, text: str = "", *, run: str = "", others: Sequence[str] = ()) -> str:
    """Return the page for an error with an input; `run` is the current run, `others` are links to other runs."""
    links = (f'<a href="/?run={quote(name, safe="")}">{html.escape(name)}</a>' for name in others)
    main = MAIN.format(
        line=html.escape(message),
        text=html.escape(text, quote=True),
        rows=min(MAX_TEXTAREA_ROWS, text.count("\n") + 1),
        hidden=f'<input type="hidden" name="run" value="{html.escape(run, quote=True)}">' if others else "",
        others=f'<p><span id="others">Available runs:</span> {", ".join(links)}</p>\n' if others else "",
    )
    return static_page("regard", main, script=standalone_script("error_page.js"))
