"""What is shown beforehand: voices or all but a gap, never the end; it is an input, and does not count in the loss."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError
from regard.core.protocols.music import MusicCondition
from regard.data.music import midi
from regard.data.music.notes import Note
from regard.decoding import strategy
from regard.models import music_transformer
from regard.tasks.music import Config, Options, build
from regard.tasks.music.crops import melody_condition, sample_visibility, visible_tokens


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    path = tmp_path_factory.mktemp("shown") / "set.json"
    piece = [[72 + i % 5, 65, 57, 48] for i in range(40)]
    path.write_text(json.dumps({name: [piece] for name in ("train", "valid", "test")}))
    return build(Config(path=path, crop=128, window=128, max_length=256, visible_prob=1.0))


@pytest.fixture(scope="module")
def model(task):
    torch.manual_seed(0)
    return music_transformer.build(replace(music_transformer.TINY, bar=16, dropout=0.0), task.sizes)


def test_voices_or_all_but_a_gap_are_shown():
    random = np.random.default_rng(0)
    drawn = [sample_visibility(40, random, voices=4, bar=16) for _ in range(300)]
    whole = [shown for shown in drawn if (shown == shown[:1]).all()]
    assert 100 < len(whole) < 250 and sum(shown[0].tolist() == [True, False, False, False] for shown in whole) > 50
    assert all(shown.sum() > 0 or not shown.any() for shown in drawn) and not any(shown.all() for shown in drawn)
    labels = np.array([7, 8, 9, 10, 3])
    assert all(visible_tokens(labels, random, voices=4, bar=16)[-1] == 0 for _ in range(20))


def test_what_is_shown_is_not_counted(task, model):
    batch = task.batch(task.plan(0, 1)[0])
    assert isinstance(batch.source, MusicCondition)
    given, labels = batch.source.fixed_tokens.tokens, batch.target.tokens[:, 1:]
    assert ((given == 0) | (given == labels)).all() and (given > 0).any()
    assert task.loss(model, batch).count == int(((labels != 0) & (given == 0)).sum())
    loss = task.loss(model, batch)
    loss.total.backward()
    assert all(weight.grad is not None for weight in model.sight.parameters())


def test_the_coming_tune_changes_what_is_expected_now(task, model):
    row = torch.tensor([[2, *task.encoding.encode(np.array([[72, 65, 57, 48], [74, 65, 57, 48]])).tolist()]])
    seen = melody_condition(row, voices=4)
    assert seen.fixed_tokens.tokens.tolist() == [
        [row[0, 1], 0, 0, 0, row[0, 5], 0, 0, 0]
    ] and seen.fixed_tokens.lengths.tolist() == [8]
    other = row.clone()
    other[0, 5] += 2
    model.eval()
    with torch.no_grad():
        logits, changed, blind = (
            model(row[:, :4], model.start(source))[0]
            for source in (seen, melody_condition(other, voices=4), task.classes.ask([]))
        )
        nothing = seen._replace(given=seen.fixed_tokens._replace(tokens=torch.zeros_like(seen.fixed_tokens.tokens)))
        torch.testing.assert_close(model(row[:, :4], model.start(nothing))[0], blind)
        whole, _ = model(row[:, :-1], model.start(seen))
        state, parts = model.start(seen), []
        for place in range(8):
            part, state = model(row[:, place : place + 1], state)
            parts.append(part)
    assert not torch.allclose(logits, changed) and not torch.allclose(logits, blind)
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, atol=1e-5, rtol=1e-4)


def test_what_is_given_counts_as_much_as_where(task):
    """Notes of unit variance, as voices and beats have it: with a tenth of that, sight was not learned at all."""
    torch.manual_seed(0)
    wide = music_transformer.build(music_transformer.Config(bar=16), task.sizes).eval()
    one, other = (
        melody_condition(torch.tensor([[2, *([pitch, 0, 0, 0] * 16)]]), voices=4).fixed_tokens for pitch in (20, 30)
    )
    with torch.no_grad():
        seen, changed = wide.sight(one), wide.sight(other)
    tune = slice(None, None, 4)  # the places of the tune itself
    assert (seen - changed)[:, tune].norm() > 0.5 * seen[:, tune].norm()


def test_tunes_are_harmonised_with_sight(task, model, tmp_path):
    path = tmp_path / "tune.mid"
    path.write_bytes(midi.render([Note(i * 0.5, i * 0.5 + 0.5, 70 + i) for i in range(18)]))  # beyond the memory
    (answer,) = task.answer(model, [None], Options(harmonise=path), strategy.build("sample"))[0]
    assert [note.pitch for note in answer.notes if note.voice == 0] == [70 + i for i in range(18)]
    assert set(task.lower_nats(model, "valid")) == {"nats_lower_voices", "nats_lower_voices_tune_in_sight"}


def test_settings_that_cannot_be():
    with pytest.raises(ConfigError, match=r"^tempo=0.0, drop=0.2, shown=2: shares lie in 0 … 1$"):
        Config(visible_prob=2)
    with pytest.raises(ConfigError, match=r"^shown=0.5: only the grid has voices and bars to show; use shown=0$"):
        Config(visible_prob=0.5, encoding="events")
