"""Untrained tiny models and a tokenizer with a mask token."""

import pytest
import torch

from regard.core.data_specs import MaskedLMSpec
from regard.data.text import masking
from regard.data.text import tokenizer as tokenizers
from regard.models import bert, xlnet


@pytest.fixture(scope="module")
def tokenizer():
    return masking.with_mask(tokenizers.train(["the cat sat on the mat and a dog barked"], level="word", size=30))


@pytest.fixture(params=[bert, xlnet], ids=["bert", "xlnet"])
def model(request, tokenizer):
    torch.manual_seed(0)
    changes = {"segments": 0} if request.param is bert else {}
    config = type(request.param.TINY)(**{**vars(request.param.TINY), **changes})
    return request.param.build(
        config, MaskedLMSpec(tokenizer.vocab_size, 16, masking.special_tokens_of(tokenizer))
    ).eval()
