"""Inspection of a caption."""

import numpy as np
import torch

from regard.core.data_specs import CaptioningSpec, SpecialTokens
from regard.core.protocols import Hypothesis
from regard.data.text import tokenizer
from regard.models import captioner
from regard.tasks._shared.image_inputs import InputImage
from regard.tasks.captioning import inspect
from regard.tasks.captioning.grounding import CaptionVocab
from regard.tasks.captioning.image_features import RawPixels


def test_words_and_cells_are_axes_and_the_model_is_replayed():
    vocab = CaptionVocab(tokenizer.train(["a red circle", "a blue square"], level="word", size=50), SpecialTokens())
    vocab_size = vocab.vocabulary.vocab_size
    torch.manual_seed(0)
    model = captioner.build(captioner.TINY, CaptioningSpec(8, 12, 3, vocab_size, max_length=9)).eval()
    row = tuple(vocab.vocabulary.encode(["a red square"])[0])
    image = InputImage("x.png", np.zeros((8, 12, 3), np.uint8), ())
    occlusions = (inspect.OcclusionResult((0.0, 0.0, 0.5, 1.0), "a blue circle"),)
    captioned = inspect.CaptionedImage(image, [Hypothesis(row, -1.0, -1.0)], 0.1, occlusions, RawPixels())
    with torch.no_grad():
        inspected = inspect.build_inspectable(model, captioned, vocab, device=torch.device("cpu"))
        assert inspected.axes["words"].labels == ("a", "red", "square", "<end>")
        cells = inspected.axes["cells"].items
        assert len(cells) == 2 * 3 and cells[5].box == (2 / 3, 0.5, 1.0, 1.0)
        assert inspected.replay().shape == (4, vocab_size)
        assert inspected.predicted_ids.tolist() == [*row, SpecialTokens().eos]
        assert inspected.ablations["cells"]().shape == (6, 4, vocab_size)
        assert inspected.ablations["read"]().shape == (4, 4, vocab_size)
    assert inspected.outputs[0].text == "a red square" and len(inspected.outputs[0].tokens) == 4
    assert inspected.views == ("captions",)
    extra = inspected.extra["captions"]
    assert len(extra["pixels"]) == 96 and extra["again"] == [{"box": [0.0, 0.0, 0.5, 1.0], "text": "a blue circle"}]
