"""Transformer decoder over the grid cells of an image."""

from dataclasses import replace

import torch

from regard.attention.record import record
from regard.core.data_specs import CaptioningSpec
from regard.decoding.strategy import optimize_for_decoding
from regard.models import captioner

SIZES = CaptioningSpec(height=8, width=8, channels=3, vocab_size=11, max_length=8)


def test_every_word_attends_to_all_cells_and_to_earlier_words():
    model = captioner.build(replace(captioner.TINY, decoder="transformer"), SIZES).eval()
    images, captions = torch.randn(2, 3, 8, 8), torch.randint(4, 11, (4, 5))
    with record(model) as maps:
        parts = model.losses(images, captions, pad=0)
    shapes = {recorded.keys: recorded.weights.shape for recorded in maps.values()}
    assert shapes == {"read": (4, 2, 4, 4), "cells": (4, 2, 4, 4)} and list(parts) == ["words"]


def test_the_optimized_model_gives_the_same_logits():
    model = captioner.build(replace(captioner.TINY, decoder="transformer"), SIZES).eval()
    images, tokens = torch.randn(2, 3, 8, 8), torch.randint(4, 11, (2, 5))
    with torch.no_grad():
        fast = optimize_for_decoding(model)
        assert torch.allclose(fast(tokens, fast.start(images))[0], model(tokens, model.start(images))[0], atol=2e-4)
