"""The served page in a browser: typed text is kept, the address restores the page, errors do not block it."""

from __future__ import annotations

import dataclasses
import math
import threading
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed")
import pictures
import tiny_runs
from browser import opened, serving

from regard.core.errors import DataError
from regard.inspection.collect import collect
from regard.inspection.interventions import Interventions
from regard.inspection.report import target_of
from regard.serve.app import create_app, create_explorer_app, explorer_app
from regard.training.load_run import load_run

OTHER = "They sleep ."
ANOTHER = "We sleep ."


@pytest.fixture
def page(browser, run, sentence):
    with (
        serving(create_explorer_app(run, sentence)) as address,
        opened(browser, address, offline=False, expected="400 (Bad") as page,
    ):
        yield page


class FileTask(pictures.Pictures):
    """Images that are files of nine digits; their title is the digits."""

    input_suffixes = (".txt",)

    def parse_input(self, text):
        digits = text if text in self.examples else Path(text).read_text(encoding="utf-8")
        if len(digits) != 9:
            raise DataError("an image is nine digits")
        return super().parse_input(digits)

    def inspect(self, model, parsed_input, options, decoding):
        inspectable = super().inspect(model, parsed_input, options, decoding)
        digits = "".join(str(round(9 * value)) for value in parsed_input[0, :, 0].tolist())
        return replace(inspectable, title=digits)


@pytest.fixture
def file_page(browser):
    """A page whose inputs are files."""
    target = tiny_runs.make_small(pictures, FileTask)
    with (
        serving(explorer_app(target, FileTask.examples[0])) as address,
        opened(browser, address, offline=False, expected="400 (Bad") as page,
    ):
        yield page


def inspect(page, text):
    """Type a sentence and inspect it."""
    page.get_by_label("Input").fill(text)
    page.get_by_role("button", name="Inspect", exact=True).click()
    wait_for_input(page, text)


def upload(page, name, content):
    page.get_by_label("Input").set_input_files({"name": name, "mimeType": "text/plain", "buffer": content.encode()})


def wait_for_input(page, title):
    """Wait until the page shows an input and no request is pending."""
    page.locator(".spoken.input .spoken-text", has_text=title).wait_for()
    page.locator(".what-if:not(.busy)").wait_for()


def test_every_token_can_be_hidden_and_shown_again(page, subject, sentence):
    last = len(collect(subject, sentence).axes["source"].items) - 1
    for item in (0, last):
        page.locator(f'[data-key="forbid:source:{item}"]').click()
        page.locator(".outcome").wait_for()
        assert page.locator(".wrong").count() == 0
        expected = collect(subject, sentence, interventions=Interventions((), (("source", item),)))
        assert expected.outputs[0].text in page.locator(".outcome").inner_text()
        page.locator('[data-key="undo"]').click()
        page.locator(".outcome").wait_for(state="detached")


def test_a_failed_request_is_discarded(page):
    page.evaluate("location.hash = 'off=[[\"nowhere\",0]]'")
    page.locator(".wrong").wait_for()
    assert "cannot disable a head of 'nowhere': no such attention module" in page.locator(".wrong").inner_text()
    page.locator(".token-switch >> nth=1").click()
    page.locator(".outcome").wait_for()  # a later request does not fail with it
    assert page.locator(".wrong").count() == 0


def test_a_typed_sentence_stays_until_it_is_inspected(page):
    box = page.get_by_label("Input")
    box.fill("half of a sent")
    page.locator("#tab-lines").click()
    assert box.input_value() == "half of a sent"
    page.set_viewport_size({"width": 900, "height": 800})
    page.locator(".token-switch >> nth=1").click()
    page.locator(".outcome").wait_for()
    assert box.input_value() == "half of a sent"
    box.fill("word " * 300)
    page.get_by_role("button", name="Inspect", exact=True).click()
    page.locator(".wrong").wait_for()
    assert box.input_value() == "word " * 300
    box.fill(OTHER)
    page.get_by_role("button", name="Inspect", exact=True).click()
    page.locator(".spoken.input .spoken-text", has_text=OTHER).wait_for()
    assert box.input_value() == OTHER


