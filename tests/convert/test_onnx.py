"""ONNX programs: onnxruntime, step by step with a static KV cache, generates the tokens of the model."""

import numpy as np
import pytest
import torch

from regard.convert import onnx
from regard.convert.export_run import export_run
from regard.core.errors import CheckpointError, ConfigError
from regard.core.protocols.speech import SpeechFrames
from regard.decoding.strategy import build as decoder
from regard.tasks.language.generate import empty_source
from regard.tasks.speech_recognition.alignment import collate_features
from regard.training.load_run import load_run

runtime = pytest.importorskip("onnxruntime", reason="the extra onnx is not installed")
TWO = ["model.layers=2", "model.dim=16", "model.heads=2", "training.steps=2", "training.evaluation.every=2"]
TEXT = ["data.vocab_size=300", "data.context=24", "data.batch_size=4", "data.eval_tokens=500"]
PAIRS = ["data.pairs=300", "data.vocab_size=300", "data.max_length=40", "model.ffn_dim=24", "decoding=greedy"]


def session(path):
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def greedy(folder, source, *, first, count):
    """Return the tokens that the programs generate."""
    step, tokens, token = session(folder / "step.onnx"), [], first
    shape = next(program_input.shape for program_input in step.get_inputs() if program_input.name == "keys")
    cache_shape = [shape[0], 1, *shape[2:]]
    cache = {"keys": np.zeros(cache_shape, np.float32), "values": np.zeros(cache_shape, np.float32)}
    for position in range(count):
        current = {"tokens": np.array([[token]]), "place": np.array([position])}
        logits, cache["keys"], cache["values"] = step.run(None, current | cache | source)
        logits[0, [0, 2]] = -np.inf  # as the decoders of regard: PAD and BOS are never generated
        token = int(logits[0].argmax())
        if token == 3:
            break
        tokens.append(token)
    return tokens


def test_a_transformer_as_two_programs(trained, tmp_path):
    folder = trained("translation", *TWO, *PAIRS)
    lines = export_run(folder, "onnx", tmp_path / "onnx")
    assert lines[1:] == [
        "encoder.onnx: tokens, lengths -> source_keys, source_values",
        "step.onnx: tokens, place, keys, values, source_keys, source_values, lengths -> logits, new_keys, new_values",
    ]
    parts = load_run(folder)
    source = parts.task.encode_sources(["The cook is reading a book."])
    lengths = {"lengths": source.lengths.numpy()}
    encoded = session(tmp_path / "onnx" / "encoder.onnx").run(None, {"tokens": source.tokens.numpy(), **lengths})
    encoder_outputs = lengths | dict(zip(("source_keys", "source_values"), encoded, strict=True))
    with torch.no_grad():
        ((best,),) = decoder("greedy")(
            parts.model,
            parts.model.start(source),
            special_tokens=parts.task.spec.special_tokens,
            limits=torch.tensor([12]),
        )
    assert greedy(tmp_path / "onnx", encoder_outputs, first=2, count=12) == list(best.tokens)


def test_a_speech_transformer_as_two_programs(trained, tmp_path):
    small = ["model.decoder_layers=1", "model.ffn_dim=24", "model.channels=2", "data.strings=12", "data.digits=[1,2]"]
    folder = trained(
        "speech_recognition", "model=speech_transformer", *TWO, *small, "data.bands=8", "data.max_length=16",
        "decoding=greedy",
    )  # fmt: skip
    lines = export_run(folder, "onnx", tmp_path / "onnx")
    assert lines[1] == "encoder.onnx: frames, lengths -> source_keys, source_values, state_lengths"
    parts = load_run(folder)
    features = parts.task.log_mel(parts.task.parse_input(parts.task.examples[0]).waveform)[None]
    inputs = {"frames": features, "lengths": np.array([features.shape[1]])}
    keys, values, lengths = session(tmp_path / "onnx" / "encoder.onnx").run(None, inputs)
    encoder_outputs = {"source_keys": keys, "source_values": values, "lengths": lengths}
    source = SpeechFrames(torch.from_numpy(features), torch.from_numpy(inputs["lengths"]))
    with torch.no_grad():
        ((best,),) = decoder("greedy")(
            parts.model,
            parts.model.start(source),
            special_tokens=parts.task.spec.special_tokens,
            limits=torch.tensor([8]),
        )
    assert greedy(tmp_path / "onnx", encoder_outputs, first=2, count=8) == list(best.tokens)


SMALL_SPEECH = [
    *("data.strings=12", "data.digits=[1,2]", "data.bands=8", "data.max_length=16", "model.encoder=6"),
    *("model.pyramid_layers=2", "model.stack=3", "training.steps=2", "training.evaluation.every=2"),
]  # twelve frames for each state: no recording has a multiple of them


def example_frames(parts):
    """Return the features of two recordings of different length, padded."""
    waveforms = [parts.task.parse_input(example).waveform for example in parts.task.examples]
    return collate_features([parts.task.log_mel(waveform) for waveform in waveforms])


