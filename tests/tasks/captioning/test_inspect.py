"""A caption as it is shown."""

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


def test_words_and_cells_are_axes_and_the_model_runs_again():
    words = CaptionVocab(tokenizer.train(["a red circle", "a blue square"], level="word", size=50), SpecialTokens())
    torch.manual_seed(0)
    model = captioner.build(captioner.TINY, CaptioningSpec(8, 12, 3, words.vocabulary.vocab_size, max_length=9)).eval()
    row = tuple(words.vocabulary.encode(["a red square"])[0])
    given = InputImage("x.png", np.zeros((8, 12, 3), np.uint8), ())
    again = (inspect.OcclusionResult((0.0, 0.0, 0.5, 1.0), "a blue circle"),)
    told = inspect.CaptionedImage(given, [Hypothesis(row, -1.0, -1.0)], 0.1, again, RawPixels())
    with torch.no_grad():
        shown = inspect.build_inspectable(model, told, words)
        assert shown.axes["words"].labels == ("a", "red", "square", "<end>")
        assert len(shown.axes["cells"].items) == 2 * 3 and shown.axes["cells"].items[5].box == (2 / 3, 0.5, 1.0, 1.0)
        logits = shown.replay()
        assert logits.shape == (4, words.vocabulary.vocab_size) and shown.predicted_ids.tolist() == [
            *row,
            SpecialTokens().eos,
        ]
        assert shown.ablations["cells"]().shape == (6, 4, words.vocabulary.vocab_size)
        assert shown.ablations["read"]().shape == (4, 4, words.vocabulary.vocab_size)
    assert shown.outputs[0].text == "a red square" and len(shown.outputs[0].tokens) == 4
    assert shown.views == ("captions",)
    extra = shown.extra["captions"]
    assert len(extra["pixels"]) == 96 and extra["again"] == [{"box": [0.0, 0.0, 0.5, 1.0], "text": "a blue circle"}]
