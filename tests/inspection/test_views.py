"""Views of other packages in a browser: one file each; an error in one does not affect the others."""

from __future__ import annotations

from dataclasses import replace

import examples
import pytest
from browser import opened

from regard.inspection.compare import to_page
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import to_json

INSPECTION = examples.translation(2, 4)


def write(path, data):
    path.write_text(bundle(data), encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Return a function: code of a view -> name of the view in a new package."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def put(text):
        (tmp_path / "elsewhere" / "regions.js").write_text(text)
        return replace(INSPECTION, extra={"regions": ["sky", "<sea>"]}, views=("elsewhere.regions",))

    return put


def test_a_view_of_another_package_is_one_file(browser, tmp_path, lab):
    result = lab(
        '// Shows what it was given.\nimport { make } from "../dom.js";\n'
        'export const view = {\n  name: "regions", title: "Regions", suits: (data) => Boolean(data.extra.regions),\n'
        '  show(data, element) { element.append(make("p", { class: "own" }, data.extra.regions.join(" "))); },\n};\n'
    )
    with opened(browser, write(tmp_path / "own.html", to_json(result)), fragment="#view=regions") as page:
        assert page.locator(".own").inner_text() == "sky <sea>"
    with opened(
        browser, write(tmp_path / "both.html", to_page([result, INSPECTION])), fragment="#view=regions"
    ) as page:
        assert page.locator(".own").inner_text() == "sky <sea>"


BROKEN = "export const view = { name: ;\n"
THROWING = (
    'export const view = { name: "elsewhere.regions", title: "Regions", suits: () => true,'
    ' show() { throw new Error("no sky"); } };\n'
)


@pytest.mark.parametrize(
    ("text", "message"),
    [(BROKEN, "The view elsewhere.regions could not be loaded"), (THROWING, "The view Regions failed: no sky")],
)
def test_a_broken_view_is_one_line_and_breaks_nothing_else(browser, tmp_path, lab, text, message):
    address = write(tmp_path / "own.html", to_json(lab(text)))
    error = "Unexpected token" if text == BROKEN else "no sky"
    with opened(browser, address, fragment="#view=elsewhere.regions", expected=error) as page:
        assert message in page.locator(".wrong").inner_text()
        page.locator("#tab-grid").click()
        assert page.locator(".thumb").count() == 2 * 4
