"""A page that stands still: what a browser is told in words, in the colours of the explorer."""

from __future__ import annotations

import html

from regard.inspection.html_bundle import PAGE

SHELL = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{allowed}">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header id="head"><div class="bar">
<span class="brand"><span class="eye" aria-hidden="true"></span>regard</span>{facts}</div></header>
<main id="main">{main}</main>{script}
</body>
</html>
"""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; img-src data:; form-action 'self'; style-src 'unsafe-inline'"  # only what is in the page
)


def static_page(title: str, main: str, *, facts: str = "", style: str = "", script: str = "") -> str:
    """A title, HTML for the page and for the line at its top, further rules of style, and a script that puts its words
    into the language of the browser -> a whole page."""
    whole = _dark_too((PAGE / "style.css").read_text(encoding="utf-8")) + style
    return SHELL.format(
        title=html.escape(title),
        main=main,
        facts=facts,
        style=whole,
        allowed=f"{CONTENT_SECURITY_POLICY}; script-src 'unsafe-inline'" if script else CONTENT_SECURITY_POLICY,
        script=f'\n<script type="module">{script}</script>' if script else "",
    )


def _dark_too(style: str) -> str:
    """The page's style where no script chooses the colours: dark ones where the browser asks for them."""
    dark = ':root[data-theme="dark"]'
    start = style.index(dark)
    colours = style[start + len(dark) : style.index("}", start) + 1]
    return f"{style}@media (prefers-color-scheme: dark) {{ :root {colours} }}"
