"""Attention of a captioner over the image grid, and its agreement with the true regions of words."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.core.data_specs import CaptioningSpec, SpecialTokens
from regard.core.errors import ConfigError
from regard.data.builtin import scenes
from regard.data.captions import dataset
from regard.data.text import tokenizer
from regard.models import captioner
from regard.tasks._shared.image_inputs import parse_box, to_tensor
from regard.tasks.captioning import grounding

SIDE = 48


@pytest.fixture(scope="module")
def split():
    return dataset.from_scenes(scenes.generate("train", 12, side=SIDE, things=(1, 3)), "en")


@pytest.fixture(scope="module")
def vocab(split):
    texts = [text for captions in split.captions for text in captions]
    return grounding.CaptionVocab(tokenizer.train(texts, level="word", size=100), SpecialTokens())


def build_model(vocab, **change):
    torch.manual_seed(0)
    spec = CaptioningSpec(SIDE, SIDE, 3, vocab.vocabulary.vocab_size, max_length=30)
    return captioner.build(replace(captioner.TINY, stride=8, **change), spec)


def center_cell(box):
    """Return the index of the cell of a 6x6 grid whose center is nearest to the center of the box."""

    def distance(index):
        left, top, right, bottom = grounding.cell_box(index, 6, 6)
        return abs(left + right - box[0] - box[2]) + abs(top + bottom - box[1] - box[3])

    return min(range(36), key=distance)


def far_corner(box):
    return 0 if box[0] + box[1] > 1 else 35


def test_attention_in_the_region_of_the_word_counts(split, vocab, monkeypatch):
    """A model that attends to the center of each word's region is accurate, one that attends to a corner is not."""
    model = build_model(vocab)
    assert grounding.grid_size(model) == (6, 6)

    def attend(cell_of):
        captions_words = iter([words for regions in split.regions for words in regions])

        def attention_over_grid(model, images, captions, *, pad):
            weights = torch.zeros(*captions[:, 1:].shape, 36)
            for row in range(len(captions)):
                for index, word in enumerate(next(captions_words)):
                    weights[row, index, cell_of(word.box)] = 1.0
            return grounding.GridAttention(weights, torch.arange(len(captions)).float())

        return attention_over_grid

    monkeypatch.setattr(grounding, "attention_over_grid", attend(center_cell))
    assert grounding.pointing_accuracy(model, split, vocab, image_encoder=to_tensor) > 0.95
    monkeypatch.setattr(grounding, "attention_over_grid", attend(far_corner))
    assert grounding.pointing_accuracy(model, split, vocab, image_encoder=to_tensor) < 0.3


@pytest.mark.parametrize("change", [{}, {"attention": "hard"}, {"decoder": "transformer"}], ids=str)
def test_every_word_has_weights_over_all_cells(split, vocab, change):
    model, images = build_model(vocab, **change).eval(), to_tensor(split.images(np.arange(2)))
    captions = torch.tensor([[2, 5, 6, 7, 3], [2, 5, 3, 0, 0]])
    attention = grounding.attention_over_grid(model, images, captions, pad=0)
    assert attention.weights.shape == (2, 4, 36)
    assert torch.allclose(attention.weights.sum(dim=-1), torch.ones(2, 4), atol=1e-5)
    losses = model.losses(images, captions, pad=0)
    assert attention.scores.sum().item() == pytest.approx(-losses["words"].item(), rel=1e-4)


def test_a_model_without_attention_has_no_pointing_accuracy(split, vocab):
    model = build_model(vocab, attention="none")
    assert grounding.pointing_accuracy(model, split, vocab, image_encoder=to_tensor) is None


def test_boxes_cover_the_image():
    boxes = [grounding.cell_box(index, 2, 3) for index in range(6)]
    assert boxes[0] == (0, 0, 1 / 3, 0.5) and boxes[-1] == (2 / 3, 0.5, 1, 1)
    assert len(grounding.occlusion_boxes(8, 8)) == 16 and len(grounding.occlusion_boxes(2, 9)) == 8


def test_an_occluded_region_is_grey_and_the_rest_unchanged():
    image = np.zeros((4, 8, 3), np.uint8)
    changed = grounding.occlude(image, (0.5, 0.0, 1.0, 0.5))
    assert (changed[:2, 4:] == grounding.GREY).all() and changed.sum() == 2 * 4 * 3 * grounding.GREY
    assert image.sum() == 0
    assert grounding.occlude(image, (0.1, 0.1, 0.11, 0.11)).sum() > 0  # at least one pixel


def test_ablated_cells_change_the_logits(split, vocab):
    model = build_model(vocab).eval()
    logits = grounding.ablate_cells(model, split.pixels[0], torch.tensor([[2, 5, 6, 3]]), image_encoder=to_tensor)
    assert logits.shape == (36, 3, vocab.vocabulary.vocab_size) and logits.std(dim=0).max() > 0


@pytest.mark.parametrize("text", ["1,2", "a,b,c,d", "0.5,0,0.2,1", "0,0,1,2"])
def test_a_region_must_be_a_box(text):
    message = rf"^occlude='{text}': give left,top,right,bottom as fractions of the image, e\.g\. 0,0,"
    with pytest.raises(ConfigError, match=message):
        parse_box(text, option="occlude")


def test_a_region_is_parsed():
    assert parse_box("0,0.25,0.5,1", option="occlude") == (0, 0.25, 0.5, 1)
