import pytest
import torch
from torch.nn.functional import logsigmoid

from regard.core.data_specs import EmbeddingSpec
from regard.core.errors import ConfigError
from regard.models import skipgram

SIZES = EmbeddingSpec(vocab_size=20)


def given(rows=5, length=9, drawn=4, seed=0):
    random = torch.Generator().manual_seed(seed)
    words = torch.randint(4, 20, (rows, length), generator=random)
    reach = torch.randint(1, 4, (rows, length), generator=random)
    reach[1, 6:] = 0  # padding
    return words, reach, torch.randint(4, 20, (rows, drawn), generator=random)


def plainly(model, words, reach, others, negatives):
    """The definition, pair by pair."""
    total, count = torch.zeros(()), 0
    for row in range(len(words)):
        for i in range(words.shape[1]):
            for j in range(words.shape[1]):
                if i != j and abs(i - j) <= reach[row, i] and reach[row, j] > 0:
                    vector = model.vectors.weight[words[row, i]]
                    total = total - logsigmoid(vector @ model.contexts.weight[words[row, j]])
                    far = logsigmoid(-(model.contexts.weight[others[row]] @ vector)).mean()
                    total, count = total - negatives * far, count + 1
    return total, count


@pytest.fixture
def model():
    torch.manual_seed(0)
    made = skipgram.build(skipgram.TINY, SIZES)
    torch.nn.init.normal_(made.vectors.weight)
    torch.nn.init.normal_(made.contexts.weight)
    return made


@pytest.mark.parametrize("chunk", [1, 2**16])
def test_loss_and_gradient_are_those_of_single_pairs(model, monkeypatch, chunk):
    monkeypatch.setattr(skipgram, "CHUNK", chunk)
    words, reach, others = given()
    total, count = model.loss(words, reach, others, negatives=5)
    expected, pairs = plainly(model, words, reach, others, 5)
    assert count == pairs
    torch.testing.assert_close(total, expected)
    parameters = list(model.parameters())
    for fast, slow in zip(
        torch.autograd.grad(3 * total, parameters), torch.autograd.grad(3 * expected, parameters), strict=True
    ):
        torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-4)


def test_padding_changes_nothing(model):
    words, reach, others = given()
    wider = torch.nn.functional.pad(words, (0, 3)), torch.nn.functional.pad(reach, (0, 3)), others
    torch.testing.assert_close(model.loss(*wider, negatives=5), model.loss(words, reach, others, negatives=5))


def test_large_scores_stay_finite(model):
    with torch.no_grad():
        model.vectors.weight *= 1000
    total, _ = model.loss(*given(), negatives=5)
    total.backward()
    assert total.isfinite() and model.vectors.weight.grad.isfinite().all()


def test_words_that_stand_together_come_together():
    torch.manual_seed(0)
    model = skipgram.build(skipgram.TINY, SIZES)
    pairs = torch.tensor([[5, 6], [7, 8], [9, 10], [11, 12]])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        words = pairs[torch.randint(4, (16, 1)).expand(16, 4).reshape(-1)].view(16, 8)
        total, count = model.loss(words, torch.full_like(words, 2), torch.randint(5, 13, (16, 4)), negatives_per_pair=5)
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
    unit = torch.nn.functional.normalize(model(torch.arange(5, 13)), dim=-1)
    nearest = (unit @ unit.mT).fill_diagonal_(-1).argmax(dim=1)
    assert nearest.tolist() == [1, 0, 3, 2, 5, 4, 7, 6]


def test_a_width_below_one_is_refused():
    with pytest.raises(ConfigError, match="dim=0 must be at least 1"):
        skipgram.Config(dim=0)
