"""The two figures, checked against what they claim to be."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from subjects import MODELS

from regard.core.protocols import Padded
from regard.inspection.example import Pair
from regard.inspection.honesty import Evidence, evidence, figures


@pytest.fixture(params=MODELS)
def case(request, subject, task, sentence):
    model = subject(request.param).model
    source = task.encode_sources([sentence])
    target = torch.tensor([[task.marks.start, 7, 9, 11, task.marks.end]])
    return model, Pair(source, target), task.marks


def test_removal_is_what_happens_without_the_token(case):
    model, pair, marks = case
    found = evidence(model, pair, marks)
    read = pair.target[:, :-1]
    with torch.no_grad():
        usual = model(read, model.start(pair.source))[0].argmax(-1)[0]
        for token in range(pair.source.tokens.shape[1]):
            kept = [i for i in range(pair.source.tokens.shape[1]) if i != token]
            fewer = Padded(pair.source.tokens[:, kept], pair.source.lengths - 1)
            now = model(read, model.start(fewer))[0].argmax(-1)[0]
            assert ((now != usual).numpy() == found.source_removal[:, token]).all()


def test_no_output_depends_on_a_token_read_later(case):
    found = evidence(*case)
    later = np.triu_indices(4, 1)
    assert (found.read_gradient[later] == 0).all()
    assert (found.read_removal[later] == 0).all()
    assert (found.source_gradient > 0).any()


def test_looking_for_evidence_leaves_no_gradients_and_no_hooks(case):
    model, pair, marks = case
    evidence(model, pair, marks)
    assert all(weight.grad is None for weight in model.parameters())
    assert not any(module._forward_hooks for module in model.modules())


def test_gradient_times_input_is_the_slope_along_the_input(subject, task, sentence):
    """Scaling a token's embedding by 1 + e changes the log probability by e times the (signed) product."""
    model = subject("transformer").model.double()
    source = task.encode_sources([sentence])
    pair = Pair(source, torch.tensor([[task.marks.start, 7, task.marks.end]]))
    found = evidence(model, pair, task.marks)
    table = model.encoder.embedding.table

    def log_p(scale):
        def hook(module, inputs, output):
            changed = output.clone()
            if torch.equal(inputs[0], source.tokens):
                changed[:, 2] *= scale
            return changed

        handle = table.register_forward_hook(hook)
        with torch.no_grad():
            logits, _ = model(pair.target[:, :-1], model.start(source))
        handle.remove()
        return logits.log_softmax(-1)[0, 0, 7].item()

    slope = (log_p(1 + 1e-5) - log_p(1 - 1e-5)) / 2e-5
    assert abs(abs(slope) - found.source_gradient[0, 2]) < 1e-6


def test_a_map_that_is_the_gradient_agrees_wholly_and_its_reverse_not_at_all():
    gradient = np.array([[0.1, 0.5, 0.4], [0.7, 0.1, 0.2]])
    removal = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    found = Evidence(gradient, np.zeros((2, 2)), removal, np.zeros((2, 2)))
    weights = np.stack([gradient, 1 - gradient]).astype(np.float32)
    honest = figures("cross", weights, found)
    assert honest.gradient == pytest.approx((1.0, -1.0))
    assert honest.removal == (0.5, 0.0)


def test_rows_too_short_to_rank_have_no_figure():
    found = Evidence(np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)), np.ones((2, 2)))
    honest = figures("decoder", np.full((1, 2, 2), 0.5, np.float32), found)
    assert honest.gradient == (None,) and honest.removal == (1.0,)


def test_an_encoder_map_is_compared_with_what_all_outputs_owe_each_token():
    gradient = np.array([[0.1, 0.2, 0.9], [0.0, 0.3, 0.5]])
    removal = np.array([[0.0, 0.0, 1.0], [0.0, 0.0, 0.0]])
    found = Evidence(gradient, np.zeros((2, 2)), removal, np.zeros((2, 2)))
    to_last = np.tile(np.array([0.1, 0.2, 0.7], np.float32), (1, 3, 1))
    honest = figures("encoder", to_last, found)
    assert honest.gradient == pytest.approx((1.0,)) and honest.removal == (1.0,)
