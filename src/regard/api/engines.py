"""What decodes for a run: our own engine, exact or with 8-bit weights, or CTranslate2 with the same weights.

An engine turns the decoding of a request into a pair (model, decoding) that a task uses like any other. So a task does
not know of engines, and an engine of no task.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from torch import Tensor, nn

from regard.api.export import export, is_whole
from regard.api.workers import available
from regard.core.errors import ConfigError, nearest
from regard.core.extras import require
from regard.core.files import cache_folder, digest
from regard.core.protocols import Grammar, Hypothesis, Padded
from regard.core.sizes import Marks
from regard.decoding import Decoding, optimised
from regard.training.run import Parts

NATIVE = "native"


class Pair(NamedTuple):
    """What a task is handed."""

    model: Any  # a core.protocols.Decoder where the task decodes
    decoding: Decoding | None


Engine = Callable[[Decoding | None], Pair]


def build(name: str, parts: Parts) -> Engine:
    """native: every model, exact. int8: a Transformer, weights rounded to 8 bits. ctranslate2: a plain Transformer."""
    makers = {NATIVE: _native, "int8": _rounded, "ctranslate2": _ctranslate2}
    if name not in makers:
        raise ConfigError(f"no engine {name!r}; {nearest(name, makers)}")
    return makers[name](parts)


class Ready:
    """A copy of a model optimised for decoding; built once and reused until a weight or a hook changes."""

    def __init__(self, model: nn.Module) -> None:
        self._model: Any = model
        self._seen: object = None
        self._optimised: Any = None

    def __call__(self) -> Any:
        """The copy, or the model itself where it has none."""
        weights = tuple((weight.data_ptr(), weight._version) for weight in self._model.parameters())
        hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in self._model.modules()]
        if self._seen != (weights, hooks):
            self._optimised, self._seen = optimised(self._model), (weights, hooks)
        return self._optimised


def _native(parts: Parts) -> Engine:
    ready = Ready(parts.model)
    return lambda decoding: Pair(ready(), decoding)


def _rounded(parts: Parts) -> Engine:
    whole: Any = parts.model
    model = optimised(whole, "int8")
    if model is whole:
        raise ConfigError(f"engine int8 is for the Transformer; {type(whole).__name__} needs engine native")
    return lambda decoding: Pair(model, decoding)


def _ctranslate2(parts: Parts) -> Engine:
    library = require("ctranslate2", extra="ctranslate2")
    weights = digest(parts.folder / "model.safetensors")
    folder = cache_folder() / "ctranslate2" / weights[:16]  # once for these weights; never from a stranger's run folder
    if not is_whole(folder, weights):
        shutil.rmtree(folder, ignore_errors=True)
        export(parts.model, parts.task.sizes, folder, weights=weights)
    translator = library.Translator(str(folder), compute_type="float32", inter_threads=available(), intra_threads=1)
    model = Exported(parts.model)

    def engine(decoding: Decoding | None) -> Pair:
        if decoding is None or decoding.name not in ("greedy", "beam"):
            name = "nothing" if decoding is None else decoding.name
            raise ConfigError(f"engine ctranslate2 searches by greedy or beam, not by {name}")
        return Pair(model, Search(decoding.name, decoding.config, translator))

    return engine


class Exported(nn.Module):
    """Stands for a model that CTranslate2 decodes: its state before the first token is the source itself."""

    def __init__(self, original: nn.Module) -> None:
        super().__init__()
        self.original = original

    def start(self, source: Padded) -> Padded:
        """The rows that CTranslate2 will read."""
        return source

    def features(self, tokens: Tensor, state: Any) -> tuple[Tensor, Any]:
        """CTranslate2 gives whole outputs only."""
        raise ConfigError("engine ctranslate2 gives whole outputs only; use engine native")


@dataclass(frozen=True)
class Search(Decoding):
    """Greedy or beam search by CTranslate2, with the settings of ours."""

    translator: Any

    def __call__(
        self,
        model: Any,
        state: Padded,
        *,
        marks: Marks,
        limits: Tensor,
        first: Tensor | None = None,
        numbers: Tensor | None = None,
        grammar: Grammar | None = None,
    ) -> list[list[Hypothesis]]:
        """The source rows -> hypotheses of each, best first, cut at its limit."""
        if first is not None or grammar is not None:
            raise ConfigError("engine ctranslate2 knows neither a beginning nor a grammar; use engine native")
        sources = zip(state.tokens.tolist(), state.lengths.tolist(), strict=True)
        results = self.translator.translate_batch(
            [[str(token) for token in row[:length]] for row, length in sources],
            beam_size=getattr(self.config, "width", 1),
            num_hypotheses=getattr(self.config, "nbest", 1),
            length_penalty=self._penalty,
            no_repeat_ngram_size=self.config.no_repeat,
            min_decoding_length=self.config.min_length,
            max_decoding_length=int(limits.max()),
            suppress_sequences=[[str(token)] for token in (marks.pad, marks.start, *self.config.forbid)],
            return_end_token=True,
            return_scores=True,
            max_batch_size=64,
        )
        return [
            [
                self._hypothesis(*pair, end=marks.end, limit=limit)
                for pair in zip(row.hypotheses, row.scores, strict=True)
            ]
            for row, limit in zip(results, limits.tolist(), strict=True)
        ]

    @property
    def _penalty(self) -> float:
        return float(getattr(self.config, "length_penalty", 0.0))

    def _hypothesis(self, words: list[str], rank: float, *, end: int, limit: int) -> Hypothesis:
        """CTranslate2 ranks by the sum of log p divided by length^penalty; the sum is what is wanted."""
        tokens = tuple(int(word) for word in words if int(word) != end)
        return Hypothesis(tokens[:limit], rank * len(words) ** self._penalty, rank)
