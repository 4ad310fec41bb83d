"""Static HTML page in the style of the explorer."""

from __future__ import annotations

import html

from regard.inspection.html_bundle import PAGE, content_policy, inline_text

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
POLICY_RULES = "img-src data:; form-action 'self'"


def static_page(title: str, main: str, *, facts: str = "", style: str = "", script: str = "") -> str:
    """Return an HTML page.

    `main` and `facts` are HTML of the body and the header line, `style` is additional CSS, and `script` translates the
    page into the language of the browser.
    """
    css = inline_text(_with_dark_mode((PAGE / "style.css").read_text(encoding="utf-8")) + style)
    return SHELL.format(
        title=html.escape(title),
        main=main,
        facts=facts,
        style=css,
        allowed=content_policy([css], [script] if script else [], POLICY_RULES),
        script=f'\n<script type="module">{script}</script>' if script else "",
    )


def _with_dark_mode(style: str) -> str:
    """Add the dark colors for browsers in dark mode, because no script selects them here."""
    dark = ':root[data-theme="dark"]'
    start = style.index(dark)
    colors = style[start + len(dark) : style.index("}", start) + 1]
    return f"{style}@media (prefers-color-scheme: dark) {{ :root {colors} }}"
