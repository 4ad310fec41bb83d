"""Training crops: example ids, coverage of all tokens, augmentation, and fixed tokens."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.core.protocols.music import MusicCondition
from regard.data.music import midi
from regard.data.music.notes import Note
from regard.decoding import strategy
from regard.models import music_transformer
from regard.tasks.music import Config, Options, build
from regard.tasks.music import crops as music_crops
from regard.tasks.music.crops import Crop, CropSpec, sample_visibility, visible_tokens
from regard.tasks.music.metrics import visible_voices

SPEC = CropSpec(
    length=32, bar=8, batch_size=3, transpose=4, tempo=0.1, conditions=("key", "mode"), condition_dropout=0.5
)

crops_strategy = st.builds(
    Crop,
    piece=st.integers(0, 10**6),
    start=st.integers(0, music_crops.MAX_STARTS - 1),
    shift=st.integers(-100, 100),
    tempo=st.integers(0, music_crops.TEMPO_STEPS - 1),
    dropped_conditions=st.integers(0, 15),
)


@given(crops_strategy)
def test_an_example_id_encodes_its_crop(crop):
    example_id = music_crops.pack(crop)
    assert 0 <= example_id < 2**63
    assert music_crops.unpack(example_id) == crop


@given(st.lists(st.integers(1, 150), min_size=1, max_size=8), st.integers(0, 9))
def test_every_token_is_in_a_crop(lengths, epoch):
    ranges = [(-2, 3)] * len(lengths)
    batches = music_crops.crop_batches(lengths, ranges, spec=SPEC, seed=1, epoch=epoch)
    assert all(1 <= len(batch) <= SPEC.batch_size for batch in batches)
    is_covered = [np.zeros(length, dtype=bool) for length in lengths]
    for batch in batches:
        for example_id in batch:
            crop = music_crops.unpack(int(example_id))
            assert crop.start % SPEC.bar == 0
            assert crop.start < lengths[crop.piece]
            assert -2 <= crop.shift <= 3
            is_covered[crop.piece][crop.start : crop.start + SPEC.length] = True
    assert all(row.all() for row in is_covered)


def test_batches_depend_on_seed_and_epoch_only():
    lengths, ranges = [100, 70, 20], [(-9, 9)] * 3
    first, same, later, reseeded = (
        [batch.tolist() for batch in music_crops.crop_batches(lengths, ranges, spec=SPEC, seed=seed, epoch=epoch)]
        for seed, epoch in ((1, 0), (1, 0), (1, 1), (2, 0))
    )
    assert first == same
    assert first != later
    assert first != reseeded


def test_augmentation_follows_the_settings():
    plain = SPEC._replace(transpose=0, tempo=False, condition_dropout=0.0)
    unchanged = [
        music_crops.unpack(int(n))
        for b in music_crops.crop_batches([300], [(-9, 9)], spec=plain, seed=1, epoch=0)
        for n in b
    ]
    assert {(crop.shift, crop.tempo, crop.dropped_conditions) for crop in unchanged} == {
        (0, music_crops.TEMPO_STEPS // 2, 0)
    }
    augmented = [
        music_crops.unpack(int(n))
        for b in music_crops.crop_batches([900], [(-9, 9)], spec=SPEC, seed=1, epoch=0)
        for n in b
    ]
    assert {crop.shift for crop in augmented} > {-4, 4}
    assert max(abs(crop.shift) for crop in augmented) == 4
    assert {crop.dropped_conditions for crop in augmented} == {0, 1, 2, 3}


def test_tempi_are_centered_on_the_original():
    factors = [music_crops.tempo_factor(step, 0.1) for step in range(music_crops.TEMPO_STEPS)]
    assert factors == pytest.approx([0.9, 0.95, 1.0, 1.05, 1.1])


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    path = tmp_path_factory.mktemp("visible") / "set.json"
    piece = [[72 + i % 5, 65, 57, 48] for i in range(40)]
    path.write_text(json.dumps({name: [piece] for name in ("train", "valid", "test")}))
    return build(Config(path=path, crop=128, window=128, max_length=256, visible_prob=1.0))


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    return music_transformer.build(replace(music_transformer.TINY, bar=16, dropout=0.0), task.spec)


def test_voices_or_all_but_a_gap_are_visible():
    random = np.random.default_rng(0)
    masks = [sample_visibility(40, random, voices=4, bar=16) for _ in range(300)]
    voices = [mask for mask in masks if (mask == mask[:1]).all()]
    assert 100 < len(voices) < 250 and sum(mask[0].tolist() == [True, False, False, False] for mask in voices) > 50
    assert not any(mask.all() for mask in masks)
    labels = np.array([7, 8, 9, 10, 3])
    assert all(visible_tokens(labels, random, voices=4, bar=16)[-1] == 0 for _ in range(20))


def test_fixed_tokens_are_not_counted(task, model):
    batch = task.collate(task.epoch_batches(0, 1)[0])
    assert isinstance(batch.source, MusicCondition)
    fixed, labels = batch.source.fixed_tokens.tokens, batch.target.tokens[:, 1:]
    assert ((fixed == 0) | (fixed == labels)).all() and (fixed > 0).any()
    assert task.loss(model, batch).count == int(((labels != 0) & (fixed == 0)).sum())
    loss = task.loss(model, batch)
    loss.total.backward()
    assert all(weight.grad is not None for weight in model.sight.parameters())


def test_the_melody_ahead_changes_the_predictions(task, model):
    row = torch.tensor([[2, *task.encoding.encode(np.array([[72, 65, 57, 48], [74, 65, 57, 48]])).tolist()]])
    condition = visible_voices(row, voices=4)
    assert condition.fixed_tokens.tokens.tolist() == [[row[0, 1], 0, 0, 0, row[0, 5], 0, 0, 0]]
    assert condition.fixed_tokens.lengths.tolist() == [8]
    changed_row = row.clone()
    changed_row[0, 5] += 2
    model.eval()
    with torch.no_grad():
        logits, changed, unconditional = (
            model(row[:, :4], model.start(source))[0]
            for source in (condition, visible_voices(changed_row, voices=4), task.classes.encode_request([]))
        )
        no_tokens = condition.fixed_tokens._replace(tokens=torch.zeros_like(condition.fixed_tokens.tokens))
        empty = condition._replace(fixed_tokens=no_tokens)
        torch.testing.assert_close(model(row[:, :4], model.start(empty))[0], unconditional)
        all_at_once, _ = model(row[:, :-1], model.start(condition))
        state, parts = model.start(condition), []
        for position in range(8):
            part, state = model(row[:, position : position + 1], state)
            parts.append(part)
    assert not torch.allclose(logits, changed) and not torch.allclose(logits, unconditional)
    torch.testing.assert_close(torch.cat(parts, dim=1), all_at_once, atol=1e-5, rtol=1e-4)


def test_fixed_notes_have_as_much_weight_as_their_position(task):
    """Notes have unit variance, like voices and beats: with a tenth of that, lookahead was not learned at all."""
    torch.manual_seed(0)
    wide = music_transformer.build(music_transformer.Config(bar=16), task.spec).eval()
    first, second = (
        visible_voices(torch.tensor([[2, *([pitch, 0, 0, 0] * 16)]]), voices=4).fixed_tokens for pitch in (20, 30)
    )
    with torch.no_grad():
        features, changed = wide.sight(first), wide.sight(second)
    melody = slice(None, None, 4)  # the positions of the melody
    assert (features - changed)[:, melody].norm() > 0.5 * features[:, melody].norm()


def test_melodies_are_harmonized_with_lookahead(task, model, tmp_path):
    path = tmp_path / "melody.mid"
    path.write_bytes(midi.render([Note(i * 0.5, i * 0.5 + 0.5, 70 + i) for i in range(18)]))  # longer than the context
    (answer,) = task.predict(model, [None], Options(harmonise=path), strategy.build("sample"))[0]
    assert [note.pitch for note in answer.notes if note.voice == 0] == [70 + i for i in range(18)]
    scores = task.lower_voice_nats(model, "valid")
    names = [f"nats_{voice}{given}" for voice in ("alto", "tenor", "bass") for given in ("", "_others_in_sight")]
    assert set(scores) == {"nats_lower_voices", "nats_lower_voices_tune_in_sight", *names}
    assert scores["nats_lower_voices"] == pytest.approx(np.mean([scores[name] for name in names[::2]]))
