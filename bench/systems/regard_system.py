"""The regard system: its training step, its decoding strategies and its worker processes."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.api.parallel import map_in_order
from regard.core.cpu import recommended_threads
from regard.core.data_specs import Seq2SeqSpec, SpecialTokens
from regard.core.protocols import Padded
from regard.data import batching
from regard.data.batching import PairBatch
from regard.decoding.strategy import build as build_decoding
from regard.models import bahdanau, transformer
from regard.tasks._shared.teacher_forcing import teacher_forcing_loss
from regard.training import checkpoint, tensor_files
from regard.training import recipe as recipes
from regard.training.device import keep_freed_memory
from regard.training.distributed import distributed_context, wrap_model
from regard.training.optimizer import build as build_optimizer
from regard.training.precision import CHECKED_STEPS, resolve_dtype
from regard.training.step import Stepper
from systems import paths
from systems.workload import END, LENGTH, SHAPES, START, VOCABULARY, Rows, Shape

SIZES = Seq2SeqSpec(VOCABULARY, VOCABULARY, max_length=512, joint_vocab=True)


def model(name: str) -> Any:
    """Return the model of a shape, with the same weights every time."""
    torch.manual_seed(1)
    if name == "bahdanau":
        return bahdanau.build(bahdanau.Config(dim=512, embedding=256, dropout=0.3), SIZES)
    return transformer.build(config(SHAPES[name]), SIZES).eval()


def config(shape: Shape) -> transformer.Config:
    """Return the config of a Transformer of this shape."""
    sizes = {"layers": shape.layers, "dim": shape.dim, "ffn_dim": shape.hidden, "heads": shape.heads}
    return transformer.Config(**sizes, dropout=shape.dropout)


def untied(name: str) -> Any:
    """Return the model with a separate output layer, which `length_matched_model.fit` needs."""
    torch.manual_seed(1)
    return transformer.build(replace(config(SHAPES[name]), tie_embeddings=False), SIZES).eval()


def load(folder: Path, name: str) -> Any:
    """Load the model whose weights `prepare` wrote, in the way of a run."""
    path = paths.weights(folder, name)
    net = untied("tiny") if name == paths.ENDING else model(name)
    tensors, _ = tensor_files.read_tensors(path)
    if "readout.bias" in tensors:
        net.readout.bias = nn.Parameter(torch.zeros(VOCABULARY))
    checkpoint.restore_weights(net, tensors, path)
    return net


class FixedBatchTask:
    """The part of a task that the training step uses; its batches are set by the caller."""

    def __init__(self) -> None:
        self.rows: tuple[Rows, Rows] = ([], [])

    def collate(self, examples: Any) -> PairBatch:
        source, target = self.rows
        return PairBatch(
            batching.pad([[*row, END] for row in source]), batching.pad([[START, *row, END] for row in target])
        )


def trainer(name: str, batches: Iterator[tuple[Rows, Rows]], precision: str) -> Callable[[], int]:
    """Return the step of regard's trainer in this precision (the default is `auto`); a step returns the
    number of its target tokens."""
    keep_freed_memory()
    recipe = recipes.read(
        "translation", settings=["training.optimizer.lr=5e-4", f"training.hardware.precision={precision}"]
    )
    net, task = model(name), FixedBatchTask()
    processes = distributed_context("cpu").__enter__()
    stepper = Stepper(
        recipe,
        task,  # type: ignore[arg-type]
        engine=wrap_model(net, processes, shard="none", example_loss=lambda net: None),
        optimizer=build_optimizer(recipe.training.optimizer, net),
        lr_factor=lambda step: 1.0,
        processes=processes,
        loss=lambda net, batch: teacher_forcing_loss(net, batch, pad=0, smoothing=0.1),
        dtype=resolve_dtype(precision, processes.device, net),
    )
    steps = iter(range(1 + max(CHECKED_STEPS), 1_000_000))

    def step() -> int:
        task.rows = next(batches)
        return stepper(torch.zeros(1).numpy(), step=next(steps), flags=lambda: ()).tokens

    return step


def decoder(net: Any, *, width: int = 1, length: int = LENGTH) -> Callable[[Rows], int]:
    """Optimized model -> (rows -> number of rows); every output takes `length` steps, the last one for EOS."""
    tokens = length - 1  # the peers stop after their last token; regard also computes the probability of EOS there
    settings = {} if width == 1 else {"beam_width": width}
    search = build_decoding("greedy" if width == 1 else "beam", min_length=tokens, **settings)

    @torch.inference_mode()
    def decode(rows: Rows) -> int:
        source: Padded = batching.pad(rows)
        limits = torch.full((len(rows),), tokens)
        hypotheses = search(net, net.start(source), special_tokens=SpecialTokens(), limits=limits)
        if any(len(best.tokens) != tokens for best, *_ in hypotheses):
            raise SystemExit("regard: an output has another length than requested")
        return len(rows)

    return decode


def begin() -> None:
    """Initialize a process as `regard translate` does."""
    torch.set_num_threads(1)
    keep_freed_memory()


def use_threads(net: Any) -> None:
    """Set the number of threads as `regard translate` does for a few sentences."""
    torch.set_num_threads(recommended_threads(net))


def steady(decode: Callable[[Rows], int], groups: list[Rows], *, processes: int, seconds: float) -> float:
    """Return sentences per second of running worker processes; all groups are decoded equally often."""
    results = map_in_order(decode, itertools.cycle(groups), processes=processes, initializer=begin)
    for _ in range(max(processes, len(groups) // 4)):  # warm
        next(results)
    done, started_at = 0, time.perf_counter()
    while done == 0 or time.perf_counter() - started_at < seconds:
        done += sum(next(results) for _ in groups)
    rate = done / (time.perf_counter() - started_at)
    results.close()
    return rate
