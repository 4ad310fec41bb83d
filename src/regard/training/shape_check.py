"""Check that the model described by config.json has the parameter names and shapes of the weights file.

The model is built on torch's `meta` device, which stores shapes and no values. Building stops when the model has more
parameters than the file. So a config.json with a billion features or ten million layers costs nothing.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.modules import module as module_hooks

from regard.core.errors import CheckpointError, RegardError

Shapes = Mapping[str, tuple[int, ...]]
_REGISTRATIONS_PER_WEIGHT = 4  # tied weights, and weights replaced during construction, are registered repeatedly
_EXTRA_REGISTRATIONS = 1000  # allowed to every model
_MAX_BUFFER_ELEMENTS = 2**28  # elements of computed buffers that are not saved, such as position encodings


class ModelTooLarge(Exception):
    """The model being built has more parameters or modules than the weights file allows."""


def check_shapes(build: Callable[[], nn.Module], shapes: Shapes, *, config: Path, weights: Path) -> None:
    """Refuse a configuration whose model has other weights than the file, before memory is allocated."""
    try:
        with torch.device("meta"), _bounded(shapes):
            model = build()
    except ModelTooLarge:
        count = sum(math.prod(shape) for shape in shapes.values())
        raise CheckpointError(
            f"{config}: the model is larger than {weights.name} ({count:,} values in {len(shapes)} tensors); one of "
            "the two files belongs to another run"
        ) from None
    except RegardError:
        raise
    except Exception:  # a model that cannot be built on the meta device is checked after it was built
        return
    check_same_shapes({name: tuple(tensor.shape) for name, tensor in named_weights(model).items()}, shapes, weights)
    buffer_elements = sum(buffer.numel() for name, buffer in model.named_buffers() if name not in shapes)
    if buffer_elements > _MAX_BUFFER_ELEMENTS:
        raise CheckpointError(
            f"{config}: the model has unsaved buffers of {buffer_elements:,} values; not written by regard"
        )


@contextmanager
def _bounded(shapes: Shapes) -> Iterator[None]:
    """Raise ModelTooLarge in this thread if more parameters or modules are registered than the file's weights allow."""
    weights = _REGISTRATIONS_PER_WEIGHT * len(shapes) + _EXTRA_REGISTRATIONS
    remaining = {nn.Parameter: weights, nn.Module: 20 * weights}
    thread = threading.get_ident()  # the hooks are global to torch and also called for models of other threads

    def count(kind: type) -> None:
        if threading.get_ident() == thread:
            remaining[kind] -= 1
            if remaining[kind] < 0:
                raise ModelTooLarge

    handles = [
        module_hooks.register_module_parameter_registration_hook(lambda *_: count(nn.Parameter)),
        module_hooks.register_module_module_registration_hook(lambda *_: count(nn.Module)),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return every parameter and saved buffer by name; a tied weight appears once."""
    saved = model.state_dict(keep_vars=True)
    named = [*model.named_parameters(), *model.named_buffers()]  # both omit repetitions
    return {name: tensor for name, tensor in named if name in saved}


def check_same_shapes(model_shapes: Shapes, file_shapes: Shapes, path: Path) -> None:
    """Raise a CheckpointError if the names and shapes in a file are not those of the model."""
    missing, extra = sorted(model_shapes.keys() - file_shapes.keys()), sorted(file_shapes.keys() - model_shapes.keys())
    if missing or extra:
        difference = f"missing {', '.join(missing[:3]) or 'nothing'}; unknown {', '.join(extra[:3]) or 'nothing'}"
        raise CheckpointError(f"{path}: does not fit the model: {difference}")
    for name, shape in model_shapes.items():
        if shape != file_shapes[name]:
            raise CheckpointError(
                f"{path}: does not fit the model: {name} is {file_shapes[name]} in the file, {shape} in the model"
            )
