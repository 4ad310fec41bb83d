"""A model while it is evaluated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def eval_mode(model: Any) -> Iterator[torch.device]:
    """The model in evaluation mode, without gradients, and as it was afterwards; gives the device it is on."""
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield next(model.parameters()).device
    finally:
        model.train(training)
