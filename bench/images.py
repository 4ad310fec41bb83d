"""Speed of image models, in one run with the same machine, shapes and data:

vit         images/s of training, 32x32x3 in patches of 4: regard's vit and timm's VisionTransformer of the same shape
            (`pip install --no-deps timm`: its ViT does not use torchvision, an empty module replaces it)
sampling    positions/s of one image of 32x32x3, one position per channel: local 2-D attention with a window as its
            KV cache, full attention with all keys, and local 2-D attention that recomputes the prefix at every
            position (the mean of every 96th position: all would take an hour)
memory      peak bytes of the KV cache while that image is generated: the window, and full attention

Run by bench/all.py.
"""

from __future__ import annotations

from typing import Any

import torch
from comparisons import Bench, Systems, Work, named, regard_training, training, variants
from torch import Tensor

from regard.core.data_specs import ImageClassificationSpec, ImageGenerationSpec
from regard.core.protocols.image_generator import ImageCondition
from regard.core.state_tree import map_tensors
from regard.decoding.strategies import sample
from regard.models import image_transformer, vit
from regard.tasks.image_generation.generate import UNKNOWN, generate_batch

EVERY = 96  # positions between two recomputations of the prefix
SHAPE = {"layers": 6, "dim": 128, "heads": 4, "ffn_dim": 256, "patch": 4}
SMALL = {"layers": 2, "dim": 16, "heads": 2, "ffn_dim": 32, "patch": 4}


def vit_training(quick: bool) -> Systems:
    side, rows, shape = (8, 2, SMALL) if quick else (32, 64, SHAPE)
    images, labels = torch.randn(rows, 3, side, side), torch.arange(rows) % 10

    def regard_work() -> Work:
        model = vit.build(vit.Config(**shape), ImageClassificationSpec(side, side, 3, 10))
        return regard_training(model, lambda: model.readout.loss(model.features(images), labels) / rows, rows)

    def peer(dtype: torch.dtype, compiled: bool) -> Work:
        from systems.image_peers import timm_vit

        model = timm_vit(side, **shape)
        loss = lambda: torch.nn.functional.cross_entropy(model(images), labels)  # noqa: E731  # an argument
        return training(model, loss, rows, dtype=dtype, compiled=compiled)

    return {"regard": regard_work, **variants("timm", peer)}


def painter(quick: bool, attention: str) -> tuple[image_transformer.ImageTransformer, int]:
    """Return an untrained model of images of 32x32x3, and its number of positions."""
    side = 6 if quick else 32
    small = {"layers": 1, "dim": 16, "query_block": (2, 2), "memory_block": (1, 1)}
    large = {"layers": 4, "dim": 128, "query_block": (4, 8), "memory_block": (4, 4)}
    config = image_transformer.Config(attention=attention, **(small if quick else large))
    model = image_transformer.build(config, ImageGenerationSpec(side, side, 3, levels=256)).eval()
    return model, side * side * 3


NOTHING = ImageCondition(torch.zeros(1, dtype=torch.long), torch.zeros(1, 0, dtype=torch.long))


def cached(quick: bool, attention: str) -> Work:
    model, positions = painter(quick, attention)

    def image() -> float:
        generate_batch(model, NOTHING, torch.full((1, positions), UNKNOWN), num_levels=256, choice=sample.Config())
        return positions

    return image


def recomputed(quick: bool) -> Work:
    """Compute the features of the full prefix at some of the positions."""
    model, positions = painter(quick, "local_2d")
    tokens = torch.randint(256, (1, positions))

    @torch.no_grad()
    def decode_positions() -> float:
        ends = range(EVERY // 2, positions, EVERY)
        for end in ends:
            features, _ = model.features(tokens[:, :end], model.start(NOTHING))
            model.readout(features[:, -1:])
        return len(ends)

    return decode_positions


def sampling(quick: bool) -> Systems:
    return {
        "regard": lambda: cached(quick, "local_2d"),
        "full attention, cached": lambda: cached(quick, "full"),
        "prefix recomputed": lambda: recomputed(quick),
    }


def cache_bytes(quick: bool, attention: str) -> Work:
    """Return the peak bytes of the KV cache over all positions."""
    model, positions = painter(quick, attention)

    @torch.no_grad()
    def most() -> float:
        state, fullest = model.start(NOTHING), 0
        for _ in range(positions):
            _, state = model.features(torch.zeros(1, 1, dtype=torch.long), state)
            fullest = max(fullest, size_of(state.past))
        return fullest

    return most


def size_of(past: Any) -> int:
    """Return the bytes of all tensors of a state, each storage once: a view counts as its whole buffer."""
    storages: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    map_tensors(past, note)
    return sum(storages.values())


def memory(quick: bool) -> Systems:
    return {"regard": lambda: cache_bytes(quick, "local_2d"), "full attention": lambda: cache_bytes(quick, "full")}


BENCHES = {
    "vit": Bench(vit_training, named("timm"), "images/s"),
    "sampling": Bench(sampling, ("regard", "full attention, cached", "prefix recomputed"), "positions/s", warm=False),
    "memory": Bench(memory, ("regard", "full attention"), "bytes", seconds=0),
}
