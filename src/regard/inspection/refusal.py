"""What a browser is shown where there is nothing to look at: one line that says why, and a box for another input."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import quote

from regard.inspection.still import still

MAIN = """<section class="card">
<h1>There is nothing to show</h1>
<p class="wrong" role="alert">{line}</p>
<form class="asking" action="/" method="get">{hidden}
<input type="text" class="ask" name="text" value="{text}" aria-label="Input" autocomplete="off">
<button type="submit" class="action">Look</button></form>
{others}</section>"""


def refusal(line: str, text: str = "", *, run: str = "", others: Sequence[str] = ()) -> str:
    """An error and the input that it is about -> a page; with the run it is about and the others that there are."""
    links = (f'<a href="/?run={quote(name, safe="")}">{html.escape(name)}</a>' for name in others)
    main = MAIN.format(
        line=html.escape(line),
        text=html.escape(text, quote=True),
        hidden=f'<input type="hidden" name="run" value="{html.escape(run, quote=True)}">' if others else "",
        others=f"<p>Runs here: {', '.join(links)}</p>\n" if others else "",
    )
    return still("regard", main)
