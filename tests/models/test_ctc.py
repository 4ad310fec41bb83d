"""CTC: prefix probabilities agree with enumeration, with the training loss, and sum to one."""

from itertools import groupby, product

import pytest
import torch

from regard.core.data_specs import SpeechSpec
from regard.core.protocols import Padded
from regard.core.protocols.speech import SpeechBatch, SpeechFrames
from regard.decoding.strategy import build as build_strategy
from regard.models import ctc

SIZES = SpeechSpec(num_bands=3, vocab_size=7, max_length=8, max_frames=20)
SPECIAL = SIZES.special_tokens


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(2)
    built = ctc.build(ctc.Config(encoder=4, stack=2, pyramid_layers=0, dropout=0.0), SIZES).eval()
    with torch.no_grad():
        built.readout.weight.mul_(4)
    return built


@pytest.fixture(scope="module")
def source():
    torch.manual_seed(3)
    lengths = torch.tensor([10, 7])
    return SpeechFrames(torch.randn(2, 10, 3) * (torch.arange(10) < lengths[:, None])[..., None], lengths)


def collapse(path):
    return tuple(label for label, _ in groupby(path) if label != SPECIAL.pad)


def by_enumeration(log_probs):
    """Return the probability of every transcript, summed over all paths."""
    labels = [token for token in range(SIZES.vocab_size) if token not in (SPECIAL.bos, SPECIAL.eos)]
    totals = {}
    for path in product(labels, repeat=len(log_probs)):
        probability = float(sum(log_probs[t, label] for t, label in enumerate(path)).exp())
        totals[collapse(path)] = totals.get(collapse(path), 0.0) + probability
    return totals


@torch.no_grad()
def test_next_token_probabilities_equal_enumeration(model, source):
    state = model.start(source)
    labels = state.source.value
    for row in range(2):
        totals = by_enumeration(labels.log_probs[row, : int(labels.lengths[row])])
        for prefix in [(), (4,), (4, 4), (5, 6), (6, 5, 4)]:
            logits, _ = model(torch.tensor([[SPECIAL.bos, *prefix]] * 2), state)
            probabilities = logits[row, -1].exp()
            mass = sum(p for transcript, p in totals.items() if transcript[: len(prefix)] == prefix)
            for token in (1, 4, 5, 6):
                longer = (*prefix, token)
                expected = sum(p for transcript, p in totals.items() if transcript[: len(longer)] == longer) / mass
                assert float(probabilities[token]) == pytest.approx(expected, abs=1e-5)
            assert float(probabilities[SPECIAL.eos]) == pytest.approx(totals.get(prefix, 0.0) / mass, abs=1e-5)
            assert float(probabilities.sum()) == pytest.approx(1, abs=1e-5)


@torch.no_grad()
def test_the_training_loss_is_the_teacher_forced_score(model, source):
    target = Padded(torch.tensor([[2, 4, 4, 5, 3], [2, 6, 3, 0, 0]]), torch.tensor([5, 3]))
    logits, _ = model(target.tokens[:, :-1], model.start(source))
    scores = logits.gather(2, target.tokens[:, 1:, None])[..., 0]
    total = -(scores * (target.tokens[:, 1:] != SPECIAL.pad)).sum()
    assert float(model.loss(SpeechBatch(source, target), pad=SPECIAL.pad)) == pytest.approx(float(total), rel=1e-4)


@torch.no_grad()
def test_a_wide_beam_finds_the_best_transcript(model, source):
    state = model.start(source)
    totals = by_enumeration(state.source.value.log_probs[0])
    best = max(totals, key=totals.get)
    beam = build_strategy("beam", beam_width=8, length_penalty=0.0)
    hypotheses = beam(model, state, special_tokens=SPECIAL, limits=torch.tensor([6, 6]))
    assert hypotheses[0][0].tokens == best
    assert hypotheses[0][0].score == pytest.approx(float(torch.tensor(totals[best]).log()), abs=1e-3)


@torch.no_grad()
def test_an_impossible_transcript_has_finite_scores(model, source):
    tokens = torch.tensor([[SPECIAL.bos, *[4] * 7]] * 2)  # equal labels need blanks between them
    logits, _ = model(tokens, model.start(source))
    assert logits.isfinite().all()
