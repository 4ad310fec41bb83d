"""The inspection of masked texts agrees with the predictions."""

import torch

from regard.data.text import masking
from regard.tasks.masked_language import fill, inspect

CPU = torch.device("cpu")


@torch.no_grad()
def test_the_inspection_agrees_with_the_predictions(model, tokenizer):
    text = masking.parse_masked_text("the [MASK] sat on the [MASK]", tokenizer)
    inspectable = inspect.build_inspectable(model, text, 3, tokenizer=tokenizer, device=CPU)
    (scores,) = fill.predict_masks(model, [text], tokenizer, CPU)
    assert [output.text for output in inspectable.outputs] == [
        prediction.text for prediction in fill.to_predictions(text, scores, 3, tokenizer)
    ]
    torch.testing.assert_close(inspectable.replay(), scores)
    assert inspectable.predicted_ids.tolist() == scores.argmax(dim=1).tolist()
    assert [
        item.text for item in inspectable.axes["text"].items
    ] == "<start> the [MASK] sat on the [MASK] <end>".split()
    assert inspectable.extra["masked"]["gaps"] == [2, 6] and inspectable.title == "the ___ sat on the ___"
    assert len(inspectable.outputs[0].tokens) == len(inspectable.axes["gaps"].items) == 2
    ablated = inspectable.ablations["text"]()
    assert ablated.shape == (8, *scores.shape)
    torch.testing.assert_close(ablated[2], scores)  # a mask is not ablated
    assert not torch.allclose(ablated[1].exp(), scores.exp())
