"""The page is one self-contained file; text in it is never executed."""

from __future__ import annotations

import json
import re
import sys

import examples
import pytest

from regard.core.errors import DataError
from regard.inspection.html_bundle import FIRST_VIEWS, LAST_VIEWS, PAGE, bundle, escape, scripts, view_file
from regard.inspection.json_format import to_json

NASTY = '</script><script>document.title="taken"</script><!-- {{ & "quotes"'


def test_no_text_can_end_the_data_or_the_script():
    page = bundle(to_json(examples.translation(1, 1, title=NASTY)))
    assert page.count("<script") == page.count("</script") == 3  # the data, the modules, the start
    assert json.loads(escape({"title": NASTY}))["title"] == NASTY


def test_placeholders_in_a_sentence_are_not_filled_in():
    page = bundle(to_json(examples.translation(1, 1, title="/*{style}*/ <!--{scripts}-->")))
    assert page.count(":root {") == 1


def test_nothing_is_fetched_from_anywhere():
    page = bundle(to_json(examples.translation(1, 1)))
    addresses = set(re.findall(r"https?://[^\s\"'`)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a namespace, not an address
    assert not re.search(r"<(script|link|img|iframe)[^>]*\ssrc=", page)


def test_modules_are_joined_once_each_and_in_order():
    files = [path for path in PAGE.rglob("*.js") if path.name != "error_page.js"]  # entry point of another page
    joined = "\n".join(scripts([path.stem for path in (PAGE / "views").glob("*.js")]))
    assert len(re.findall(r"^modules\[\d+\] = ", joined, re.MULTILINE)) == len(files)
    assert not re.search(r"^(import|export) ", joined, re.MULTILINE)
    used = [int(index) for index in re.findall(r"\} = modules\[(\d+)\];", joined)]
    assert used and max(used) < len(files)


def test_every_module_says_what_it_is_for_and_is_short():
    for path in [*PAGE.glob("*.js"), *(PAGE / "views").glob("*.js")]:
        text = path.read_text(encoding="utf-8")
        assert text.startswith("// "), path
        assert len(text.splitlines()) <= 300, path


def started(named=()):
    """Return the names of the views of a page, in the order of their tabs."""
    return re.findall(r'\["([\w.]+)", modules', scripts(named)[-1])


def test_a_page_has_the_common_views_and_those_that_are_named():
    assert started() == [*FIRST_VIEWS, *LAST_VIEWS]
    assert started(["alignment", "alignment"]) == [*FIRST_VIEWS, "alignment", *LAST_VIEWS]
    both = {"runs": [{"views": ["alignment"]}, {"views": ["pianoroll"]}]}
    assert all(f'["{name}", modules' in bundle(both) for name in ("alignment", "pianoroll"))


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A third-party package with a folder for views."""
    views = tmp_path / "lab_a" / "views"
    views.mkdir(parents=True)
    for folder in (views, views.parent):
        (folder / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    yield views
    sys.modules.pop("lab_a", None)  # finding a view imports its parent package


VIEW = 'export const view = { name: "regions", title: "Regions", suits: () => true, show() {} };\n'


def test_a_dotted_name_is_a_file_of_that_package(lab):
    (lab / "regions.js").write_text(VIEW)
    assert view_file("lab_a.views.regions") == (lab / "regions.js").resolve()
    assert len(scripts(["lab_a.views.regions"])) == 3  # a separate script
    (lab.parent / "task.py").write_text("")
    (lab.parent / "beside.js").write_text(VIEW)
    assert view_file("lab_a.task.beside") == (lab.parent / "beside.js").resolve()


def test_a_view_that_is_not_there_is_one_clear_line(lab):
    with pytest.raises(DataError, match=r"^unknown view 'alignmnet'; did you mean 'alignment'\?$"):
        scripts(["alignmnet"])
    with pytest.raises(DataError, match=r"^view 'lab_a\.views\.nothing': no such file: .*nothing\.js$"):
        scripts(["lab_a.views.nothing"])
    with pytest.raises(
        DataError, match=r"^view 'otherlab\.views\.x': package 'otherlab\.views' not found; is its folder on"
    ):
        scripts(["otherlab.views.x"])


def test_a_broken_view_is_one_clear_line(lab):
    for text, message in (
        ('import everything from "./dom.js";\n' + VIEW, r"odd\.js: cannot join .import everything from"),
        ("export const other = 1;\n", r"odd\.js: a view must export one object: export const view = \{"),
        ('import { x } from "./gone.js";\n' + VIEW, r"odd\.js: imports gone\.js, which does not exist"),
    ):
        (lab / "odd.js").write_text(text)
        with pytest.raises(DataError, match=message):
            scripts(["lab_a.views.odd"])
