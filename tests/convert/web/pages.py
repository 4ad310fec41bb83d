"""The engine of exported pages in Chromium."""

from __future__ import annotations

from contextlib import contextmanager

from regard.convert.web.export_page import SCRIPTS
from regard.inspection.html_bundle import standalone_script


@contextmanager
def engine_page(browser):
    """A page without network whose global `regard` is the engine (js/global.js)."""
    context = browser.new_context(offline=True)
    page = context.new_page()
    page.add_script_tag(content=standalone_script(SCRIPTS / "global.js"))
    try:
        yield page
    finally:
        context.close()
