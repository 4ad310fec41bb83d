"""A page opened in a browser without network. Every error a page makes fails its test."""

from __future__ import annotations

from contextlib import contextmanager


@contextmanager
def opened(browser, address, *, fragment="", width=1280, height=900, scheme="light", offline=True, expected=""):
    """A page that has drawn itself. It may ask for nothing but its own address, and make no error but `expected`."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme, offline=offline)
    page = context.new_page()
    wrong, asked = [], []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{address}{fragment}")
    if address != "about:blank":
        page.wait_for_selector("html[data-ready]")
    page.asked = asked
    try:
        yield page
        assert [message for message in wrong if not expected or expected not in message] == []
        home = address.rstrip("/")
        assert [url for url in asked if not url.startswith((home, "data:", "blob:"))] == []
    finally:
        context.close()
