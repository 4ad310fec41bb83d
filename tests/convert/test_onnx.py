"""ONNX programs: onnxruntime alone, step by step over a static cache, gives the tokens that the model gives."""

import numpy as np
import pytest
import torch

from regard.convert import onnx
from regard.convert.export_run import export_run
from regard.core.errors import CheckpointError, ConfigError
from regard.decoding.strategy import build as decoder
from regard.tasks.language.generate import empty_source
from regard.training import recipe as recipes
from regard.training.load_run import load_run
from regard.training.train import train

runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
TWO = ["model.layers=2", "model.dim=16", "model.heads=2", "training.steps=2", "training.evaluation.every=2"]
TEXT = ["data.vocab_size=300", "data.context=24", "data.batch_size=4", "data.eval_tokens=500"]
PAIRS = ["data.pairs=300", "data.vocab_size=300", "data.max_length=40", "model.ffn_dim=24", "decoding=greedy"]


def trained(folder, task, *settings):
    return train(recipes.read(task, settings=settings), folder)


def session(path):
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def greedy(folder, given, *, first, count):
    """Tokens by the programs alone."""
    step, found, token = session(folder / "step.onnx"), [], first
    shape = next(each.shape for each in step.get_inputs() if each.name == "keys")
    cache = [shape[0], 1, *shape[2:]]
    given = given | {"keys": np.zeros(cache, np.float32), "values": np.zeros(cache, np.float32)}
    for place in range(count):
        now = {"tokens": np.array([[token]]), "place": np.array([place])}
        logits, given["keys"], given["values"] = step.run(None, now | given)
        logits[0, [0, 2]] = -np.inf  # as our decoders
        token = int(logits[0].argmax())
        if token == 3:
            break
        found.append(token)
    return found


def test_a_transformer_as_two_programs(tmp_path):
    folder = trained(tmp_path / "run", "translation", *TWO, *PAIRS)
    said = export_run(folder, "onnx", tmp_path / "onnx")
    assert said[1:] == [
        "encoder.onnx: tokens, lengths -> source_keys, source_values",
        "step.onnx: tokens, place, keys, values, source_keys, source_values, lengths -> logits, new_keys, new_values",
    ]
    parts = load_run(folder)
    source = parts.task.encode_sources(["The cook is reading a book."])
    given = {"lengths": source.lengths.numpy()}
    read = session(tmp_path / "onnx" / "encoder.onnx").run(None, {"tokens": source.tokens.numpy(), **given})
    given |= dict(zip(("source_keys", "source_values"), read, strict=True))
    with torch.no_grad():
        ((best,),) = decoder("greedy")(
            parts.model, parts.model.start(source), marks=parts.task.marks, limits=torch.tensor([12])
        )
    assert greedy(tmp_path / "onnx", given, first=2, count=12) == list(best.tokens)


def test_a_language_model_as_one_program(tmp_path):
    folder = trained(tmp_path / "run", "language", *TWO, *TEXT)
    export_run(folder, "onnx", tmp_path / "onnx")
    parts = load_run(folder)
    state = parts.model.start(empty_source(1, torch.device("cpu")))
    with torch.no_grad():
        ((best,),) = decoder("greedy")(parts.model, state, marks=parts.task.marks, limits=torch.tensor([9]))
    assert greedy(tmp_path / "onnx", {}, first=2, count=9) == list(best.tokens)


@pytest.mark.parametrize(
    ("task", "settings"),
    [("masked_language", [*TEXT, "model.ffn_dim=24"]), ("image_classification", ["model.patch=2"])],
)
def test_what_does_not_decode_is_one_program(tmp_path, task, settings):
    folder = trained(tmp_path / "run", task, *TWO, *settings)
    said = export_run(folder, "onnx", tmp_path / "onnx")
    assert said[1].startswith("model.onnx: ") and (tmp_path / "onnx" / "model.onnx").exists()


def test_a_program_that_computes_something_else_is_refused(tmp_path, monkeypatch):
    folder = trained(tmp_path / "run", "image_classification", *TWO, "model.patch=2")
    monkeypatch.setattr(onnx, "LOGIT_TOLERANCE", -1.0)
    with pytest.raises(CheckpointError, match=r"model\.onnx: logits for batch size 1 differs in onnxruntime by .*; nothing"):
        export_run(folder, "onnx", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (
            "translation",
            ["model=bahdanau", "model.dim=8", "model.embedding=8", *PAIRS[:3]],
            "bahdanau cannot be exported",
        ),
        (
            "language",
            [*TWO[:3], *TEXT, "model.position=rotary"],
            "a static cache needs a position scheme that is added to the features",
        ),
    ],
)
def test_what_cannot_be_exported_is_one_line(tmp_path, task, settings, message):
    folder = trained(tmp_path / "run", task, *TWO[3:], *settings)
    with pytest.raises(ConfigError, match=message):
        export_run(folder, "onnx", tmp_path / "onnx")
