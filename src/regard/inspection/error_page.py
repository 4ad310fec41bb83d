"""HTML page for a failed inspection: the error message, and a form for another input."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import quote

from regard.inspection.html_bundle import standalone_script
from regard.inspection.static_page import static_page

MAIN = """<section class="card refusal">
<h1>There is nothing to show</h1>
<p class="wrong" role="alert">{line}</p>
<form class="asking" action="/" method="get">{hidden}
<textarea class="ask" name="text" rows="{rows}" aria-label="Input" autocomplete="off">
{text}</textarea>
<button type="submit" class="action">Inspect</button></form>
{others}</section>"""


MAX_TEXTAREA_ROWS = 6
SCRIPT = "error_page.js"


def error_page(message: str, text: str = "", *, run: str = "", others: Sequence[str] = ()) -> str:
    """Return the page for an error with an input; `run` is the current run, `others` are links to other runs."""
    return static_page("regard", _section(message, text, run, others), script=standalone_script(SCRIPT))


def error_end(message: str, text: str, nonce: str, *, run: str = "", others: Sequence[str] = ()) -> str:
    """Return the rest of a page that `page_start` started, if its inspection failed; its script has the nonce."""
    script = f'<script type="module" nonce="{nonce}">{standalone_script(SCRIPT)}</script>'
    return f"{_section(message, text, run, others)}\n{script}\n</body>\n</html>\n"


def _section(message: str, text: str, run: str, others: Sequence[str]) -> str:
    links = (f'<a href="/?run={quote(name, safe="")}">{html.escape(name)}</a>' for name in others)
    return MAIN.format(
        line=html.escape(message),
        text=html.escape(text, quote=True),
        rows=min(MAX_TEXTAREA_ROWS, text.count("\n") + 1),
        hidden=f'<input type="hidden" name="run" value="{html.escape(run, quote=True)}">' if others else "",
        others=f'<p><span id="others">Available runs:</span> {", ".join(links)}</p>\n' if others else "",
    )
