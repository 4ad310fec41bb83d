"""The page is one file that needs nothing else; text in it is data."""

from __future__ import annotations

import json
import re

import examples
import pytest

from regard.core.errors import DataError
from regard.inspection.bundle import PAGE, bundle, escape, script
from regard.inspection.format import to_json

NASTY = '</script><script>document.title="taken"</script><!-- {{ & "quotes"'


def test_no_text_can_end_the_data_or_the_script():
    page = bundle(to_json(examples.translation(1, 1, title=NASTY)))
    assert page.count("<script") == 2 and page.count("</script") == 2
    assert json.loads(escape({"title": NASTY}))["title"] == NASTY


def test_placeholders_in_a_sentence_are_not_filled_in():
    page = bundle(to_json(examples.translation(1, 1, title="/*{style}*/ /*{script}*/")))
    assert page.count(":root {") == 1


def test_nothing_is_fetched_from_anywhere():
    page = bundle(to_json(examples.translation(1, 1)))
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not a place
    assert not re.search(r"<(script|link|img|iframe)[^>]*\ssrc=", page)


def test_modules_are_joined_once_each_and_in_order():
    joined = script()
    files = [*PAGE.glob("*.js"), *(PAGE / "views").glob("*.js")]
    assert len(re.findall(r"^modules\[\d+\] = ", joined, re.MULTILINE)) == len(files)
    assert not re.search(r"^(import|export) ", joined, re.MULTILINE)
    used = [int(number) for number in re.findall(r"\} = modules\[(\d+)\];", joined)]
    assert used and max(used) < len(files)


def test_every_module_says_what_it_is_for_and_is_short():
    for path in [*PAGE.glob("*.js"), *(PAGE / "views").glob("*.js")]:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("// "), path
        assert len(text.splitlines()) <= 300, path


def test_an_import_of_another_form_is_named(tmp_path):
    odd = tmp_path / "odd.js"
    odd.write_text('import everything from "./dom.js";\n')
    with pytest.raises(DataError, match=r"odd\.js: cannot join .import everything from"):
        script([odd])


def test_a_view_that_is_not_there_is_named(tmp_path):
    with pytest.raises(DataError, match=r"nothing\.js: no such view file"):
        script([tmp_path / "nothing.js"])
