"""Evaluation mode as a context manager."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


@contextmanager
def eval_mode(model: Any) -> Iterator[torch.device]:
    """Put the model into evaluation mode without gradients and yield its device; restore the mode afterwards."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield next(model.parameters()).device
    finally:
        model.train(was_training)
