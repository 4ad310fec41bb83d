"""docs/api.md is current, and describes every public name."""

from __future__ import annotations

import re

import api_page

import regard


def test_the_page_is_current():
    assert api_page.PAGE.read_text(encoding="utf-8") == api_page.page(), "update it: python bench/api_page.py"


def test_every_public_name_has_a_description():
    text = api_page.page()
    entries = dict(re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", text, flags=re.MULTILINE | re.DOTALL))
    assert {f"regard.{name}" for name in regard.__all__ if name != "__version__"} <= set(entries)
    plain = {name: re.sub(r"```.*?```", "", entry, flags=re.DOTALL).strip() for name, entry in entries.items()}
    assert [name for name, entry in plain.items() if len(entry.split()) < 4] == []
