"""Open a page in a browser without network. Every error of a page fails its test."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager


@contextmanager
def opened(
    browser, address, *, fragment="", width=1280, height=900, scheme="light", offline=True, expected="", locale="en-US"
):
    """Open a page and wait until it is drawn. It may only request its own address, and log no error but `expected`."""
    screen = {"viewport": {"width": width, "height": height}, "color_scheme": scheme}
    context = browser.new_context(**screen, offline=offline, locale=locale)
    page = context.new_page()
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
        context.close()


@contextmanager
def serving(app):
    """Serve the application on a free port, in a thread."""
    import uvicorn

    from regard.serve.server import address, listen

    taken = listen("127.0.0.1", 0)
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, args=([taken],), daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield address(taken, "127.0.0.1")
    finally:
        server.should_exit = True
        thread.join(10)
