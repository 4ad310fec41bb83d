"""The error page, in the language of the browser."""

from __future__ import annotations

import pytest
from browser import opened

from regard.inspection.error_page import error_page

NASTY = '</script><script>window.taken = 1</script> "'
WORDS = {
    "en-US": ("There is nothing to show", "Inspect", "Available runs:", "Input"),
    "ko-KR": ("표시할 내용이 없습니다", "살펴보기", "사용할 수 있는 실행:", "입력"),
}


@pytest.mark.parametrize("locale", WORDS)
def test_it_says_why_and_asks_for_another_input(browser, tmp_path, locale):
    path = tmp_path / "page.html"
    path.write_text(error_page(NASTY, NASTY, run="one", others=("one", "two")), encoding="utf-8")
    heading, look, runs_label, box = WORDS[locale]
    with opened(browser, path.as_uri(), locale=locale) as page:
        assert page.locator("html").get_attribute("lang") == locale[:2]
        assert page.get_by_role("heading").inner_text() == heading
        assert page.locator(".wrong").inner_text() == NASTY.strip()
        assert page.get_by_label(box).input_value() == NASTY
        assert page.get_by_role("button").inner_text() == look
        assert page.locator("p", has=page.get_by_role("link")).inner_text() == f"{runs_label} one, two"
        assert page.evaluate("window.taken") is None


def test_the_box_keeps_line_breaks_and_sends_them_as_they_are(browser, tmp_path):
    text = "\nfirst\n\nthird"
    path = tmp_path / "page.html"
    path.write_text(error_page("no", text, run="one", others=("one", "two")), encoding="utf-8")
    with opened(browser, path.as_uri()) as page:
        page.route("**/?run=*", lambda route: route.fulfill(body=""))  # not the listing of the root folder
        box = page.get_by_label("Input")
        assert box.input_value() == text and box.get_attribute("rows") == "4"
        box.press("Control+End")
        box.press("Shift+Enter")
        with page.expect_request("**/?*") as request_info:
            box.press("Enter")
        assert request_info.value.url.endswith("/?run=one&text=%0Afirst%0A%0Athird%0A")
        page.requested_urls.clear()  # there is no server


def test_one_run_alone_has_no_others(browser, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(error_page("no"), encoding="utf-8")
    with opened(browser, path.as_uri()) as page:
        assert page.get_by_role("link").count() == 0