def test_line_breaks_are_kept_and_enter_inspects(page):
    page.goto(f"{page.url}?text=They%0D%0Asleep%20.")
    box = page.get_by_label("Input")
    assert box.input_value() == "They\nsleep ."
    with page.expect_response("**/api/look") as response:
        box.press("Enter")
    assert response.value.request.post_data_json["text"] == "They\r\nsleep ."  # unchanged
    box.fill("They")
    box.press("Shift+Enter")
    box.press_sequentially("sleep .")
    with page.expect_response("**/api/look") as response:
        box.press("Enter")
    assert response.value.request.post_data_json["text"] == "They\nsleep ."


@pytest.mark.parametrize("blank", ["", "  "])
def test_a_blank_sentence_is_a_one_line_error(page, blank):
    page.get_by_label("Input").fill(blank)
    page.get_by_role("button", name="Inspect", exact=True).click()
    assert "The input is empty" in page.locator(".wrong").inner_text()
    inspect(page, OTHER)
    assert page.locator(".wrong").count() == 0


def test_the_address_stores_view_sentence_and_interventions(page):
    page.get_by_label("Input").fill(OTHER)
    page.get_by_role("button", name="Inspect", exact=True).click()
    page.locator(".spoken.input .spoken-text", has_text=OTHER).wait_for()
    page.locator("#tab-lines").click()
    page.locator(".token-switch >> nth=1").click()
    page.locator(".token-switch[aria-pressed=true]").wait_for()
    page.locator(".busy").wait_for(state="detached")
    output = page.locator(".spoken.output .spoken-text").inner_text()
    page.reload()
    page.locator(".token-switch[aria-pressed=true]").wait_for()
    page.locator(".busy").wait_for(state="detached")
    assert page.locator("#tab-lines").get_attribute("aria-selected") == "true"
    assert page.locator(".spoken.input .spoken-text").inner_text() == OTHER
    assert page.locator(".spoken.output .spoken-text").inner_text() == output


def test_back_goes_through_views(page):
    for view in ("lines", "steps"):
        page.locator(f"#tab-{view}").click()
    page.go_back()
    assert page.locator("#tab-lines").get_attribute("aria-selected") == "true"
    page.go_back()
    assert page.locator("#tab-alignment").get_attribute("aria-selected") == "true"
    page.go_forward()
    assert page.locator("#tab-lines").get_attribute("aria-selected") == "true"


def test_back_and_forward_go_through_sentences(page, sentence):
    inspect(page, OTHER)
    inspect(page, ANOTHER)
    for step, text in ((-1, OTHER), (-1, sentence), (1, OTHER), (1, ANOTHER), (-1, OTHER)):
        page.go_back() if step < 0 else page.go_forward()
        wait_for_input(page, text)
        assert page.get_by_label("Input").input_value() == text


def test_a_file_of_the_same_name_starts_without_interventions(file_page):
    upload(file_page, "x.txt", "111111111")
    wait_for_input(file_page, "111111111")
    file_page.locator(".switch >> nth=0").click()
    file_page.locator(".outcome").wait_for()
    upload(file_page, "x.txt", "222222222")
    wait_for_input(file_page, "222222222")
    assert file_page.locator(".outcome").count() == 0
    assert file_page.locator("[aria-pressed=true].switch").count() == 0


def test_a_refused_file_leaves_the_displayed_one(file_page):
    upload(file_page, "x.txt", "111111111")
    wait_for_input(file_page, "111111111")
    upload(file_page, "y.txt", "1")
    file_page.locator(".wrong").wait_for()
    file_page.locator(".switch >> nth=0").click()
    file_page.locator(".outcome").wait_for()
    assert file_page.locator(".wrong").count() == 0
    wait_for_input(file_page, "111111111")


