"""Skip-gram: the loss and its gradient equal the definition."""

import pytest
import torch
from torch.nn.functional import logsigmoid

from regard.core.data_specs import EmbeddingSpec
from regard.core.errors import ConfigError
from regard.models import skipgram

SIZES = EmbeddingSpec(vocab_size=20)


def examples(batch_size=5, length=9, num_negatives=4, seed=0):
    random = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, 20, (batch_size, length), generator=random)
    window = torch.randint(1, 4, (batch_size, length), generator=random)
    window[1, 6:] = 0  # padding
    return tokens, window, torch.randint(4, 20, (batch_size, num_negatives), generator=random)


def by_definition(model, tokens, window, negatives, negatives_per_pair):
    """The definition, pair by pair."""
    total, count = torch.zeros(()), 0
    for row in range(len(tokens)):
        for i in range(tokens.shape[1]):
            for j in range(tokens.shape[1]):
                if i != j and abs(i - j) <= window[row, i] and window[row, j] > 0:
                    vector = model.vectors.weight[tokens[row, i]]
                    total = total - logsigmoid(vector @ model.contexts.weight[tokens[row, j]])
                    far = logsigmoid(-(model.contexts.weight[negatives[row]] @ vector)).mean()
                    total, count = total - negatives_per_pair * far, count + 1
    return total, count


@pytest.fixture
def model():
    torch.manual_seed(0)
    model = skipgram.build(skipgram.TINY, SIZES)
    torch.nn.init.normal_(model.vectors.weight)
    torch.nn.init.normal_(model.contexts.weight)
    return model


@pytest.mark.parametrize("chunk", [1, 2**16])
def test_loss_and_gradient_equal_the_definition(model, monkeypatch, chunk):
    monkeypatch.setattr(skipgram, "CHUNK_SCORES", chunk)
    tokens, window, negatives = examples()
    total, count = model.loss(tokens, window, negatives, negatives_per_pair=5)
    expected, pairs = by_definition(model, tokens, window, negatives, 5)
    assert count == pairs
    torch.testing.assert_close(total, expected)
    parameters = list(model.parameters())
    for fast, slow in zip(
        torch.autograd.grad(3 * total, parameters), torch.autograd.grad(3 * expected, parameters), strict=True
    ):
        torch.testing.assert_close(fast, slow, atol=1e-5, rtol=1e-4)


def test_sparse_gradients_equal_the_dense_ones(model):
    sparse = skipgram.build(skipgram.Config(dim=8, sparse=True), SIZES)
    sparse.load_state_dict(model.state_dict())
    for net in (model, sparse):
        net.loss(*examples(), negatives_per_pair=5)[0].mul(3).backward()
    for name, weight in sparse.named_parameters():
        assert weight.grad.is_sparse
        torch.testing.assert_close(weight.grad.to_dense(), model.get_parameter(name).grad)


def test_padding_has_no_effect(model):
    tokens, window, negatives = examples()
    wider = torch.nn.functional.pad(tokens, (0, 3)), torch.nn.functional.pad(window, (0, 3)), negatives
    torch.testing.assert_close(
        model.loss(*wider, negatives_per_pair=5), model.loss(tokens, window, negatives, negatives_per_pair=5)
    )


def test_large_scores_stay_finite(model):
    with torch.no_grad():
        model.vectors.weight *= 1000
    total, _ = model.loss(*examples(), negatives_per_pair=5)
    total.backward()
    assert total.isfinite() and model.vectors.weight.grad.isfinite().all()


def test_neighbouring_words_get_similar_vectors():
    torch.manual_seed(0)
    model = skipgram.build(skipgram.TINY, SIZES)
    pairs = torch.tensor([[5, 6], [7, 8], [9, 10], [11, 12]])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        tokens = pairs[torch.randint(4, (16, 1)).expand(16, 4).reshape(-1)].view(16, 8)
        total, count = model.loss(
            tokens, torch.full_like(tokens, 2), torch.randint(5, 13, (16, 4)), negatives_per_pair=5
        )
        optimizer.zero_grad()
        (total / count).backward()
        optimizer.step()
    unit = torch.nn.functional.normalize(model(torch.arange(5, 13)), dim=-1)
    nearest = (unit @ unit.mT).fill_diagonal_(-1).argmax(dim=1)
    assert nearest.tolist() == [1, 0, 3, 2, 5, 4, 7, 6]


def test_invalid_settings():
    with pytest.raises(ConfigError, match="dim=0 must be at least 1"):
        skipgram.Config(dim=0)
