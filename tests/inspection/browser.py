"""Open a page in a browser without network. Every error of a page fails its test."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from functools import cache


@cache
def context_of(browser, locale, offline):
    """Return the browser context that the pages of this locale share: a context per page would take twice the time."""
    return browser.new_context(locale=locale, offline=offline)


@contextmanager
def opened(
    browser, address, *, fragment="", width=1280, height=900, scheme="light", offline=True, expected="", locale="en-US"
):
    """Open a page and wait until it is drawn. It may only request its own address, and log no error but `expected`."""
    context = context_of(browser, locale, offline)
    context.set_offline(offline)  # a test may have changed it
    page = context.new_page()
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(color_scheme=scheme)
    errors, requests = [], []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: requests.append(request.url))
    page.goto(f"{address}{fragment}")
    if address != "about:blank":
        page.wait_for_selector("html[data-ready]")
    page.requested_urls = requests
    try:
        yield page
        assert [message for message in errors if not expected or expected not in message] == []
        home = address.rstrip("/")
        assert [url for url in requests if not url.startswith((home, "data:", "blob:"))] == []
    finally:
        if page.url.startswith(("file:", "http:")):
            page.evaluate("localStorage.clear()")
        page.close()


@contextmanager
def serving(app):
    """Serve the application on a free port, in a thread."""
    import uvicorn

    from regard.serve.server import address, listen

    bound = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield address(bound, "127.0.0.1")
    finally:
        server.should_exit = True
        thread.join(10)