def test_back_shows_a_file_again_and_a_reload_the_initial_input(file_page):
    for content in ("111111111", "222222222"):
        upload(file_page, "x.txt", content)
        wait_for_input(file_page, content)
    file_page.go_back()
    wait_for_input(file_page, "111111111")
    file_page.locator(".switch >> nth=0").click()
    file_page.locator(".outcome").wait_for()
    file_page.reload()
    wait_for_input(file_page, FileTask.examples[0])
    assert file_page.locator(".wrong").count() == 0
    assert "file=" not in file_page.url and "off=" not in file_page.url
    file_page.evaluate("location.hash = 'text=x.txt'")  # a name alone is not a file
    file_page.wait_for_function("!location.hash.includes('x.txt')")
    wait_for_input(file_page, FileTask.examples[0])
    assert file_page.locator(".wrong").count() == 0


def test_the_sentence_box_is_at_the_top_of_a_phone(browser, run, sentence):
    with (
        serving(create_explorer_app(run, sentence)) as address,
        opened(browser, address, offline=False, width=390, height=844) as page,
    ):
        assert page.get_by_label("Input").bounding_box()["y"] < 300
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_numbers_of_heads_are_fetched_when_they_are_shown(browser, run, sentence):
    with serving(create_explorer_app(run, sentence)) as address, opened(browser, address, offline=False) as page:
        with page.expect_request("**/api/step?*"):
            page.locator("#tab-steps").click()
        page.locator("table.steps").wait_for()
        assert any("/api/step?" in url for url in page.requested_urls)


@pytest.fixture
def pages_of_two_runs(browser, served_runs):
    """The page of a server with two runs of one task."""
    with (
        serving(create_app(served_runs)) as address,
        opened(browser, address, offline=False, width=1400, expected="Failed to load") as page,
    ):
        yield page


def test_the_picker_of_runs_stays_and_keeps_the_sentence(pages_of_two_runs):
    page = pages_of_two_runs
    inspect(page, OTHER)
    picker = page.locator("select[data-key='served']")
    assert picker.input_value() == "en-ko"
    page.locator(".switch >> nth=0").click()
    page.locator(".outcome").wait_for()
    picker.select_option("other")
    page.wait_for_url("**/?run=other*")
    wait_for_input(page, OTHER)
    assert page.locator("select[data-key='served']").input_value() == "other"


def test_an_unchanged_output_still_reports_its_probability(pages_of_two_runs, loaded_run):
    page = pages_of_two_runs
    inspect(page, OTHER)
    target = target_of(loaded_run)
    before = collect(target, OTHER).outputs[0]
    slider = page.locator("[data-key='temperature']")
    slider.focus()
    slider.press("ArrowRight")
    page.locator(".outcome").wait_for()
    after = collect(target, OTHER, interventions=Interventions(temperature=1.1)).outputs[0]
    shown = page.locator(".outcome .figure").all_inner_texts()
    for text, output in zip(shown, (before, after), strict=True):
        percent, _, rest = text.strip().partition("%")
        count = len(output.tokens) if rest == " per token" else 1  # of a long output: the mean of its tokens
        assert float(percent) == pytest.approx(100 * math.exp(output.score / count), abs=0.51)


def test_a_link_to_another_sentence_with_a_change_shows_both_outputs(pages_of_two_runs, loaded_run):
    page = pages_of_two_runs
    page.goto(f"{page.url.split('#')[0]}#text={OTHER}&temperature=1.5".replace(" ", "%20"))
    page.reload()
    page.locator(".outcome").wait_for()
    target = target_of(loaded_run)
    outputs = [collect(target, OTHER).outputs[0]]
    outputs += [collect(target, OTHER, interventions=Interventions(temperature=1.5)).outputs[0]]
    shown = page.locator(".outcome p:has(.figure)").all_inner_texts()
    assert len(shown) == 2
    for line, output in zip(shown, outputs, strict=True):
        assert output.text in line and line.rstrip().endswith(("%", "per token"))


