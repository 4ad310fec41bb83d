"""The page computes what Python computes: outputs, scores, tokens and attention maps."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path

import numpy as np
import PIL.Image as image_module
import pytest

from regard.attention.record import attention_modules
from regard.convert.web.equality import compare
from regard.convert.web.model_file import model_file
from regard.core.pretrained_runs import pretrained_folders
from regard.core.registry import registered_names
from regard.inspection.collect import inspect, inspect_quickly
from regard.inspection.interventions import Interventions
from regard.inspection.report import target_of
from regard.tasks.image_generation.task import Options as ImageOptions
from regard.training import recipe as recipes
from regard.training.load_run import load_run
from regard.training.train import train

TEXTS = {
    "captioning": [],
    "classification": [
        "I loved it. Dr. Kim said no! The soup\nwas cold, e.g. frozen…",
        "한국어 문장이다.다음 문장이다. 끝",
        "one",
        "zzz qqq 🍎 " * 400,
    ],
    "image_classification": [],
    "image_generation": [],
    "detection": [],
    "embeddings": ["the", "Function - value + + object", "list list"],
    "language": ["def f(self, x):\n    return", "한국 🍎"],
    "masked_language": ["def [MASK](self, x):\n    return [MASK] + 1", "[MASK]", "Qqzzx 한국 [MASK] 🎬"],
    "music": [],
    "recommendation": ["age=30, occupation=baker | The Quiet Summer; the small moon (1967), 3", "", "age=x | 5", "7"],
    "speech_recognition": [],
    "tagging": ["Maria Kim doesn't live in Seoul 3.5% 한국 🍎", "a"],
    "translation": [
        "My father buys three apples in the market.",
        "zzz qqq Ünïcode",
        "Zoë eats\tan unknown fruit 🍎!",
        "a",
    ],
}
SMALL = {
    "captioning": ["data.scenes=40", "model.dim=16", "training.steps=2"],
    "language": ["model.preset=small", "data.vocab_size=300", "training.steps=2", "decoding=greedy"],
    "masked_language": ["model.preset=small", "data.vocab_size=300", "training.steps=2", "data.eval_tokens=2000"],
}
CHANGED = {
    "captioning": (("looking.cross_attn", 0), ("cells", 3)),
    "classification": (("words.pool", 0), ("words.0", 1)),
    "detection": (("decoder.1.cross_attn", 2), ("grid", 5)),
    "language": (("encoder.layers.1.self_attn", 2), ("read", 2)),
    "masked_language": (("encoder.layers.1.self_attn", 2), ("text", 5)),
    "music": (("layers.1.self_attn", 2), ("read", 3)),
    "image_classification": (("layers.1.self_attn", 2), ("patches", 5)),
    "recommendation": (("layers.1.self_attn", 1), ("history", 2)),
    "speech_recognition": (("cross_attn", 0), ("frames", 12)),
    "image_generation": (("layers.1.self_attn", 2), ("seen", 5)),
    "tagging": (("layers.1.self_attn", 2), ("sentence", 1)),
    "translation": (("decoder.layers.1.cross_attn", 2), ("source", 1)),
}  # a head and an item


def run_of(task, folder):
    """The shipped run of a task, or a small one if none is shipped."""
    if task in pretrained_folders():
        return f"pretrained:{task}"
    return train(recipes.read(task, settings=SMALL[task]), folder / task)


@pytest.fixture(scope="module", params=sorted(TEXTS))
def shipped(request, engine, tmp_path_factory):
    """A run, loaded here and in the page."""
    run = run_of(request.param, tmp_path_factory.mktemp("runs"))
    parts = load_run(run)
    if parts.recipe.decoding is not None and parts.recipe.decoding.name == "sample":  # random numbers differ
        parts = load_run(run, ["decoding=greedy"])
    file = model_file(parts) | {"page": {"facts": {}}}
    engine.evaluate("file => regard.load(file)", file)
    return request.param, parts


def input_of(parts, text):
    """The input of a request of the page: a text, or the content of a file."""
    if not text.endswith(parts.task.input_suffixes or "\0"):
        return {"text": text}
    path = Path(text)
    return {"text": path.name, "upload": {"name": path.name, "file": base64.b64encode(path.read_bytes()).decode()}}


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Image files of sizes and modes that a model does not have."""
    random, folder = np.random.default_rng(1), tmp_path_factory.mktemp("images")
    for name, shape in (("large.png", (37, 53, 3)), ("small.png", (5, 6, 4)), ("grey.png", (40, 9))):
        image_module.fromarray(random.integers(0, 256, shape, dtype=np.uint8)).save(folder / name)
    return [str(path) for path in sorted(folder.iterdir())]


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """WAV files of rates, sample formats and channels that a model does not have."""
    soundfile = pytest.importorskip("soundfile")
    random, folder = np.random.default_rng(1), tmp_path_factory.mktemp("recordings")
    paths = []
    for rate, subtype, channels in (
        (22050, "PCM_24", 2),
        (16000, "FLOAT", 1),
        (8000, "PCM_U8", 1),
        (11025, "PCM_32", 1),
    ):
        samples = np.cumsum(random.normal(0, 0.02, (rate // 2, channels)), axis=0)
        paths.append(str(folder / f"{subtype}.wav"))
        soundfile.write(paths[-1], samples - samples.mean(axis=0), rate, subtype=subtype)
    return paths


def test_inspections_are_equal(shipped, engine, images, recordings):
    task, parts = shipped
    files = {
        "image_classification": images,
        "image_generation": images,
        "captioning": images[:1],
        "detection": images[:1],
        "speech_recognition": recordings,
    }.get(task, [])
    for text in [*files, *TEXTS[task], *parts.task.examples[:1]]:
        page = engine.evaluate("request => regard.inspect(request)", input_of(parts, text))
        difference = compare(inspect_quickly(target_of(parts), text), page)
        assert difference.is_equal, (text, difference)


@pytest.mark.parametrize("shipped", ["tagging"], indirect=True)
def test_remarks_on_a_long_text_are_equal(shipped, engine):
    """Only names are compared: the score of 200 tags is a difference of large float32 numbers."""
    _, parts = shipped
    text = "Qqzz met 🎬 in Rome. " * 45
    python = inspect_quickly(target_of(parts), text)
    assert len(python.remarks) == 2
    assert compare(python, engine.evaluate("request => regard.inspect(request)", {"text": text})).problems == ()


def test_changes_of_the_attention_are_equal(shipped, engine):
    task, parts = shipped
    if task not in CHANGED:
        assert not attention_modules(parts.model)
        return
    head, item = CHANGED[task]
    changes = {"disabled_heads": [head], "hidden_items": [item], "temperature": 1.5}
    text = [*TEXTS[task], *parts.task.examples][0]
    python = inspect(target_of(parts), text, interventions=Interventions((head,), (item,), 1.5))
    page = engine.evaluate("request => regard.inspect(request)", {**input_of(parts, text), "changes": changes})
    difference = compare(python, page)
    assert difference.is_equal, difference


@pytest.mark.parametrize("shipped", ["image_generation"], indirect=True)
@pytest.mark.parametrize("label", ["", "3"])
def test_the_most_likely_image_is_equal(shipped, engine, label):
    _, parts = shipped
    target = replace(target_of(parts), options=ImageOptions(class_=label, temperature=0.0, n=1))
    options = {"temperature": 0} | ({"class": label} if label else {})
    page = engine.evaluate("request => regard.inspect(request)", {"text": "", "options": options})
    difference = compare(inspect_quickly(target, ""), page)
    assert difference.is_equal, difference


def test_every_task_of_the_page_is_listed():
    assert set(TEXTS) == set(registered_names("regard.convert.web.tasks"))
