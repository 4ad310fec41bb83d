"""Attention in chunks of queries, so that the intermediate values per query-key pair are never all in memory.

Unless they are few, a chunk's intermediate values are dropped after the forward pass and recomputed in the backward
pass with the same random state. Gradients of keys and values are accumulated in place: a causal chunk only touches the
keys that its queries may attend to.
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

CHUNK_ELEMENTS = 2**22  # numbers in memory at a time: 16 MB in float32
# chunks whose intermediate values may stay until the backward pass: a little memory saves computing them twice
MAX_SAVED_CHUNKS = 4
CAUSAL_CHUNK_QUERIES = 128  # queries per chunk under a causal mask, so that few masked keys are scored
# (weigh, q, k, v, mask, query_offset) -> output; `weigh` computes the weights
ChunkFunction = Callable[[Callable[..., Tensor], Tensor, Tensor, Tensor, Mask, int], Tensor]


class ChunkedCall(NamedTuple):
    """The function applied to every chunk, its module, and the learned weights of that module."""

    plain: ChunkFunction
    weigh: nn.Module
    mask: Mask
    chunk_queries: int
    weights: dict[str, Tensor]  # as in the forward pass; those of the module may have changed by the backward pass

    def bounds(self, t: int, s: int) -> Iterator[tuple[int, int, int]]:
        """Yield (low, high, num_keys) of each chunk: its queries low..high and the number of keys in their reach."""
        for low in range(0, t, self.chunk_queries):
            high = min(low + self.chunk_queries, t)
            yield low, high, max(0, min(s, s - t + high)) if self.mask.is_causal else s

    def attend_chunk(self, q: Tensor, k: Tensor, v: Tensor, *, low: int, query_offset: int) -> Tensor:
        """Attend with one chunk, whose first query has index `low` and position `query_offset` among the keys."""
        return self.plain(
            self.weigh, q, k, v, self.mask.submask(low, low + q.shape[-2], keys=k.shape[-2]), query_offset
        )

    def with_saved_weights(self) -> ChunkedCall:
        """Return the same call bound to the weights of the forward pass, for the backward pass."""

        def weigh(*inputs: Any) -> Tensor:
            weights: Tensor = functional_call(self.weigh, self.weights, inputs)
            return weights

        plain = self.plain
        return self._replace(plain=lambda _, *inputs: plain(weigh, *inputs))


def attend_in_chunks(
    plain: ChunkFunction, q: Tensor, k: Tensor, v: Tensor, mask: Mask, *, elements_per_pair: int, weigh: nn.Module
) -> Tensor:
    """Queries (b h t d), keys (b h s d), values (b h s e) -> (b h t e), by `plain` on a chunk of queries at a time.

    `elements_per_pair` is the number of intermediate values per query-key pair; `weigh` is the module that `plain`
    computes the weights with.
    """
    t, s = q.shape[-2], k.shape[-2]
    if is_exporting() or is_transforming():
        return plain(weigh, q, k, v, mask, s - t)
    chunk_queries = queries_per_chunk(q, s, elements_per_pair)
    if chunk_queries * MAX_SAVED_CHUNKS >= t:
        if t <= CAUSAL_CHUNK_QUERIES or not mask.is_causal:
            return plain(weigh, q, k, v, mask, s - t)
        return _attend_saving(ChunkedCall(plain, weigh, mask, CAUSAL_CHUNK_QUERIES, {}), q, k, v)
    learned: dict[str, Tensor] = {name: weight for name, weight in weigh.named_parameters() if weight.requires_grad}
    output: Tensor = _attend_recomputing(ChunkedCall(plain, weigh, mask, chunk_queries, learned), q, k, v)
    return output


def queries_per_chunk(q: Tensor, s: int, elements_per_pair: int) -> int:
    """Return the number of queries (b h t d) per chunk with `s` keys."""
    return max(1, CHUNK_ELEMENTS // max(1, q.shape[0] * q.shape[1] * s * elements_per_pair))


def _attend_saving(call: ChunkedCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend chunk by chunk; autograd saves the intermediate values."""
    t, s = q.shape[-2], k.shape[-2]
    outputs = [
        call.attend_chunk(q[:, :, low:high], k[:, :, :num_keys], v[:, :, :num_keys], low=low, query_offset=s - t + low)
        for low, high, num_keys in call.bounds(t, s)
    ]
    return torch.cat(outputs, dim=2)


@torch.compiler.disable  # type: ignore[untyped-decorator]  # torch's stub; the compiler cannot trace a nested backward
def _attend_recomputing(call: ChunkedCall, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend chunk by chunk; the backward pass recomputes the intermediate values."""
    apply: Any = _Chunked.apply
    output: Tensor = apply(call, q, k, v, *call.weights.values())
    return output


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: ChunkedCall, q: Tensor, k: Tensor, v: Tensor, *weights: Tensor) -> Tensor:
        ctx.call, ctx.restore_state = call, _capture_state(q.device)
        ctx.save_for_backward(q, k, v)
        t, s = q.shape[-2], k.shape[-2]
        output = torch.empty(0)
        for low, high, num_keys in call.bounds(t, s):
            chunk = call.attend_chunk(
                q[:, :, low:high], k[:, :, :num_keys], v[:, :, :num_keys], low=low, query_offset=s - t + low
            )
            output = chunk.new_empty(*q.shape[:-1], v.shape[-1]) if low == 0 else output
            output[:, :, low:high] = chunk
        return output

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        call, (q, k, v) = ctx.call.with_saved_weights(), ctx.saved_tensors
        weights = list(call.weights.values())
        if torch.is_grad_enabled():  # a second derivative is needed
            with ctx.restore_state():
                return (None, *gradients(lambda *x: _attend_saving(call, *x[:3]), (q, k, v, *weights), grad))
        t, s = q.shape[-2], k.shape[-2]
        totals = [torch.zeros_like(x) for x in (q, k, v, *weights)]
        with ctx.restore_state():
            for low, high, num_keys in call.bounds(t, s):
                slices = (slice(low, high), slice(num_keys), slice(num_keys))
                leaves = [x[:, :, part].detach().requires_grad_() for x, part in zip((q, k, v), slices, strict=True)]
                output = call.attend_chunk(*leaves, low=low, query_offset=s - t + low)
                grads = torch.autograd.grad(output, [*leaves, *weights], grad[:, :, low:high], allow_unused=True)
                views = [x[:, :, part] for x, part in zip(totals[:3], slices, strict=True)] + totals[3:]
                for total, chunk_grad in zip(views, grads, strict=True):
                    if chunk_grad is not None:
                        total.add_(chunk_grad)
        return (None, *totals)


def _capture_state(device: torch.device) -> Callable[[], Any]:
    """Return a context manager that restores the present random state and autocast settings."""
    devices = [] if device.type == "cpu" else [device]
    states = [torch.get_rng_state(), *(torch.get_device_module(device).get_rng_state(device) for _ in devices)]
    autocast_enabled, dtype = torch.is_autocast_enabled(device.type), torch.get_autocast_dtype(device.type)

    @contextmanager
    def restore_state() -> Iterator[None]:
        with (
            torch.random.fork_rng(devices, device_type=device.type),
            torch.enable_grad(),
            torch.autocast(device.type, dtype=dtype, enabled=autocast_enabled),
        ):
            torch.set_rng_state(states[0])
            for state in states[1:]:
                torch.get_device_module(device).set_rng_state(state, device)
            yield

    return restore_state
