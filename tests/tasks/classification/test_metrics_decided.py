import torch
from torch import nn

from regard.data.builtin import reviews
from regard.data.text import document_corpus
from regard.models import flat_attention, hierarchical
from regard.tasks import classification
from regard.tasks.classification import metrics


class Blind(nn.Module):
    """No attention at all."""


def test_shares_lie_between_nothing_and_everything():
    task = classification.build(classification.TINY)
    made = reviews.generate("valid", 40, language="en", seed=1)
    config = classification.TINY
    cuts = document_corpus.tokenize_documents(
        [review.text for review in made], task.tokenizer, splitter=config.splitter, limits=config.limits
    )
    torch.manual_seed(0)
    for module, names in (
        (hierarchical, {"deciding_words", "deciding_sentence"}),
        (flat_attention, {"deciding_words"}),
    ):
        model = module.build(module.TINY, task.spec)
        found = [
            metrics.attention_on_evidence(model, made, cuts, tokenizer=task.tokenizer, budget=budget)
            for budget in (200, 9000)
        ]
        assert set(found[0]) == names and all(0 <= value <= 1 for value in found[0].values())
        for name in names:  # batches do not matter
            assert abs(found[0][name] - found[1][name]) < 1e-4
    assert metrics.attention_on_evidence(Blind(), made, cuts, tokenizer=task.tokenizer, budget=100) == {}