def test_the_effect_of_a_change_has_the_form_of_the_task(browser):
    target = target_of(load_run("pretrained:tagging"))
    text = "Clara visited Lima"
    with serving(explorer_app(target, text)) as address, opened(browser, address, offline=False) as page:
        page.locator(".token-switch").last.click()
        page.locator(".outcome").wait_for()
        assert "<" not in page.locator(".outcome").inner_text()
        lines = page.locator(".outcome p:has(.figure)")
        last = len(collect(target, text).axes["sentence"].items) - 1
        changes = [None, Interventions((), (("sentence", last),))]
        for line, change in zip(lines.all(), changes, strict=True):
            result = collect(target, text, **({} if change is None else {"interventions": change}))
            names = [text[entity["start"] : entity["stop"]] for entity in result.extra["entities"]["entities"]]
            assert line.locator(".entity").evaluate_all("all => all.map(word => word.firstChild.data)") == names
            probability = 100 * math.exp(result.outputs[0].score)
            assert float(line.locator(".figure").inner_text().strip(" %")) == pytest.approx(probability, abs=0.51)


def test_another_run_is_compared_on_the_served_page(pages_of_two_runs, loaded_run):
    page = pages_of_two_runs
    inspect(page, OTHER)
    page.get_by_label("Compare with").select_option("other")
    page.locator(".compared, .wrong").first.wait_for()
    assert page.locator(".wrong").all_inner_texts() == []
    assert page.locator(".compare-table tbody tr td:first-child").all_inner_texts() == ["en-ko", "other"]
    page.locator(".difference .cells").hover(position={"x": 3, "y": 3}, force=True)  # equal runs: zero everywhere
    assert float(page.locator(".difference .readout .figure").inner_text()) == 0
    page.get_by_label("Compare with").select_option("")
    page.locator(".compared").first.wait_for(state="detached")


def test_options_of_the_task_have_a_form(pages_of_two_runs, loaded_run):
    page = pages_of_two_runs
    names = [field.name for field in dataclasses.fields(loaded_run.options)]
    page.locator(".options summary").click()
    shown = page.locator(".option-form [name]").evaluate_all("all => all.map((field) => field.name)")
    assert shown and set(shown) <= set(names)
    with page.expect_request("**/look") as request:
        page.locator(f".option-form [name='{shown[0]}']").fill("2")
        page.get_by_role("button", name="Apply").click()
    assert request.value.post_data_json["options"] == {shown[0]: 2}
    page.locator(".what-if:not(.busy)").wait_for()
    assert page.locator(".wrong").count() == 0 and "options=" in page.url
    page.reload()
    page.locator(".what-if:not(.busy)").wait_for()
    assert page.locator(f".option-form [name='{shown[0]}']").input_value() == "2"


def test_a_server_that_is_gone_is_named(browser, run, sentence):
    with (
        serving(create_explorer_app(run, sentence)) as address,
        opened(browser, address, offline=False, expected="ERR_") as page,
    ):
        page.context.set_offline(True)
        page.get_by_label("Input").fill(OTHER)
        page.get_by_role("button", name="Inspect", exact=True).click()
        page.locator(".wrong").wait_for()
        assert page.locator(".wrong").inner_text() == "The server does not answer; is it still running?"


class SlowTask(FileTask):
    """Images whose inspection waits for `may_continue`."""

    may_continue = threading.Event()

    def inspect(self, model, parsed_input, options, decoding):
        assert self.may_continue.wait(60)
        if parsed_input[0, 0, 0] == 1:
            raise DataError("the first digit is nine")
        return super().inspect(model, parsed_input, options, decoding)


