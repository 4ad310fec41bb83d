"""Attention in chunks of queries, so that what a score holds per query-key pair never exists whole.

Unless they are few, a chunk's inner numbers are dropped after the forward pass and made again in the backward pass,
from the same random numbers. Gradients of keys and values are added up in place: a causal chunk touches only the keys
it could see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.func import functional_call

from regard.attention.masks import Mask
from regard.core.tracing import gradients, is_exporting, is_transforming

CHUNK_ELEMENTS = 2**22  # numbers held at once: 16 MB in float32
MAX_SAVED_CHUNKS = (
    4  # chunks whose inner numbers may stay until the backward pass: a little memory instead of the work done twice
)
CAUSAL_CHUNK_QUERIES = 128  # queries at a time under a causal mask, so that few keys are scored in vain
ChunkFunction = Callable[[Callable[..., Tensor], Tensor, Tensor, Tensor, Mask, int], Tensor]  # first: what weighs


class ChunkedCall(NamedTuple):
    """What is done to every chunk, by which module, and those of its weights that are learned."""

    plain: ChunkFunction
    weigh: nn.Module
    mask: Mask
    chunk_queries: int
    weights: dict[str, Tensor]  # as they were in the forward pass, whatever the module has by then

    def bounds(self, t: int, s: int) -> Iterator[tuple[int, int, int]]:
        """First and last query of each chunk, and how many keys it may see."""
        for low in range(0, t, self.chunk_queries):
            high = min(low + self.chunk_queries, t)
            yield low, high, max(0, min(s, s - t + high)) if self.mask.is_causal else s

    def attend_chunk(self, q: Tensor, k: Tensor, v: Tensor, *, low: int, query_offset: int) -> Tensor:
        """One chunk; `first` is the place of its first query, which is number `low`."""
        return self.plain(
            self.weigh, q, k, v, self.mask.submask(low, low + q.shape[-2], keys=k.shape[-2]), query_offset
        )

    def with_saved_weights(self) -> ChunkedCall:
        """The same work with the same weights, later."""

        def weigh(*given: Any) -> Tensor:
            weights: Tensor = functional_call(self.weigh, self.weights, given)
            return weights

        plain = self.plain
        return self._replace(plain=lambda _, *given: plain(weigh, *given))


def attend_in_chunks(
    plain: ChunkFunction, q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, elements_per_pair: int, weigh: nn.Module
) -> Tensor:
    """Queries (b h t d), keys (b h s d), values (b h s e) -> (b h t e), by `plain` on some queries at a time;
    `inner` is how many numbers it holds per pair, `weigh` the module that it weighs by."""
    t, s = q.shape[-2], k.shape[-2]
    if is_exporting() or is_transforming():
        return plain(weigh, q, k, v, mask, s - t)
    rows = queries_per_chunk(q, s, elements_per_pair)
    if rows * MAX_SAVED_CHUNKS >= t:
        few = t <= CAUSAL_CHUNK_QUERIES or not mask.is_causal
        return (
            plain(weigh, q, k, v, mask, s - t)
            if few
            else _kept(ChunkedCall(plain, weigh, mask, CAUSAL_CHUNK_QUERIES, {}), q, k, v)
        )
    learned: dict[str, Tensor] = {name: weight for name, weight in weigh.named_parameters() if weight.requires_grad}
    mixed: Tensor = _chunked(ChunkedCall(plain, weigh, mask, rows, learned), q, k, v)
    return mixed


def queries_per_chunk(q: Tensor, s: int, elements_per_pair: int) -> int:
    """How many queries (b h t d) fit into a chunk with `s` keys."""
    return max(1, CHUNK_ELEMENTS // max(1, q.shape[0] * q.shape[1] * s * elements_per_pair))


def _kept(work: ChunkedCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """All chunks in the common way: autograd keeps what they hold."""
    t, s = q.shape[-2], k.shape[-2]
    parts = [
        work.attend_chunk(q[:, :, low:high], k[:, :, :seen], v[:, :, :seen], low=low, query_offset=s - t + low)
        for low, high, seen in work.bounds(t, s)
    ]
    return torch.cat(parts, dim=2)


@torch.compiler.disable  # type: ignore[untyped-decorator]  # torch's stub; the compiler cannot follow a nested backward
def _chunked(work: ChunkedCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    apply: Any = _Chunked.apply
    mixed: Tensor = apply(work, q, k, v, *work.weights.values())
    return mixed


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, work: ChunkedCall, q: Tensor, k: Tensor, v: Tensor, *weights: Tensor) -> Tensor:
        ctx.work, ctx.again = work, _as_now(q.device)
        ctx.save_for_backward(q, k, v)
        t, s = q.shape[-2], k.shape[-2]
        mixed = torch.empty(0)
        for low, high, seen in work.bounds(t, s):
            part = work.attend_chunk(
                q[:, :, low:high], k[:, :, :seen], v[:, :, :seen], low=low, query_offset=s - t + low
            )
            mixed = part.new_empty(*q.shape[:-1], v.shape[-1]) if low == 0 else mixed
            mixed[:, :, low:high] = part
        return mixed

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        work, (q, k, v) = ctx.work.again(), ctx.saved_tensors
        weights = list(work.weights.values())
        if torch.is_grad_enabled():  # a second derivative is wanted
            with ctx.again():
                return (None, *gradients(lambda *x: _kept(work, *x[:3]), (q, k, v, *weights), grad))
        t, s = q.shape[-2], k.shape[-2]
        totals = [torch.zeros_like(x) for x in (q, k, v, *weights)]
        with ctx.again():
            for low, high, seen in work.bounds(t, s):
                places = (slice(low, high), slice(seen), slice(seen))
                leaves = [x[:, :, p].detach().requires_grad_() for x, p in zip((q, k, v), places, strict=True)]
                mixed = work.mix(*leaves, low=low, first=s - t + low)
                found = torch.autograd.grad(mixed, [*leaves, *weights], grad[:, :, low:high], allow_unused=True)
                views = [x[:, :, p] for x, p in zip(totals[:3], places, strict=True)] + totals[3:]
                for total, part in zip(views, found, strict=True):
                    if part is not None:
                        total.add_(part)
        return (None, *totals)


def _as_now(device: torch.device) -> Callable[[], Any]:
    """A context that puts back the random numbers and the precision of this moment."""
    devices = [] if device.type == "cpu" else [device]
    states = [torch.get_rng_state(), *(torch.get_device_module(device).get_rng_state(device) for _ in devices)]
    mixed, dtype = torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type)

    @contextmanager
    def again() -> Iterator[None]:
        with (
            torch.random.fork_rng(devices, device_type=device.type),
            torch.enable_grad(),
            torch.autocast(device.type, dtype=dtype, enabled=mixed),
        ):
            torch.set_rng_state(states[0])
            for state in states[1:]:
                torch.get_device_module(device).set_rng_state(state, device)
            yield

    return again
