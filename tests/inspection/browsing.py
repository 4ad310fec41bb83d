"""A headless Chromium without network, and a page opened in it. Every error a page makes fails its test."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@pytest.fixture(scope="session")
def browser(browser_path):
    """One browser for all tests of a process."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=browser_path, args=FLAGS)
        yield chromium
        chromium.close()


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
