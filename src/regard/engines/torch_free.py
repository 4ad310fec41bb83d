"""Answers without torch: a run whose export is there and known to answer a request as our own engine does.

All that is needed are the task's rows and answers (data/text/TASK_codec.py), the export, and the word of equivalence.json. Where any of
them is missing there is no quick answer, and the run is loaded as ever, which also says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core import checksummed_json, checksums
from regard.core.cpu import is_idle
from regard.core.errors import RegardError
from regard.core.prediction import Prediction
from regard.core.protocols.text_codec import TextCodec
from regard.core.registry import find, registered_names
from regard.engines.ctranslate2 import cache, search
from regard.training.migrations import migrate

CODECS = "regard.data.text"  # TASK_codec.py there reads and writes texts without torch
MIN_MULTITHREAD_DIM = 512  # features from which several threads answer a few rows faster than one whatever else runs
FallbackPredict = Callable[[list[str]], list[list[Prediction]]]
Table = Mapping[str, Any]


@dataclass(frozen=True)
class TorchFreePredictor:
    """A run that answers one kind of request by its export."""

    codec: TextCodec
    verbs: tuple[str, ...]
    translator: Any  # the export
    decoding: Table
    fallback: FallbackPredict  # answers texts whose search was not settled, one for one

    def predict(self, texts: Sequence[str]) -> list[list[Prediction]]:
        """Texts -> the answers to each, best first."""
        return self.submit(texts)()

    def submit(self, texts: Sequence[str], *, return_scores: bool = True) -> Callable[[], list[list[Prediction]]]:
        """Hand texts over -> a function that waits for their answers. What cannot be read is an error at once. Where
        only their texts are wanted, scores need not be computed."""
        rows = self.codec.encode_texts(texts)
        full = [number for number, row in enumerate(rows) if row]
        searched = [rows[number] for number in full]
        limits = [self.codec.max_new_tokens(row) for row in searched]
        wait = search.submit(
            self.translator,
            searched,
            limits,
            decoding=self.decoding,
            special_tokens=self.codec.special_tokens,
            return_scores=return_scores,
        )

        def answers() -> list[list[Prediction]]:
            found = dict(zip(full, wait(), strict=True))
            left = [number for number, hypotheses in found.items() if hypotheses is None]
            told = self.codec.decode_hypotheses([found.get(number) or [] for number in range(len(rows))])
            if left:
                for number, own in zip(left, self.fallback([texts[number] for number in left]), strict=True):
                    told[number] = own
            return told

        return answers


def from_command_line(
    run: Path, settings: Sequence[str], *, precision: str, few_inputs: bool, fallback: FallbackPredict
) -> TorchFreePredictor | None:
    """A run folder and the words of a request -> its quick answers; None where there are none."""
    try:
        table = migrate(checksummed_json.read_json(run / "config.json"), run / "config.json")
        if f"{table.get('task')}_codec" not in registered_names(CODECS):
            return None
        folder, weights = cache.cache_path(run)
        entry = (
            cache.EquivalenceCache(folder).get_by_command(cache.command_key(run / "config.json", settings))
            if folder.is_dir()
            else None
        )
        if entry is None or entry["why"] or not cache.is_complete(folder, weights):
            return None
        checksums.verify_files(run, table["files"])
        single = few_inputs and (table["model"].get("dim", 0) >= MIN_MULTITHREAD_DIM or is_idle())
        return from_cache_entry(run, folder, entry, table=table, precision=precision, single=single, fallback=fallback)
    except (RegardError, OSError, LookupError, TypeError, AttributeError, ValueError):
        return None


def from_cache_entry(
    run: Path, folder: Path, entry: Table, *, table: Table, precision: str, single: bool, fallback: FallbackPredict
) -> TorchFreePredictor | None:
    """The same, once it is known that a request is answered alike: `table` is the run's recipe, `entry` of Agreed."""
    if f"{table['task']}_codec" not in registered_names(CODECS):
        return None
    module = find(CODECS, f"{table['task']}_codec")
    task: TextCodec = module.load(table["data"], run)
    decoding = task.search_settings(entry["options"], entry["decoding"])
    if decoding is None or decoding["name"] not in search.SUPPORTED_STRATEGIES:
        return None
    return TorchFreePredictor(
        task, module.VERBS, search.open_export(folder, precision=precision, single=single), decoding, fallback
    )
