"""The speech view: tokens highlight their attention over time, silenced spans, selection by dragging, microphone."""

from __future__ import annotations

import base64

import numpy as np
import pytest
from browser import opened

from regard.core.inspectable import Axis, Item, Output, Token
from regard.data.speech.audio_files import encode_wav
from regard.inspection.html_bundle import bundle
from regard.inspection.json_format import Inspection, Map, to_json

TOKENS = ("three", "one", "<end>")
STATES, FRAMES, BANDS, SECONDS = 25, 100, 8, 1.0


def spoken(*, attends=True):
    """A synthetic recording of two words."""
    random = np.random.default_rng(3)
    axes = {
        "target": Axis(tuple(Item(token, special=token == "<end>") for token in TOKENS), "transcript"),
        "frames": Axis(tuple(Item(f"{i * 0.04:.2f}", time=i * 0.04) for i in range(STATES)), "time"),
    }
    weights = np.full((1, len(TOKENS), STATES), 0.001, np.float32)
    for row, peak in enumerate((5, 15, 24)):
        weights[0, row, peak] = 1 - 0.001 * (STATES - 1)
    attention = Map("cross_attn", "cross_attn", "target", "frames", weights, "g", "Transcript → time")
    tokens = tuple(Token(token, -0.1, ((token, -0.1), ("nine", -2.5))) for token in TOKENS)
    waveform = 0.3 * random.standard_normal(8000).astype(np.float32)
    speech = {
        "seconds": SECONDS,
        "state_seconds": 0.04,
        "wav": base64.b64encode(encode_wav(waveform, 8000)).decode(),
        "envelope": [[-0.5, 0.5]] * 50,
        "frames": FRAMES,
        "bands": BANDS,
        "spectrogram": base64.b64encode(random.integers(0, 255, FRAMES * BANDS, dtype=np.uint8).tobytes()).decode(),
        "again": [{"span": [0.0, 0.5], "text": "one"}, {"span": [0.5, 1.0], "text": "three one"}],
    }
    outputs = (Output("three one", -0.3, -0.1, tokens), Output("three nine", -2.7, -0.9, tokens))
    return Inspection(
        "x.wav",
        "las",
        "speech_recognition",
        axes,
        (attention,) if attends else (),
        answered="target",
        outputs=outputs,
        views=("speech",),
        facts={"run": "digits"},
        extra={"speech": speech},
    )


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    folder = tmp_path_factory.mktemp("speech")
    addresses = {}
    for name, attends in (("las", True), ("ctc", False)):
        path = folder / f"{name}.html"
        path.write_text(bundle(to_json(spoken(attends=attends))), encoding="utf-8")
        addresses[name] = path.as_uri()
    return addresses


def orange(page, x):
    """Return True if the picture is tinted orange at a fraction of the time axis, in the waveform."""
    return page.evaluate(
        """(share) => {
          const canvas = document.querySelector(".speech-picture");
          const scale = canvas.width / parseFloat(canvas.style.width);
          const left = 84 * scale;
          const x = left + share * (canvas.width - left - 16 * scale);
          const [r, , b] = canvas.getContext("2d").getImageData(x, 3 * scale, 1, 1).data;
          return r > 200 && b < 120;
        }""",
        x,
    )


def test_a_token_highlights_and_names_its_span(browser, pages):
    with opened(browser, pages["las"]) as page:
        page.locator("[data-token='0']").hover()
        assert (
            "three attends to 0.20–0.24 s · probability 90% · alternatives: nine 8.2%"
            in page.locator(".readout").inner_text()
        )
        assert orange(page, 0.22) and not orange(page, 0.62)
        page.locator("[data-token='1']").hover()
        assert orange(page, 0.62) and not orange(page, 0.22)


def test_a_token_plays_the_attended_span(browser, pages):
    with opened(browser, pages["las"]) as page:
        page.evaluate(
            """() => {
              const play = AudioBufferSourceNode.prototype.start;
              AudioBufferSourceNode.prototype.start = function (...at) {
                globalThis.played = this.buffer.duration;
                return play.apply(this, at);
              };
            }"""
        )
        page.locator("[data-token='1']").click()
        assert page.evaluate("globalThis.played") == pytest.approx(0.04, abs=0.001)
        page.locator("[data-key='speech:play']").click()
        page.locator("[data-key='speech:play']").click()
        assert page.evaluate("globalThis.played") == pytest.approx(1.0, abs=0.04)


def test_the_keyboard_moves_between_tokens(browser, pages):
    with opened(browser, pages["las"]) as page:
        page.locator(".speech-picture").focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        assert page.locator("[aria-pressed='true']").first.inner_text() == "one"
        assert page.locator("#live").inner_text() == "one"


def test_silenced_spans_show_the_new_transcript(browser, pages):
    with opened(browser, pages["las"]) as page:
        page.locator("[data-span='0']").hover()
        assert page.locator(".again-text").inner_text() == "one (changed)"
        page.locator("[data-span='1']").hover()
        assert page.locator(".again-text").inner_text() == "three one (unchanged)"


def test_a_span_is_selected_by_dragging(browser, pages):
    with opened(browser, pages["las"]) as page:
        box = page.locator(".speech-picture").bounding_box()
        assert "Drag over the waveform" in page.locator(".speech-selection").inner_text()
        plot = box["width"] - 84 - 16
        page.mouse.move(box["x"] + 84 + 0.2 * plot, box["y"] + 10)
        page.mouse.down()
        page.mouse.move(box["x"] + 84 + 0.6 * plot, box["y"] + 10)
        page.mouse.up()
        assert "0.20–0.60 s" in page.locator(".speech-selection").inner_text()
        assert not page.locator("[data-key='speech:silence']").count()  # only with a server
        assert not page.locator("[data-key='speech:record']").count()


def test_the_n_best_list_and_a_model_without_attention(browser, pages):
    with opened(browser, pages["las"]) as page:
        assert "three nine" in page.locator(".nbest").inner_text()
    with opened(browser, pages["ctc"]) as page:
        assert "No attention" in page.locator(".readout").inner_text()
        page.locator("[data-token='0']").click()


def test_in_korean(browser, pages):
    with opened(browser, pages["las"], locale="ko-KR") as page:
        assert "토큰을 선택하면" in page.locator(".readout").inner_text()


def test_wav_files_are_encoded_and_decoded_by_the_page(browser, pages):
    with opened(browser, pages["las"]) as page:
        difference = page.evaluate(
            """() => {
              const { decodeWav, encodeWav } = globalThis.modules.find((module) => module?.decodeWav);
              const samples = Float32Array.from({ length: 1000 }, (_, i) => Math.sin(i / 9) / 2);
              const bytes = new Uint8Array(encodeWav(samples, 11025));
              const decoded = decodeWav(btoa(String.fromCharCode(...bytes)));
              return [decoded.rate, Math.max(...decoded.samples.map((value, i) => Math.abs(value - samples[i])))];
            }"""
        )
        assert difference[0] == 11025 and difference[1] < 1e-4
