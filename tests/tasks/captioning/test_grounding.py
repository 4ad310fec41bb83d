"""Where a captioner looked, and whether that was right."""

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
from regard.tasks._shared.image_inputs import to_tensor
from regard.tasks.captioning import grounding

SIDE = 48


@pytest.fixture(scope="module")
def part():
    return dataset.from_scenes(scenes.generate("train", 12, side=SIDE, things=(1, 3)), "en")


@pytest.fixture(scope="module")
def words(part):
    texts = [text for each in part.captions for text in each]
    return grounding.CaptionVocab(tokenizer.train(texts, level="word", size=100), SpecialTokens())


def model_of(words, **change):
    torch.manual_seed(0)
    sizes = CaptioningSpec(SIDE, SIDE, 3, words.vocabulary.size, max_length=30)
    return captioner.build(replace(captioner.TINY, stride=8, **change), sizes)


def test_looking_where_the_thing_is_counts(part, words, monkeypatch):
    """A model that looks at the middle of each word's region is right, one that looks into a corner is not."""
    model = model_of(words)
    height, width = grounding.grid_size(model)
    assert (height, width) == (6, 6)
    said = [words_of for each in part.regions for words_of in each]

    def at(place):
        turn = iter(said)

        def look(model, images, captions, *, pad):
            looked = torch.zeros(*captions[:, 1:].shape, height * width)
            for row in range(len(captions)):
                for number, word in enumerate(next(turn)):
                    looked[row, number, place(word.box)] = 1.0
            return grounding.GridAttention(looked, torch.arange(len(captions)).float())

        return look

    def middle(box):
        return min(
            range(36),
            key=lambda cell: (
                abs(sum(grounding.cell_box(cell, 6, 6)[::2]) - box[0] - box[2])
                + abs(sum(grounding.cell_box(cell, 6, 6)[1::2]) - box[1] - box[3])
            ),
        )

    monkeypatch.setattr(grounding, "look", at(middle))
    assert grounding.pointing_accuracy(model, part, words, image_encoder=to_tensor) > 95
    monkeypatch.setattr(grounding, "look", at(lambda box: 0 if box[0] + box[1] > 1 else 35))
    assert grounding.pointing_accuracy(model, part, words, image_encoder=to_tensor) < 30


@pytest.mark.parametrize("change", [{}, {"attention": "hard"}, {"decoder": "transformer"}], ids=str)
def test_every_word_has_weights_over_all_cells(part, words, change):
    model, images = model_of(words, **change).eval(), to_tensor(part.images(np.arange(2)))
    captions = torch.tensor([[2, 5, 6, 7, 3], [2, 5, 3, 0, 0]])
    looked = grounding.attention_over_grid(model, images, captions, pad=0)
    assert looked.weights.shape == (2, 4, 36)
    assert torch.allclose(looked.weights.sum(dim=-1), torch.ones(2, 4), atol=1e-5)
    losses = model.losses(images, captions, pad=0)
    assert looked.scores.sum().item() == pytest.approx(-losses["words"].item(), rel=1e-4)


def test_a_model_without_attention_points_at_nothing(part, words):
    assert grounding.pointing_accuracy(model_of(words, attention="none"), part, words, image_encoder=to_tensor) is None


def test_cells_and_parts_cover_the_image():
    boxes = [grounding.cell_box(place, 2, 3) for place in range(6)]
    assert boxes[0] == (0, 0, 1 / 3, 0.5) and boxes[-1] == (2 / 3, 0.5, 1, 1)
    assert len(grounding.occlusion_boxes(8, 8)) == 16 and len(grounding.occlusion_boxes(2, 9)) == 8


def test_a_covered_region_is_grey_and_the_rest_as_it_was():
    image = np.zeros((4, 8, 3), np.uint8)
    changed = grounding.occlude(image, (0.5, 0.0, 1.0, 0.5))
    assert (changed[:2, 4:] == grounding.GREY).all() and changed.sum() == 2 * 4 * 3 * grounding.GREY
    assert image.sum() == 0
    assert grounding.occlude(image, (0.1, 0.1, 0.11, 0.11)).sum() > 0  # never nothing


def test_taking_cells_away_changes_what_is_said(part, words):
    model = model_of(words).eval()
    logits = grounding.ablate_cells(model, part.pixels[0], torch.tensor([[2, 5, 6, 3]]), image_encoder=to_tensor)
    assert logits.shape == (36, 3, words.vocabulary.size) and logits.std(dim=0).max() > 0


@pytest.mark.parametrize("text", ["1,2", "a,b,c,d", "0.5,0,0.2,1", "0,0,1,2"])
def test_a_region_must_be_a_box(text):
    with pytest.raises(
        ConfigError, match=rf"cover='{text}': give left,top,right,bottom as shares of the image, as 0,0,"
    ):
        grounding.parse_box(text)
    assert grounding.parse_box("0,0.25,0.5,1") == (0, 0.25, 0.5, 1)
