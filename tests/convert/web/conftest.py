from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from pages import engine_page


@pytest.fixture(scope="session")
def engine(browser):
    """A page whose global `regard` is the engine."""
    with engine_page(browser) as page:
        yield page
