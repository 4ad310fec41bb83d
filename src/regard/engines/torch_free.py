"""Predictions without torch: a run whose CTranslate2 export is known to give the native results for a request.

It needs the task's codec (data/text/TASK_codec.py), the export, and the cache entry in equivalence.json. If any of them
is missing, there is no predictor: the run is loaded with torch, which also reports the errors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core import checksummed_json, checksums
from regard.core import trust as trusts
from regard.core.cpu import is_idle
from regard.core.errors import ConfigError, RegardError
from regard.core.prediction import Prediction
from regard.core.protocols.text_codec import TextCodec
from regard.core.registry import find, registered_names
from regard.engines.ctranslate2 import cache, search
from regard.training.migrations import migrate

CODECS = "regard.data.text"  # its modules TASK_codec.py encode and decode texts without torch
MIN_MULTITHREAD_DIM = (
    512  # features from which several threads predict a few rows faster than one, on a busy machine too
)
FallbackPredict = Callable[[list[str]], list[list[Prediction]]]
Table = Mapping[str, Any]


@dataclass(frozen=True)
class TorchFreePredictor:
    """Predicts one kind of request of a run with its export."""

    codec: TextCodec
    verbs: tuple[str, ...]
    translator: Any  # the export
    decoding: Table
    fallback: FallbackPredict  # predicts the texts whose search is not settled

    def predict(self, texts: Sequence[str]) -> list[list[Prediction]]:
        """Texts -> the predictions of each, best first."""
        return self.submit(texts)()

    def submit(self, texts: Sequence[str], *, return_scores: bool = True) -> Callable[[], list[list[Prediction]]]:
        """Submit texts -> a function that waits for their predictions. An invalid text raises immediately. Without
        `return_scores` the scores need not be computed."""
        rows = self.codec.encode_texts(texts)
        indices = [index for index, row in enumerate(rows) if row]  # of the texts that are not empty
        sources = [rows[index] for index in indices]
        limits = [self.codec.max_new_tokens(row) for row in sources]
        wait = search.submit(
            self.translator,
            sources,
            limits,
            decoding=self.decoding,
            special_tokens=self.codec.special_tokens,
            return_scores=return_scores,
        )

        def collect() -> list[list[Prediction]]:
            hypotheses = dict(zip(indices, wait(), strict=True))
            unsettled = [index for index, row in hypotheses.items() if row is None]
            predictions = self.codec.decode_hypotheses([hypotheses.get(index) or [] for index in range(len(rows))])
            for index in indices:
                words = self.codec.unknown_tokens(texts[index], rows[index])
                predictions[index] = [prediction.with_unknown_tokens(words) for prediction in predictions[index]]
            if unsettled:
                fallback = self.fallback([texts[index] for index in unsettled])
                for index, row in zip(unsettled, fallback, strict=True):
                    predictions[index] = row
            return predictions

        return collect


def from_command_line(
    run: Path,
    settings: Sequence[str],
    *,
    precision: str,
    few_inputs: bool,
    fallback: FallbackPredict,
    trust: bool = False,
) -> TorchFreePredictor | None:
    """Return the predictor of a run folder for the arguments of a command; None if there is none."""
    try:
        trusted = trust or trusts.is_trusted(run)
        table = migrate(checksummed_json.read_json(run / "config.json"), run / "config.json")
        if f"{table.get('task')}_codec" not in registered_names(CODECS):
            return None
        folder, key = cache.cache_path(run, trusted=trusted)
        if not folder.is_dir():
            return None
        entry = cache.EquivalenceCache(folder).get_by_command(cache.command_key(run / "config.json", settings))
        if entry is None or entry["why"] or not cache.is_complete(folder, key):
            return None
        checksums.verify_files(run, table["files"])
        single = few_inputs and (table["model"].get("dim", 0) >= MIN_MULTITHREAD_DIM or is_idle())
        with trusts.trust_scope(run, trusted=trusted):
            return from_cache_entry(
                run, folder, entry, table=table, precision=precision, single=single, fallback=fallback
            )
    except (RegardError, OSError, LookupError, TypeError, AttributeError, ValueError):
        return None


def from_cache_entry(
    run: Path, folder: Path, entry: Table, *, table: Table, precision: str, single: bool, fallback: FallbackPredict
) -> TorchFreePredictor | None:
    """Return the predictor of a request with equivalent results: `table` is the run's recipe, `entry` is from the
    EquivalenceCache."""
    if f"{table['task']}_codec" not in registered_names(CODECS):
        return None
    module = find(CODECS, f"{table['task']}_codec")
    try:
        codec: TextCodec = module.load(table["data"], run)
    except ConfigError:  # a run whose texts only the task can encode
        return None
    decoding = codec.search_settings(entry["options"], entry["decoding"])
    if decoding is None or decoding["name"] not in search.SUPPORTED_STRATEGIES:
        return None
    translator = search.open_export(folder, precision=precision, single=single)
    return TorchFreePredictor(codec, module.VERBS, translator, decoding, fallback)
