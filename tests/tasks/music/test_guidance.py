"""Classifier-free guidance equals its formula, with samples, with beam search, and beyond the context."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.core.protocols import Padded
from regard.core.protocols.music import MusicCondition
from regard.decoding import strategy
from regard.models import music_transformer
from regard.tasks.music import Config, Music, Options, build
from regard.tasks.music.guidance import GuidedDecoder

GUIDANCE = 2.5


def build_task(tmp_path, **settings) -> Music:
    piece = [[72 + i % 3, 65, 57, 48] for i in range(32)]
    path = tmp_path / "set.json"
    path.write_text(json.dumps({"train": [piece], "valid": [piece], "test": [piece]}))
    return build(Config(path=path, crop=64, window=64, max_length=256, conditions=("mode",), **settings))


def build_model(task: Music):
    torch.manual_seed(0)
    model = music_transformer.build(replace(music_transformer.TINY, voices=4, bar=16), task.spec)
    torch.nn.init.normal_(model.conditions.weight[4:])  # so that the condition makes a difference
    return model


@pytest.fixture
def task(tmp_path):
    return build_task(tmp_path)


@pytest.fixture
def model(task):
    return build_model(task)


def compose(task, model, decoding=None, **options):
    return task.predict(model, [None], Options(**options), decoding or strategy.build("sample"))[0]


def guided_score(task, model, tokens, *, guidance: float) -> float:
    """Return log p of complete pieces under the guided distribution, computed without a cache."""
    row = torch.tensor([[2, *tokens.tolist(), 3]])
    with torch.no_grad():
        log_probs = [
            model.eval()(row[:, :-1], model.start(task.classes.encode_request(names)))[0].log_softmax(-1)
            for names in (["minor"], [])
        ]
    mixed = (log_probs[1] + guidance * (log_probs[0] - log_probs[1])).log_softmax(-1)
    return float(mixed.gather(-1, row[:, 1:, None]).sum())


@pytest.mark.parametrize("decoding", ["sample", "beam"])
def test_scores_are_those_of_the_formula(task, model, decoding):
    options = {"num_samples": 3} if decoding == "sample" else {"beam_width": 3, "nbest": 3}
    pieces = compose(
        task, model, strategy.build(decoding, **options), seconds=1.0, exact_length=True, condition=("minor",),
        guidance=GUIDANCE,
    )  # fmt: skip
    assert len(pieces) == 3
    for piece in pieces:
        assert piece.score == pytest.approx(guided_score(task, model, piece.value.tokens, guidance=GUIDANCE), abs=1e-3)
        assert piece.score != pytest.approx(guided_score(task, model, piece.value.tokens, guidance=1.0), abs=0.1)


def test_guidance_1_is_the_condition_alone(task, model):
    plain, one = (compose(task, model, seconds=2.0, condition=("minor",), **more)[0] for more in ({}, {"guidance": 1}))
    assert one.score == plain.score and (one.value.tokens == plain.value.tokens).all()
    (guided,) = compose(task, model, seconds=2.0, condition=("minor",), guidance=GUIDANCE)
    assert guided.value.tokens.tolist() != plain.value.tokens.tolist()


def test_guidance_without_effect_of_the_condition_changes_nothing(task, model):
    torch.nn.init.zeros_(model.conditions.weight)
    plain, guided = (
        compose(task, model, seconds=2.0, condition=("minor",), guidance=guidance)[0] for guidance in (1, GUIDANCE)
    )
    assert guided.value.tokens.tolist() == plain.value.tokens.tolist()


def test_pieces_may_be_longer_than_the_context(task, model):
    length = 80 * task.encoding.step_seconds
    pieces = compose(task, model, seconds=length, exact_length=True, condition=("minor",), guidance=GUIDANCE, n=2)
    assert [len(piece.value.tokens) for piece in pieces] == [320, 320]  # the context is 256


def test_fixed_tokens_are_visible_with_and_without_the_condition(tmp_path):
    task = build_task(tmp_path, visible_prob=0.5)
    model = build_model(task).eval()
    fixed = torch.arange(5, 21)[None]
    source = MusicCondition(*task.classes.encode_request(["minor"]), Padded(fixed, torch.tensor([16])))
    nothing = source._replace(tokens=torch.zeros_like(source.tokens))
    tokens = torch.randint(5, 20, (1, 6), generator=torch.Generator().manual_seed(1))
    decoder = GuidedDecoder(model, GUIDANCE)
    with torch.no_grad():
        logits, _ = decoder(tokens, decoder.start(source))
        both = [model(tokens, model.start(given))[0].log_softmax(-1) for given in (source, nothing)]
        loss = decoder.readout.loss(decoder.features(tokens, decoder.start(source))[0][0], tokens[0])
    torch.testing.assert_close(logits, both[0] + (GUIDANCE - 1) * (both[0] - both[1]))
    assert loss.item() == pytest.approx(-float(logits.log_softmax(-1)[0].gather(1, tokens[0][:, None]).sum()), abs=1e-3)


def test_guidance_that_cannot_work_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"^guidance=0.5 must be at least 1 and finite; 1 is the condition alone$"):
        Options(guidance=0.5, condition=("minor",))
    with pytest.raises(ConfigError, match=r"^guidance=nan must be at least 1 and finite"):
        Options(guidance=float("nan"), condition=("minor",))
    with pytest.raises(ConfigError, match=r"^guidance=2.0 strengthens a condition; give condition=…, or leave it out$"):
        Options(guidance=2.0)
    always = build_task(tmp_path, condition_dropout=0.0)
    with pytest.raises(
        DataError, match=r"^guidance=2.0: the model was always trained with its conditions, .*condition_dropout=0.2$"
    ):
        compose(always, build_model(always), seconds=1.0, condition=("minor",), guidance=2.0)
    unconditional = replace(always.config, conditions=(), condition_dropout=0.2)
    without = build(unconditional)
    with pytest.raises(DataError, match=r"^the model does not know the class 'minor'; it was trained without data.co"):
        compose(without, build_model(always), seconds=1.0, condition=("minor",), guidance=2.0)
    with pytest.raises(ConfigError, match=r"^condition, guidance: a file is inspected unchanged; generate a piece"):
        Options(guidance=2.0, condition=("minor",)).check_inspect_options(file=True)


def test_guided_performances(tmp_path):
    from regard.data.music import midi
    from regard.data.music.notes import Note

    rows = ["split\tfile\tcomposer"]
    for i in range(4):
        notes = [Note(j * 0.25, j * 0.25 + 0.2, 50 + i + j * j % 12) for j in range(20)]
        (tmp_path / f"{i}.mid").write_bytes(midi.render(notes))
        rows.append(f"{'train' if i < 2 else 'valid'}\t{i}.mid\t{'Bach' if i % 2 else 'Liszt'}")
    (tmp_path / "index.tsv").write_text("\n".join(rows) + "\n")
    task = build(
        Config(path=tmp_path, encoding="durations", crop=32, window=0, max_length=64, conditions=("composer",))
    )
    torch.manual_seed(0)
    model = music_transformer.build(replace(music_transformer.TINY, voices=0, intervals=False), task.spec)
    (piece,) = compose(task, model, seconds=20.0, exact_length=True, condition=("Bach",), guidance=2.0)
    assert max(note.end for note in piece.value.notes) <= 20.0 and len(piece.value.tokens) > 64
    assert np.isfinite(piece.score)
