"""Built-in data with few held-out examples: the evaluation of 500 takes most of the time of a short training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from regard.data.text import labelled_sources, pair_sources

COUNT = 40  # examples in each of valid and test; runs store 32 of them for the comparison of engines


@contextmanager
def few_held_out_examples() -> Iterator[None]:
    """Use COUNT built-in examples in each of valid and test."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (pair_sources, labelled_sources):
            patch.setattr(module, "HELD_OUT_EXAMPLES", COUNT)
        yield
