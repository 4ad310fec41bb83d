"""Export a run to Hugging Face transformers, ONNX, CTranslate2 or a web page."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

import torch

from regard.convert import huggingface, onnx
from regard.convert.web import export_page
from regard.core.errors import CheckpointError, ConfigError, did_you_mean
from regard.core.extras import require
from regard.core.files import file_sha256
from regard.engines import engine
from regard.engines.ctranslate2 import search as ct2_search
from regard.engines.ctranslate2.export import export as to_spec
from regard.engines.select import find_difference
from regard.training.load_run import LoadedRun, load_run
from regard.training.run_folder import check_available, create_export_folder


def export_run(run: Path, to: str, out: Path, *, trust: bool = False) -> list[str]:
    """Export a run folder to the folder `out` -> lines that describe the export and how it was verified."""
    if to not in EXPORTERS:
        raise ConfigError(f"unknown format {to!r}; {did_you_mean(to, EXPORTERS)}")
    check_available(out)
    parts = load_run(run, trust=trust)
    if parts.task.export_obstacle:
        setting = parts.task.export_obstacle
        raise ConfigError(
            f"{run}: an export contains the model alone, and {setting} adds to its inputs or outputs; "
            f"export a run that was trained without {setting}"
        )
    return EXPORTERS[to](parts, out)


def _huggingface(parts: LoadedRun, out: Path) -> list[str]:
    name, count = huggingface.export(parts, out)
    return [f"{out}: a {name} for transformers, with equal logits and equal predictions for {count} inputs (README.md)"]


def _ctranslate2(parts: LoadedRun, out: Path) -> list[str]:
    require("ctranslate2", extra="ctranslate2")
    counts: list[int] = []

    def write_files(draft: Path) -> None:
        export = draft / "export"
        to_spec(parts.model, parts.task.spec, export, key=file_sha256(parts.folder / "model.safetensors"))
        counts.append(_compare_engines(parts))
        for path in export.iterdir():
            path.rename(draft / path.name)
        export.rmdir()
        for path in parts.folder.glob("tokenizer*.json"):
            shutil.copyfile(path, draft / path.name)

    create_export_folder(out, write_files)
    how = "predictions are equal" if parts.recipe.decoding is None else "greedy search gives equal results"
    (count,) = counts
    return [f"{out}: for CTranslate2, with token ids; {how} for {count} texts"]


def _compare_engines(parts: LoadedRun) -> int:
    """Return the number of texts for which both engines give equal results; a difference is an error."""
    task, decoding = parts.task, parts.recipe.decoding
    texts = [text for text in task.comparison_inputs or task.examples if text]
    if not texts:
        raise CheckpointError(f"{parts.folder}: no examples on which the export can be compared; nothing was written")
    greedy = None if decoding is None else decoding.as_strategy(ct2_search.SUPPORTED_STRATEGIES[0])
    inputs = [task.parse_input(text) for text in texts]
    options = parts.recipe.task.module("tasks").Options()
    with torch.no_grad():
        native, external = (
            task.predict(model, inputs, options, search)
            for model, search in (engine.build(name, parts)(greedy) for name in ("native", "ctranslate2"))
        )
    if difference := find_difference(texts, native, external):
        raise CheckpointError(f"{parts.folder}: {difference}; nothing was written")
    return len(texts)


def _onnx(parts: LoadedRun, out: Path) -> list[str]:
    return onnx.export(parts, out)


EXPORTERS: Mapping[str, Callable[[LoadedRun, Path], list[str]]] = MappingProxyType(
    {"huggingface": _huggingface, "onnx": _onnx, "ctranslate2": _ctranslate2, "web": export_page.export}
)