def test_a_placeholder_is_shown_while_the_maps_are_computed(browser, monkeypatch):
    monkeypatch.setattr("regard.serve.app.PLACEHOLDER_DELAY_S", 0)
    target = tiny_runs.make_small(pictures, SlowTask)
    valid, refused = SlowTask.examples
    with serving(explorer_app(target, valid)) as address:
        for text, locale, placeholder in (
            (valid, "ko-KR", "맵을 계산하고 있습니다 …"),
            (refused, "en-US", "Computing the maps …"),
        ):
            SlowTask.may_continue.clear()
            context = browser.new_context(locale=locale, color_scheme="dark")
            page, errors = context.new_page(), []
            page.on("pageerror", lambda error, errors=errors: errors.append(error))
            page.on("console", lambda line, errors=errors: errors.append(line) if line.type == "error" else None)
            page.goto(f"{address}?text={text}", wait_until="commit")
            page.locator(".skeleton").wait_for()  # nothing is computed yet
            page.locator(".waiting", has_text=placeholder).wait_for()
            assert page.evaluate("document.documentElement.dataset.theme") == "dark"
            SlowTask.may_continue.set()
            page.wait_for_selector("html[data-ready]")
            assert page.locator(".skeleton").is_visible() is False
            if text == refused:
                assert page.locator(".refusal .wrong").inner_text() == "the first digit is nine"
                assert page.get_by_label("Input").input_value() == refused
            else:
                assert page.locator(".spoken.input .spoken-text").inner_text() == text
                assert page.locator("#view").is_visible()
            assert errors == []
            context.close()


class ImageTask(pictures.Pictures):
    """Images whose page shows their pixels."""

    def inspect(self, model, parsed_input, options, decoding):
        pixels = [[round(255 * value)] for value in parsed_input[0, :, 0].tolist()]
        image = {"height": pictures.SIDE, "width": pictures.SIDE, "pixels": pixels}
        return replace(super().inspect(model, parsed_input, options, decoding), extra={"overlay": image})


def test_a_cell_is_masked_by_a_click_on_the_image(browser):
    target = tiny_runs.make_small(pictures, ImageTask)
    text = ImageTask.examples[0]
    with serving(explorer_app(target, text)) as address, opened(browser, address, offline=False) as page:
        image, cell = (
            page.locator(name).bounding_box() for name in (".cell-switches", "[data-key='forbid:patches:5']")
        )
        assert cell["x"] + cell["width"] / 2 == pytest.approx(image["x"] + 5 / 6 * image["width"], abs=3)
        assert cell["y"] + cell["height"] / 2 == pytest.approx(image["y"] + 3 / 6 * image["height"], abs=3)
        page.locator("[data-key='forbid:patches:5']").click()
        page.locator(".outcome").wait_for()
        assert page.locator("[data-key='forbid:patches:5']").get_attribute("aria-pressed") == "true"
        page.locator("#tab-grid").click()
        expected = collect(target, text, interventions=Interventions((), (("patches", 5),))).maps[-1]
        shown = [float(value) for value in page.locator(".large .share-value").all_inner_texts()]
        row = next(item for item in (expected,)).weights[0, 0]
        assert shown == pytest.approx(row.tolist(), abs=6e-5) and row[5] == 0


def test_the_switch_of_word_maps_names_every_sentence(browser):
    documents = tiny_runs.make_documents()
    with (
        serving(explorer_app(documents, documents.task.examples[0])) as address,
        opened(browser, address, offline=False) as page,
    ):
        titles = page.locator(".switches .quiet").all_inner_texts()
        assert any("every sentence" in title for title in titles)
        assert not any("sentence 1" in title for title in titles)


def test_the_reference_of_the_api_fits_a_phone(browser, served_runs):
    with (
        serving(create_app(served_runs)) as address,
        opened(browser, "about:blank", offline=False, width=390, height=844) as page,
    ):
        page.goto(f"{address}docs")
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.requested_urls.clear()


def test_a_model_that_generates_needs_no_file(browser):
    target = target_of(load_run("pretrained:image_generation"))
    example = target.task.examples[0]
    with serving(explorer_app(target, example)) as address, opened(browser, address, offline=False) as page:
        page.click('[data-key="generate"]')
        page.wait_for_selector("h1:has-text('an image of 8x8')", state="attached")
        assert page.locator(".wrong").count() == 0
        page.reload()
        page.wait_for_selector("h1:has-text('an image of 8x8')", state="attached")
