"""The page in a browser, from disk, without network."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import examples
import numpy as np
import pytest
from browser import opened
from tiny_runs import MODELS

from regard.inspection.collect import collect, inspect
from regard.inspection.compare import to_page
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Inspection, to_json

NASTY = '<script>window.taken = 1</script> <img src=x onerror="window.taken = 1"> & "quotes"'
INSPECTION = examples.translation(2, 4)
MAPS = {item.name: item for item in INSPECTION.maps}


@pytest.fixture(scope="session")
def page_file(tmp_path_factory):
    """Write a page to disk."""
    return write(tmp_path_factory.mktemp("page") / "page.html", to_json(INSPECTION))


def write(path: Path, data) -> str:
    path.write_text(bundle(data), encoding="utf-8")
    return path.as_uri()


def shares(page, selector=".distribution"):
    """Return the labels and values of a displayed distribution."""
    rows = page.locator(f"{selector} >> nth=0").locator(".share")
    return [
        (row.locator(".share-label").inner_text(), float(row.locator(".share-value").inner_text()))
        for row in rows.all()
    ]


def test_every_layer_and_head_has_a_thumbnail_and_a_click_shows_it_large(browser, page_file):
    with opened(browser, page_file, fragment="#view=grid") as page:
        assert page.locator(".thumb").count() == 2 * 4
        page.get_by_role("radio", name="Source self-attention").click()
        page.get_by_role("button", name="Source self-attention, layer 2, head 3").click()
        assert page.locator(".large h2").inner_text() == "Source self-attention, layer 2 head 3"
        assert "map=encoder.1" in page.url and "head=2" in page.url
        titles = page.locator(".matrix .row-label title").all_text_contents()
        assert titles == list(examples.SOURCE)
        alt = page.locator(".matrix").get_attribute("aria-label")
        weights = MAPS["encoder.1"].weights[2]
        row, column = np.unravel_index(weights.argmax(), weights.shape)
        best = f"Strongest: {examples.SOURCE[row]} to {examples.SOURCE[column]}, {weights.max():.3f}"
        assert "10 rows by 10 columns" in alt and best in alt


def test_shown_numbers_are_those_of_the_tensor_and_sum_to_one(browser, page_file):
    with opened(browser, page_file, fragment="#view=grid&map=cross.1&head=1&row=4") as page:
        page.wait_for_selector(".distribution")
        shown = shares(page)
        assert [label for label, _ in shown] == list(examples.SOURCE)
        assert [value for _, value in shown] == pytest.approx(MAPS["cross.1"].weights[1, 4].tolist(), abs=1e-4)
        assert page.locator(".sum").inner_text() == "sum 1.0000"


def test_pointing_at_a_cell_tells_its_weight_and_row(browser, page_file):
    with opened(browser, page_file, fragment="#view=grid&map=cross.0&head=0") as page:
        box = page.locator(".matrix .cells").bounding_box()
        row, column = 2, 5
        page.mouse.move(box["x"] + (column + 0.5) * box["width"] / 10, box["y"] + (row + 0.5) * box["height"] / 8)
        texts = page.locator(".readout").inner_text()
        weights = MAPS["cross.0"].weights[0]
        assert texts.startswith("작은 attends to small")
        assert float(texts.split()[-1]) == pytest.approx(weights[row, column], abs=1e-4)
        assert [value for _, value in shares(page)] == pytest.approx(weights[row].tolist(), abs=1e-4)


def test_lines_follow_the_chosen_heads_and_a_token_shows_its_distribution(browser, page_file):
    with opened(browser, page_file, fragment="#view=lines&map=decoder.0") as page:
        page.get_by_role("button", name="3", exact=True).click()
        page.locator(".line-word.query >> nth=5").hover()
        lists = page.locator(".distribution")
        assert lists.count() == 2  # the first head was chosen, the third was added
        shown = [value for _, value in shares(page, ".distribution:nth-of-type(2)")]
        assert shown == pytest.approx(MAPS["decoder.0"].weights[2, 5].tolist(), abs=1e-4)
        assert page.locator(".curves path.on").count() > 0
        thick = page.locator('.curves path[data-row="5"]').evaluate_all(
            "lines => lines.map(line => [Number(line.dataset.column),"
            " line.getAttribute('stroke'), Number(line.getAttribute('stroke-width'))])"
        )
        colour = page.locator(".chip >> nth=2").evaluate("chip => chip.style.getPropertyValue('--chip')")
        for column, stroke, width in thick:
            if stroke == colour:
                assert width == pytest.approx(0.5 + 6.5 * MAPS["decoder.0"].weights[2, 5, column], abs=0.02)


def test_alignment_shows_crossing_lines_the_best_outputs_and_the_error_rate(browser, page_file):
    with opened(browser, page_file, fragment="#view=alignment&map=cross.1") as page:
        assert page.locator(".alignment .key").all_text_contents() == list(examples.SOURCE)
        assert page.locator(".alignment .query").all_text_contents() == list(examples.TARGET)
        assert page.locator(".error-rate .figure").inner_text() == "0.200"
        assert page.locator(".nbest li").count() == 3
        assert "18%" in page.locator(".nbest li >> nth=1").inner_text()  # exp(-1.73)
        assert page.locator("path.truth").count() == len(examples.TRUTH)
        page.locator(".alignment .query >> nth=4").hover()
        mean = MAPS["cross.1"].weights.mean(axis=0)[4]
        texts = page.locator(".readout").inner_text()
        assert texts.startswith(f"책을 ← book {mean.max():.3f}")
        assert texts.endswith("alternatives: </s> 20% · 그 5.0%")


def test_every_step_of_one_query_is_shown_with_its_numbers(browser, page_file):
    step = INSPECTION.steps[0]
    weights = MAPS[step.map].weights[0]
    with opened(browser, page_file, fragment=f"#view=steps&map={step.map}&head=0&row=3") as page:
        page.wait_for_selector(".steps")
        rows = page.locator(".steps tbody tr").all()
        assert len(rows) == len(step.keys)
        for i, row in enumerate(rows):
            cells = [cell.replace("−", "-") for cell in row.locator("td.figure").all_inner_texts()]
            stages = [stage.values[3, i] for stage in step.stages]
            expected = [*stages, stages[-1], weights[3, i]]
            assert [float(cell) for cell in cells] == pytest.approx(expected, abs=6e-4)
        total = page.locator(".steps tfoot td.figure").inner_text()
        assert total == "1.0000"
        mixed = page.locator(".steps tfoot .vector").get_attribute("title").replace("−", "-").split()
        assert [float(value) for value in mixed] == pytest.approx((weights[3] @ step.values).tolist(), abs=1e-3)


def test_a_masked_key_is_minus_infinity_and_gets_nothing(browser, page_file):
    assert not MAPS["decoder.0"].allowed[0, 0, 1]
    with opened(browser, page_file, fragment="#view=steps&map=decoder.0&head=0&row=0") as page:
        page.wait_for_selector(".steps")
        cells = page.locator(".steps tbody tr >> nth=1").locator("td.figure").all_inner_texts()
        assert cells[-2:] == ["−∞", "0.0000"]


@pytest.mark.parametrize("name", ["positions", "embeddings", "training"])
def test_the_other_views_draw(browser, page_file, name):
    with opened(browser, page_file, fragment=f"#view={name}") as page:
        assert page.locator(f".view-{name} [role=img], .view-{name} svg").count() > 0


def test_the_slider_plays_how_the_alignment_forms(browser, page_file):
    with opened(browser, page_file, fragment="#view=training") as page:
        assert "step 700" in page.locator(".readout").inner_text()
        slider = page.get_by_label("Training step")
        slider.focus()
        slider.press("Home")
        assert page.locator(".readout").inner_text().split() == ["step", "0", "(empty)"]  # it has no output yet
        assert "probe=0" in page.url
        page.get_by_role("button", name="Play").click()
        page.locator(".readout", has_text="step 700").wait_for()  # the last one stays; others may be skipped


def test_a_neighbour_can_be_chosen(browser, page_file):
    with opened(browser, page_file, fragment="#view=embeddings&word=3") as page:
        shown = shares(page)
        neighbours = INSPECTION.embeddings[0].neighbours[3]
        assert [value for _, value in shown] == pytest.approx([cosine for _, cosine in neighbours], abs=1e-3)
        page.locator(".distribution .link >> nth=1").click()
        assert f"word={neighbours[1][0]}" in page.url


def test_text_is_data_and_never_html(browser, tmp_path):
    result = examples.translation(1, 1, title=NASTY)
    words = (NASTY, *examples.SOURCE[1:])
    result = replace(
        result, axes={**result.axes, "source": examples.axis(words, NASTY)}, model=NASTY, facts={"run": NASTY}
    )
    address = write(tmp_path / "nasty.html", to_json(result))
    with opened(browser, address, fragment=f"#row=0&map={NASTY}") as page:
        for view in ("grid", "lines", "alignment", "steps", "training", "embeddings"):
            page.locator(f"#tab-{view}").click()
            assert page.locator(".spoken.input .spoken-text").inner_text() == NASTY
            assert page.evaluate("window.taken") is None
            assert page.locator("img, iframe, body script:not([id=data]):not([type=module])").count() == 0


def test_a_link_restores_the_view_and_nonsense_in_it_does_no_harm(browser, page_file):
    with opened(browser, page_file, fragment="#view=lines&map=cross.1&heads=0.3&row=2") as page:
        assert page.locator(".chip[aria-pressed=true]").count() == 2
        assert page.locator(".distribution h3 >> nth=0").inner_text().startswith("작은")
        assert page.get_by_role("tab", selected=True).inner_text() == "Lines"
    with opened(browser, page_file, fragment="#view=nothing&map=unknown&head=99&row=-7&heads=x.5&probe=1e9") as page:
        assert page.get_by_role("tab", selected=True).inner_text() == "Alignment"  # the view of the task


def test_the_keyboard_is_enough(browser, page_file):
    with opened(browser, page_file, fragment="#view=grid") as page:
        page.get_by_role("tab", name="All heads").focus()
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", selected=True).inner_text() == "Lines"
        page.keyboard.press("ArrowLeft")
        page.locator(".thumb >> nth=0").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Enter")
        assert "head=1" in page.url
        page.locator(".matrix").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowRight")
        assert re.match(r".+ to .+: \d\.\d{3}", page.locator("#live").inner_text())


def test_without_maps_the_page_still_stands(browser, tmp_path):
    address = write(tmp_path / "none.html", to_json(Inspection("a", "seq2seq", "translation", {}, ())))
    with opened(browser, address) as page:
        assert "nothing to show here" in page.locator("#main").inner_text()


def test_runs_side_by_side_and_one_without_a_map_says_so(browser, tmp_path):
    plain = Inspection(
        INSPECTION.text, "seq2seq", "translation", {}, (), outputs=INSPECTION.outputs[1:], facts={"run": "plain"}
    )
    address = write(tmp_path / "compare.html", to_page([plain, INSPECTION]))
    with opened(browser, address) as page:
        assert page.locator(".compare-table tbody tr").count() == 2
        assert page.locator("[data-run='0'] .no-map").is_visible()
        page.locator("[data-run='1']").get_by_role("button", name="Inspect this run").click()
        assert page.get_by_role("tab", selected=True).inner_text() == "All heads"


def test_an_output_token_shows_what_else_might_have_stood_there(browser, page_file):
    with opened(browser, page_file) as page:
        tokens = page.locator(".answer-token")
        assert tokens.all_inner_texts() == list(examples.TARGET)
        assert page.locator(".popover").is_hidden()
        tokens.nth(2).hover()
        rows = page.locator(".popover .share").all_inner_texts()
        assert [row.split() for row in rows] == [["작은", "86%"], ["주셨어요", "20%"], ["그", "5.0%"]]
        assert page.locator(".popover .chosen .share-label").inner_text() == "작은"
        page.mouse.move(2, 2)
        assert page.locator(".popover").is_hidden()
        tokens.nth(0).focus()
        assert page.locator(".popover").is_visible()
        assert tokens.nth(0).get_attribute("aria-label") == "늙은 95%, alternatives: 아이에게 20% · 그 5.0%"


def test_what_else_might_have_stood_there_lies_over_no_tab_and_takes_no_click(browser, page_file):
    with opened(browser, page_file, height=500) as page:
        page.locator(".answer-token").last.hover()
        panel, tabs = (page.locator(where).bounding_box() for where in (".popover", "#tabs"))
        assert panel["y"] >= 0 and panel["y"] + panel["height"] <= tabs["y"]
        page.mouse.move(panel["x"] + 5, panel["y"] + 5)
        assert page.locator(".popover").is_hidden()


def test_who_may_not_be_looked_at_is_hatched(browser, page_file):
    with opened(browser, page_file, fragment="#view=grid&map=decoder.0") as page:
        assert page.locator(".legend-masked").inner_text() == "masked"
    with opened(browser, page_file, fragment="#view=grid&map=cross.0") as page:
        assert page.locator(".legend-masked").count() == 0
        assert page.locator(".row-label.special").all_text_contents()[0].startswith("</s>")


def test_a_map_inside_an_item_is_reached_from_that_item(browser, tmp_path):
    result = examples.levels()
    with opened(browser, write(tmp_path / "levels.html", to_json(result))) as page:
        assert page.locator(".large h2").inner_text() == "Document → sentences"
        assert page.get_by_role("radiogroup", name="Kind").count() == 0  # one kind of map on this level
        page.locator(".large .share >> nth=1").get_by_role("button").click()
        assert page.locator(".large h2").inner_text() == "Words of sentence 2 self-attention head 1"
        assert "map=lower+%232" in page.url or "map=lower%20%232" in page.url
        inside = page.get_by_label("Inside item")
        assert inside.input_value() == "sentences:1"
        inside.select_option("sentences:2")
        assert page.locator(".matrix .row-label title").all_text_contents() == [f"w2.{j}" for j in range(5)]
        inside.select_option("")
        assert page.locator(".large h2").inner_text() == "Document → sentences"
        page.locator("#tab-lines").click()
        page.get_by_label("Inside item").select_option("sentences:0")
        assert page.locator(".line-word.query").all_text_contents() == [f"w0.{j}" for j in range(5)]


@pytest.mark.parametrize("name", [*MODELS, "documents", "pictures"])
def test_the_page_of_every_model_with_attention_draws_all_its_views(browser, tmp_path, request, sentence, name):
    target_fixture = request.getfixturevalue("subject" if name in MODELS else name)
    result = (
        collect(target_fixture(name), sentence)
        if name in MODELS
        else collect(target_fixture, target_fixture.task.examples[0])
    )
    with opened(browser, write(tmp_path / "page.html", to_json(result))) as page:
        assert page.locator(".spoken.output .spoken-text").inner_text() == result.outputs[0].text
        for tab in page.get_by_role("tab").all():
            tab.click()
            assert page.locator("#view").inner_text().strip()
        page.locator("#tab-steps").click()
        page.wait_for_selector(".steps")
        step = result.steps[0]
        assert page.locator(".formula").inner_text() == step.formula
        shown = page.locator(".steps tbody td.weight").all_inner_texts()
        weights = next(item for item in result.maps if item.name == step.map).weights[step.head, 0]
        assert [float(value) for value in shown] == pytest.approx(weights.tolist(), abs=1e-4)


def test_looking_at_a_model_without_attention_is_told_in_the_comparison(browser, tmp_path, subject, sentence):
    both = [inspect(subject(name), sentence) for name in ("seq2seq", "bahdanau")]
    with opened(browser, write(tmp_path / "both.html", to_page(both))) as page:
        assert page.locator(".no-map").count() == 1
        assert page.locator(".compared .matrix").count() == 1
