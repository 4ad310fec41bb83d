"""What a browser is shown where there is nothing to look at: one line that says why, and a box for another input."""

from __future__ import annotations

import html
from collections.abc import Sequence
from urllib.parse import quote

from regard.inspection.bundle import PAGE

SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; form-action 'self'">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>regard</title>
<style>{style}</style>
</head>
<body>
<header id="head"><div class="bar">
<span class="mark-name"><span class="eye" aria-hidden="true"></span>regard</span></div></header>
<main id="main"><section class="card">
<h1>There is nothing to show</h1>
<p class="wrong" role="alert">{line}</p>
<form class="asking" action="/" method="get">{hidden}
<input type="text" class="ask" name="text" value="{text}" aria-label="Input" autocomplete="off">
<button type="submit" class="action">Look</button></form>
{others}</section></main>
</body>
</html>
"""


def refusal(line: str, text: str = "", *, run: str = "", others: Sequence[str] = ()) -> str:
    """An error and the input that it is about -> a page; with the run it is about and the others that there are."""
    style = dark_too((PAGE / "style.css").read_text(encoding="utf-8"))
    links = (f'<a href="/?run={quote(name, safe="")}">{html.escape(name)}</a>' for name in others)
    return SHELL.format(
        style=style,
        line=html.escape(line),
        text=html.escape(text, quote=True),
        hidden=f'<input type="hidden" name="run" value="{html.escape(run, quote=True)}">' if others else "",
        others=f"<p>Runs here: {', '.join(links)}</p>\n" if others else "",
    )


def dark_too(style: str) -> str:
    """The page's style where no script chooses the colours: dark ones where the browser asks for them."""
    dark = ':root[data-theme="dark"]'
    start = style.index(dark)
    colours = style[start + len(dark) : style.index("}", start) + 1]
    return f"{style}@media (prefers-color-scheme: dark) {{ :root {colours} }}"
