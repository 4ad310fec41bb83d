"""A new score that only implements `forward` works with masks, chunks and gradients."""

from __future__ import annotations

import torch

from regard.attention.attend import Attend
from regard.attention.functional import attend
from regard.attention.kernels import chunked
from regard.attention.masks import Mask
from regard.attention.score import ScoreFunction


class Distance(ScoreFunction):
    """-|q - k|², which is not given as an inner product."""

    def forward(self, q, k):
        return -(q[..., :, None, :] - k[..., None, :, :]).square().sum(dim=-1)

    @property
    def elements_per_pair(self):
        return 4


def test_a_minimal_score(monkeypatch):
    monkeypatch.setattr(chunked, "CHUNK_ELEMENTS", 100)
    score, q, k = Distance(), torch.randn(1, 2, 5, 4, requires_grad=True), torch.randn(1, 2, 6, 4)
    assert score.project_keys(k) is k and score.as_dot(q, k) is None and (score.dim, score.key_dim) == (None, None)
    output = Attend(score)(q, k, k, Mask.causal())
    torch.testing.assert_close(output, Attend(score).weigh(q, k, Mask.causal()) @ k)
    assert torch.autograd.grad(output.sum(), q)[0].isfinite().all()
    torch.testing.assert_close(attend(q, k, k, score=score, mask=Mask.causal()), output)


def test_the_default_is_one_element_per_pair():
    assert ScoreFunction().elements_per_pair == 1
