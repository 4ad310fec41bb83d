"""Batched search: batches of any order give hypotheses in input order."""

import numpy as np
import pytest
import torch

from regard.core.data_specs import Seq2SeqSpec, SpecialTokens
from regard.core.protocols import Padded
from regard.decoding.strategy import build
from regard.models import bahdanau
from regard.tasks._shared.batch_search import MAX_HYPOTHESES, SearchBatch, max_batch_size, search_batches

SPEC = Seq2SeqSpec(source_vocab_size=11, target_vocab_size=9, max_length=20)
SOURCES = torch.tensor([[5, 6, 3], [7, 8, 3], [9, 10, 3], [4, 4, 3]])


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return bahdanau.build(bahdanau.TINY, SPEC)


def load_batch(indices, device):
    tokens = SOURCES[indices].to(device)
    size = len(indices)
    return SearchBatch(Padded(tokens, torch.full((size,), 3)), torch.full((size,), 6))


@pytest.mark.parametrize(
    "decoding", [build("greedy"), build("beam", beam_width=3, nbest=2), build("sample", seed=1)], ids=lambda d: d.name
)
def test_hypotheses_do_not_depend_on_the_batches(model, decoding):
    results = [
        search_batches(
            model,
            decoding,
            [np.array(batch) for batch in batches],
            load_batch,
            special_tokens=SpecialTokens(),
            sample_indices=[3, 1, 4, 15],
        )
        for batches in ([[0, 1, 2, 3]], [[3, 0], [2, 1]])
    ]
    tokens = [[[hypothesis.tokens for hypothesis in n_best] for n_best in result] for result in results]
    assert tokens[0] == tokens[1] and all(tokens[0])
    assert model.training  # restored after the search


def test_batches_of_wide_searches_are_smaller():
    assert max_batch_size(build("greedy"), 256) == 256
    assert max_batch_size(build("beam", beam_width=10), 256) == MAX_HYPOTHESES // 10
    assert max_batch_size(build("beam", beam_width=1000), 256) == 1
