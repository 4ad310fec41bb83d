"""What translates for a run: our own engine, exact or with 8-bit weights, or CTranslate2 with the same weights."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from regard.api import narrow
from regard.api.export import export
from regard.api.ready import Ready
from regard.api.shortlist import Shortlist, open_shortlist
from regard.api.workers import available
from regard.core.errors import ConfigError, nearest
from regard.core.extras import require
from regard.training.recipe import Recipe
from regard.training.run import Run

Candidate = tuple[str, float]  # an output and its log probability
Engine = Callable[[Sequence[str], Recipe], list[list[Candidate]]]
NATIVE = "native"


def build(name: str, run: Run, *, shortlist: int = 0) -> Engine:
    """native: every model, exact. int8: a Transformer, weights rounded to 8 bits. ctranslate2: a plain Transformer.

    `shortlist` is how many target tokens may come for a source token, beside the frequent ones; with 0 all may.
    """
    makers = {NATIVE: _native, "int8": _rounded, "ctranslate2": _ctranslate2}
    if name not in makers:
        raise ConfigError(f"no engine {name!r}; {nearest(name, makers)}")
    if not hasattr(run.task, "translate"):
        raise ConfigError(f"{run.folder} was trained for {run.recipe.task.name!r}, which does not translate")
    return makers[name](run, open_shortlist(run, shortlist) if shortlist else None)


def _native(run: Run, among: Shortlist | None) -> Engine:
    model = Ready(run.model)
    if among is None:
        return lambda texts, recipe: run.task.translate(model(), texts, decoding=recipe.decoder())
    return _narrow(run, model, among)


def _rounded(run: Run, among: Shortlist | None) -> Engine:
    whole: Any = run.model
    if not hasattr(whole, "prepared"):
        raise ConfigError(f"engine int8 is for the Transformer; {type(run.model).__name__} needs engine native")
    model = whole.prepared("int8")
    if among is None:
        return lambda texts, recipe: run.task.translate(model, texts, decoding=recipe.decoder())
    return _narrow(run, lambda: model, among)


def _narrow(run: Run, model: Callable[[], Any], among: Shortlist) -> Engine:
    def translate(texts: Sequence[str], recipe: Recipe) -> list[list[Candidate]]:
        search, config = recipe.decoding.module("decoding").decode, recipe.decoding.config
        decoding = partial(narrow.decode, search=search, config=config)
        found: list[list[Candidate]] = run.task.translate(narrow.Listed(model(), among), texts, decoding=decoding)
        return found

    return translate


def _ctranslate2(run: Run, among: Shortlist | None) -> Engine:
    library = require("ctranslate2", extra="ctranslate2")
    digest = hashlib.sha256((run.folder / "model.safetensors").read_bytes()).hexdigest()
    name = f"ctranslate2-{digest[:12]}" + (f"-shortlist-{among.each}" if among else "")
    folder = run.folder / name  # made once for these weights
    if not folder.exists():
        export(run.model, run.task.sizes, folder, vocabulary_map=among.lines() if among else ())
    workers = available()
    translator = library.Translator(str(folder), compute_type="float32", inter_threads=workers, intra_threads=1)

    def translate(texts: Sequence[str], recipe: Recipe) -> list[list[Candidate]]:
        full = [number for number, text in enumerate(texts) if text.strip()]
        found: list[list[Candidate]] = [[("", 0.0)] for _ in texts]
        if full:
            source = run.task.encode_sources([texts[number] for number in full])
            rows = [row[:n] for row, n in zip(source.tokens.tolist(), source.lengths.tolist(), strict=True)]
            best = _search(translator, rows, run=run, recipe=recipe, listed=among is not None)
            for number, row, one in zip(full, rows, best, strict=True):
                limit = _limit(len(row), run)
                found[number] = [_candidate(run, h, s, limit=limit, recipe=recipe) for h, s in one]
        return found

    return translate


def _search(
    translator: Any, rows: list[list[int]], *, run: Run, recipe: Recipe, listed: bool
) -> list[list[tuple[list[str], float]]]:
    config, marks = recipe.decoding.config, run.task.marks
    if recipe.decoding.name not in ("greedy", "beam"):
        raise ConfigError(f"engine ctranslate2 searches by greedy or beam, not by {recipe.decoding.name}")
    never = [marks.pad, marks.start, *config.forbid]
    results = translator.translate_batch(
        [[str(token) for token in row] for row in rows],
        beam_size=getattr(config, "width", 1),
        num_hypotheses=getattr(config, "nbest", 1),
        length_penalty=getattr(config, "length_penalty", 0.0),
        no_repeat_ngram_size=config.no_repeat,
        min_decoding_length=config.min_length,
        max_decoding_length=max(_limit(len(row), run) for row in rows),
        suppress_sequences=[[str(token)] for token in never],
        return_end_token=True,
        return_scores=True,
        max_batch_size=64,
        use_vmap=listed,
    )
    return [list(zip(one.hypotheses, one.scores, strict=True)) for one in results]


def _limit(length: int, run: Run) -> int:
    return min(2 * length + 10, int(run.task.sizes.longest) - 1)


def _candidate(run: Run, hypothesis: list[str], score: float, *, limit: int, recipe: Recipe) -> Candidate:
    """CTranslate2 ranks by the sum divided by length^penalty; the sum is what is wanted."""
    penalty = float(getattr(recipe.decoding.config, "length_penalty", 0.0))
    tokens = [int(token) for token in hypothesis if int(token) != run.task.marks.end]
    return run.task.decode_tokens(tokens[:limit]), score * len(hypothesis) ** penalty
