"""Parts of other packages, compared with their definition on small random inputs before a model is trained or used.

A score, a normalizer, a position scheme and a decoding strategy are defined by one method each. Faster forms of them
are optional. If the two differ, training and decoding would silently compute different models.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.attend import Attend, AttendCache
from regard.attention.kernels.short_keys import MAX_SHORT_LENGTH
from regard.attention.masks import Mask
from regard.core.data_specs import SpecialTokens
from regard.core.errors import ConfigError, RegardError
from regard.core.inference_mode import eval_mode
from regard.decoding.strategy import DecodingStrategy
from regard.layers.multihead import MultiHeadAttention
from regard.layers.positions._base import PositionScheme

TOLERANCE = 1e-3  # of differences in float32, relative to the largest value
ROWS, VALUE_DIM, DEFAULT_DIM = 2, 3, 8
LENGTHS = ((5, 5), (1, 7), (3, 7), (MAX_SHORT_LENGTH + 6,) * 2)  # queries and keys: short, decoding, the fused kernel
REMEDY = "see CONTRIBUTING: Add a score, Add a position scheme"
VOCAB_SIZE, SOURCES, MAX_TOKENS = 8, 3, 6  # of the model on which a decoding strategy is tried


def check_parts(model: nn.Module, decoding: DecodingStrategy | None) -> None:
    """Raise a ConfigError for a part of another package that differs from its definition."""
    generator = torch.Generator().manual_seed(0)
    if any(weight.device.type == "meta" for weight in model.parameters()):
        return
    with eval_mode(model), torch.no_grad():
        for attend, heads, dims in _attentions(model):
            parts = [
                part
                for part in (attend.weigh.score, attend.weigh.normalizer, attend.weigh.place)
                if _is_third_party(part)
            ]
            if parts:
                _check_attention(attend, heads, dims, " with ".join(map(_name, parts)), generator)
        for position in {type(part): part for part in model.modules() if isinstance(part, PositionScheme)}.values():
            if _is_third_party(position):
                _check_encoding(position)
        if decoding is not None and "." in decoding.name:
            _check_strategy(decoding, generator)


def _is_third_party(part: object) -> bool:
    """Return True for a part that is not of this package."""
    return type(part).__module__.partition(".")[0] != "regard"


def _name(part: object) -> str:
    return f"{type(part).__module__}.{type(part).__qualname__}"


def _attentions(model: nn.Module) -> Iterator[tuple[Attend, int, tuple[int, int]]]:
    """Yield every attention with its number of heads and the widths of its queries and keys."""
    inside_heads = set()
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            inside_heads.add(module.attend)
            width = module.q.out_features // module.heads
            yield module.attend, module.heads, (width, module.k.out_features // module.heads)
    for module in model.modules():
        if isinstance(module, Attend) and module not in inside_heads:
            score = module.weigh.score
            dim = score.dim or score.built_for[0] or DEFAULT_DIM
            yield module, 1, (dim, score.key_dim or score.built_for[1] or dim)


def _check_attention(attend: Attend, heads: int, dims: tuple[int, int], name: str, generator: torch.Generator) -> None:
    """Compare the kernels that `Attend` selects with weights · values, and the weights with the mask."""
    device = next(iter(attend.parameters()), torch.empty(0)).device

    def random(length: int, width: int) -> Tensor:
        return torch.randn(ROWS, heads, length, width, generator=generator).to(device)

    for t, s in LENGTHS:
        q, keys, v = random(t, dims[0]), random(s, dims[1]), random(s, VALUE_DIM)
        for mask in (Mask(), Mask.causal(), Mask.lengths(torch.tensor([s, 2], device=device), s), Mask.local(2, 0)):
            try:
                k = attend.project(keys)
                allowed, weights = mask.dense(t, s, device=device), attend.weigh(q, k.tensor, mask)
                _compare(f"{name}: weights of hidden keys", weights.masked_fill(_all_or(allowed, weights), 0.0), None)
                expected = weights @ v
                _compare(f"{name}: attention by fast kernels and by definition", attend(q, k, v, mask), expected)
                rows = q.transpose(1, 2).flatten(2).flatten(0, 1)
                cached = AttendCache(attend)(rows, k, v, mask, shape=(ROWS, t), length=s)
                _compare(f"{name}: decoding and definition", cached, expected.transpose(1, 2).flatten(2).flatten(0, 1))
            except RegardError:
                raise
            except Exception as error:  # code of another package may raise anything
                raise ConfigError(f"{name}: fails on {t} queries and {s} keys ({_reason(error)}); {REMEDY}") from error


def _all_or(allowed: Tensor | None, weights: Tensor) -> Tensor:
    return torch.ones_like(weights, dtype=torch.bool) if allowed is None else allowed.expand_as(weights)


def _check_encoding(position: PositionScheme) -> None:
    """Check that the encoding of a position does not depend on how positions are batched."""
    length, name = max(1, min(5, position.longest)), _name(position)
    positions = torch.arange(length)
    try:
        single = position.encode(positions, length)
        if single is None:
            return
        if single.shape != (length, position.dim):
            shape = tuple(single.shape)
            raise ConfigError(
                f"{name}: encode returns {shape} for {length} positions; return ({length}, {position.dim})"
            )
        rows = position.encode(positions.expand(ROWS, length), torch.full((ROWS,), length))
    except RegardError:
        raise
    except Exception as error:  # code of another package may raise anything
        raise ConfigError(f"{name}: encode fails ({_reason(error)}); {REMEDY}") from error
    if rows is None or rows.shape != (ROWS, length, position.dim):
        returned = None if rows is None else tuple(rows.shape)
        raise ConfigError(
            f"{name}: encode returns {returned} for positions ({ROWS}, {length}); return (…, {position.dim})"
        )
    _compare(f"{name}: encodings of a batch and of one row", rows[0], single)


class _Table(nn.Module):
    """A decoder whose logits depend on the last token alone."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = nn.Parameter(logits, requires_grad=False)
        self.readout = nn.Identity()

    def features(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.logits[tokens], state

    def forward(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        return self.features(tokens, state)


def _check_strategy(decoding: DecodingStrategy, generator: torch.Generator) -> None:
    """Decode with a small model and compare the scores with teacher-forced ones."""
    free = {"min_length": 0, "suppress_tokens": ()}  # constraints that refer to the vocabulary of the task
    decoding = decoding.with_settings(**{name: value for name, value in free.items() if decoding.has_setting(name)})
    special_tokens, model = SpecialTokens(), _Table(torch.randn(VOCAB_SIZE, VOCAB_SIZE, generator=generator))
    try:
        results = decoding(
            model,  # type: ignore[arg-type]  # `start` is not called
            (torch.zeros(SOURCES),),
            special_tokens=special_tokens,
            limits=torch.full((SOURCES,), MAX_TOKENS),
        )
    except RegardError:
        raise
    except Exception as error:  # code of another package may raise anything
        raise ConfigError(
            f"decoding={decoding.name}: fails on a small model ({_reason(error)}); see CONTRIBUTING: Add a decoding "
            "strategy"
        ) from error
    for hypothesis in (hypothesis for hypotheses in results for hypothesis in hypotheses):
        tokens = torch.tensor([special_tokens.bos, *hypothesis.tokens, special_tokens.eos])
        log_p = model.logits.log_softmax(dim=-1)[tokens[:-1], tokens[1:]].sum()
        _compare(f"decoding={decoding.name}: scores and teacher-forced scores", torch.tensor(hypothesis.score), log_p)


def _compare(what: str, actual: Tensor, expected: Tensor | None) -> None:
    """Raise a ConfigError if two tensors differ; None stands for zeros."""
    expected = torch.zeros_like(actual) if expected is None else expected
    limit = TOLERANCE * (1 + float(expected.abs().max()) if expected.numel() else 1)
    gap = float((actual - expected).abs().max()) if actual.numel() else 0.0
    if not gap <= limit:  # NaN too
        raise ConfigError(
            f"{what} differ by {gap:.2g}; the optional methods of a part must compute the same as its definition "
            "(CONTRIBUTING: Parts of other packages)"
        )


def _reason(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:200]
