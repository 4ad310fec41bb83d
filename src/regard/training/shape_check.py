"""A configuration is not believed before it was compared with the weights: names and shapes are those of the file.

The model is built on torch's device `meta`, which holds shapes and no numbers, and building stops as soon as there is
more of it than the file has. So a config.json that asks for a billion features, or ten million layers, costs nothing.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules import module as hooks

from regard.core.errors import CheckpointError, RegardError

Shapes = Mapping[str, tuple[int, ...]]
_SPARE = 4  # a weight that is tied to another one, or replaced while a model is built, is registered more than once
_FEW = 1000  # parts without weights that any model may have
_TABLES = 2**28  # numbers in tables that are computed and not saved, such as those of positions


class ModelTooLarge(Exception):
    """More is being built than the weights are for."""


def check_shapes(build: Callable[[], nn.Module], shapes: Shapes, *, config: Path, weights: Path) -> None:
    """Refuse a configuration whose model would have other weights than the file, before it takes any memory."""
    try:
        with torch.device("meta"), _bounded(shapes):
            model = build()
    except ModelTooLarge:
        count = sum(math.prod(shape) for shape in shapes.values())
        raise CheckpointError(
            f"{config}: it asks for a larger model than {weights.name} holds ({count:,} numbers in {len(shapes)} "
            "tensors); one of the two belongs to another run"
        ) from None
    except RegardError:
        raise
    except Exception:  # a model that cannot be built without memory is compared after it was built
        return
    check_same_shapes({name: tuple(tensor.shape) for name, tensor in named_weights(model).items()}, shapes, weights)
    tables = sum(buffer.numel() for name, buffer in model.named_buffers() if name not in shapes)
    if tables > _TABLES:
        raise CheckpointError(
            f"{config}: it asks for tables of {tables:,} numbers beside the weights; regard never wrote this"
        )


@contextmanager
def _bounded(shapes: Shapes) -> Iterator[None]:
    """Raises TooLarge in this thread when more weights or modules are made than a model of the file's weights has."""
    weights = _SPARE * len(shapes) + _FEW
    left = {nn.Parameter: weights, nn.Module: 20 * weights}
    thread = threading.get_ident()  # the hooks are torch's own and see what other threads build, too

    def count(kind: type) -> None:
        if threading.get_ident() == thread:
            left[kind] -= 1
            if left[kind] < 0:
                raise ModelTooLarge

    handles = [
        hooks.register_module_parameter_registration_hook(lambda *_: count(nn.Parameter)),
        hooks.register_module_module_registration_hook(lambda *_: count(nn.Module)),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Each parameter and saved buffer under one name, however many names it has."""
    saved = model.state_dict(keep_vars=True)
    named = [*model.named_parameters(), *model.named_buffers()]  # both leave out repetitions
    return {name: tensor for name, tensor in named if name in saved}


def check_same_shapes(model_shapes: Shapes, file_shapes: Shapes, path: Path) -> None:
    """A file's names and shapes are those of the model, or what does not fit is said."""
    missing, extra = sorted(model_shapes.keys() - file_shapes.keys()), sorted(file_shapes.keys() - model_shapes.keys())
    if missing or extra:
        listed = f"missing {', '.join(missing[:3]) or 'nothing'}; unknown {', '.join(extra[:3]) or 'nothing'}"
        raise CheckpointError(f"{path}: does not fit the model: {listed}")
    for name, shape in model_shapes.items():
        if shape != file_shapes[name]:
            raise CheckpointError(
                f"{path}: does not fit the model: {name} is {file_shapes[name]} in the file, {shape} in the model"
            )