@pytest.mark.parametrize("score", ["location", "additive"])
def test_listen_attend_and_spell_as_two_programs(trained, tmp_path, score):
    sizes = ["model=las", "model.dim=10", "model.embedding=8", f"model.score={score}", "decoding=greedy"]
    folder = trained("speech_recognition", *sizes, *SMALL_SPEECH)
    lines = export_run(folder, "onnx", tmp_path / "onnx")
    assert lines[1] == "encoder.onnx: frames, lengths -> source_keys, source_values, state_lengths"
    inputs, _, outputs = lines[2].partition(" -> ")
    assert inputs.startswith("step.onnx: tokens, hidden, cell, context, source_keys, source_values, lengths")
    assert outputs.startswith("logits, new_hidden, new_cell, new_context")
    assert ("new_weights" in outputs) is inputs.endswith("weights") is (score != "additive")
    parts = load_run(folder)
    source = example_frames(parts)
    assert source.lengths[0] != source.lengths[1]
    encoder, step = (session(tmp_path / "onnx" / f"{name}.onnx") for name in ("encoder", "step"))
    keys, values, lengths = encoder.run(None, {"frames": source.frames.numpy(), "lengths": source.lengths.numpy()})
    (rows, num_states, _), tokens = keys.shape, torch.tensor([[2, 4, 5, 4], [2, 5, 5, 6]])
    first = np.zeros((rows, num_states), np.float32)
    first[:, 0] = 1
    state = {"hidden": np.zeros((rows, 1, 10), np.float32), "cell": np.zeros((rows, 1, 10), np.float32),
             "context": np.zeros((rows, 12), np.float32)}  # fmt: skip
    state |= {"weights": first} if score != "additive" else {}
    with torch.no_grad():
        expected, _ = parts.model(tokens, parts.model.start(source))
    for position in range(tokens.shape[1]):
        encoded = {"source_keys": keys, "source_values": values, "lengths": lengths}
        logits, *changed = step.run(None, {"tokens": tokens[:, position : position + 1].numpy()} | encoded | state)
        state = dict(zip(state, changed, strict=True))
        torch.testing.assert_close(torch.from_numpy(logits), expected[:, position], atol=1e-4, rtol=1e-4)


def test_ctc_as_one_program(trained, tmp_path):
    folder = trained("speech_recognition", "model=ctc", *SMALL_SPEECH, "decoding=greedy")
    lines = export_run(folder, "onnx", tmp_path / "onnx")
    assert lines[1:] == ["encoder.onnx: frames, lengths -> log_probs, state_lengths"]
    parts = load_run(folder)
    source = example_frames(parts)
    inputs = {"frames": source.frames.numpy(), "lengths": source.lengths.numpy()}
    log_probs, lengths = session(tmp_path / "onnx" / "encoder.onnx").run(None, inputs)
    with torch.no_grad():
        expected = parts.model.start(source).source.value
    assert lengths.tolist() == expected.lengths.tolist()
    for row, length in enumerate(lengths.tolist()):
        actual = torch.from_numpy(log_probs[row, :length]).double()
        torch.testing.assert_close(actual, expected.log_probs[row, :length], atol=1e-4, rtol=1e-4)


def test_a_language_model_as_one_program(trained, tmp_path):
    folder = trained("language", *TWO, *TEXT)
    export_run(folder, "onnx", tmp_path / "onnx")
    parts = load_run(folder)
    state = parts.model.start(empty_source(1, torch.device("cpu")))
    with torch.no_grad():
        ((best,),) = decoder("greedy")(
            parts.model, state, special_tokens=parts.task.spec.special_tokens, limits=torch.tensor([9])
        )
    assert greedy(tmp_path / "onnx", {}, first=2, count=9) == list(best.tokens)


@pytest.mark.parametrize(
    ("task", "settings"),
    [("masked_language", [*TEXT, "model.ffn_dim=24"]), ("image_classification", ["model.patch=2"])],
)
def test_a_model_without_decoder_is_one_program(trained, tmp_path, task, settings):
    folder = trained(task, *TWO, *settings)
    lines = export_run(folder, "onnx", tmp_path / "onnx")
    assert lines[1].startswith("model.onnx: ") and (tmp_path / "onnx" / "model.onnx").exists()


def test_a_program_with_different_outputs_is_refused(trained, tmp_path, monkeypatch):
    folder = trained("image_classification", *TWO, "model.patch=2")
    monkeypatch.setattr(onnx, "LOGIT_TOLERANCE", -1.0)
    with pytest.raises(
        CheckpointError, match=r"model\.onnx: logits for batch size 1 differs in onnxruntime by .*; nothing"
    ):
        export_run(folder, "onnx", tmp_path / "onnx")
    assert not (tmp_path / "onnx").exists()


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        (
            "translation",
            ["model=bahdanau", "model.dim=8", "model.embedding=8", *TWO[3:], *PAIRS[:3]],
            "bahdanau cannot be exported",
        ),
        (
            "language",
            [*TWO, *TEXT, "model.position=rotary"],
            "a static cache needs a position scheme that is added to the features",
        ),
    ],
)
def test_an_unsupported_model_is_a_one_line_error(trained, tmp_path, task, settings, message):
    folder = trained(task, *settings)
    with pytest.raises(ConfigError, match=message):
        export_run(folder, "onnx", tmp_path / "onnx")
