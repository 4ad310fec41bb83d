"""Import a Hugging Face model as a run: convert its vocabulary, rename its weights and write a recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.convert import huggingface, weight_map
from regard.convert.vocabulary import ImportedVocabulary, read_vocabulary
from regard.core import trust as trusts
from regard.core.checksummed_json import JSONObject
from regard.core.describe import read_constant, source_path
from regard.core.errors import ConfigError, DataError
from regard.core.extras import require
from regard.core.files import write_bytes, write_text
from regard.core.registry import registered_names
from regard.core.seed import preserve_rng_state
from regard.data.images.image_files import encode_png
from regard.training import checkpoint, model_card, tensor_files
from regard.training import recipe as recipes
from regard.training.checkpoint import BestEvaluation, Progress
from regard.training.load_run import build_model, load_run
from regard.training.recipe import Recipe
from regard.training.run_folder import (
    RunFolder,
    check_available,
    create_run_folder,
    file_checksums,
    new_identity,
    write_config,
)

MASKED_EXAMPLES = ["The capital of France is [MASK]."]  # example input of the run


def import_model(source: str, out: Path) -> Path:
    """Import a transformers folder, or a model of the hub, into the run folder `out` and return it."""
    check_available(out)
    library = require("transformers", extra="huggingface")
    layout, theirs = huggingface.load_pretrained(source, library)
    model, data = layout.settings_from_theirs(theirs)
    vocabularies = _vocabularies(source, layout, theirs, data, library) if layout.TEMPLATE else {}
    task = task_of(layout.MODEL)
    recipe = recipes.read(task, settings={"model": {"name": layout.MODEL, **model}, "data": data})

    def fill(draft: RunFolder) -> None:
        _write_files(draft.path, vocabularies, theirs, data)
        _write_run(draft, recipe, layout, theirs, vocabularies)

    create_run_folder(out, fill)
    trusts.mark_trusted(out)
    parts = load_run(out, trust=True)
    progress = Progress(step=0, best=BestEvaluation(step=0), run=None, ended=f"it was imported from {source}")
    model_card.write(RunFolder(out), parts.recipe, task=parts.task, model=parts.model, progress=progress)
    return out


def task_of(model: str) -> str:
    """Return the task whose default model this is."""
    for name in registered_names("regard.tasks"):
        defaults = read_constant(source_path("regard.tasks", name), "DEFAULTS")
        if isinstance(defaults, dict) and defaults.get("model", {}).get("name") == model:
            return name
    raise ConfigError(f"no task has the default model {model}")


def _vocabularies(
    source: str, layout: ModuleType, theirs: Any, data: Mapping[str, Any], library: Any
) -> dict[str, ImportedVocabulary]:
    """Return the vocabularies of a model by the names that its tables use."""
    config, mask = theirs.config, "sentence_pairs" in data  # set for masked language models
    special_token_ids = {"pad": config.pad_token_id, "end": getattr(config, "eos_token_id", None)}
    starts = (getattr(config, name, None) for name in ("decoder_start_token_id", "bos_token_id"))
    special_token_ids["start"] = next((token_id for token_id in starts if token_id is not None), None)
    if data.get("joint", True):
        path = _file(source, "tokenizer.json", library)
        both = read_vocabulary(path, size=config.vocab_size, special_token_ids=special_token_ids, mask=mask)
        return dict.fromkeys(("source", "target", "text"), both)
    sizes = {"source": config.vocab_size, "target": config.decoder_vocab_size}
    return {
        name: read_vocabulary(
            _file(source, f"tokenizer.{name}.json", library), size=size, special_token_ids=special_token_ids
        )
        for name, size in sizes.items()
    }


def _file(source: str, name: str, library: Any) -> Path:
    """Return a file of the model folder or of the hub."""
    try:
        path = library.utils.hub.cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    except OSError:
        path = None
    if path is None:
        raise DataError(
            f"{source}: no {name}; sentencepiece files (.spm) are not supported: save the tokenizer as {name} "
            "next to the model"
        )
    return Path(path)


def _write_files(
    folder: Path, vocabularies: Mapping[str, ImportedVocabulary], theirs: Any, data: Mapping[str, Any]
) -> None:
    """Write the files that a task stores in its run folder."""
    if "joint" in data and not data["joint"]:
        for name in ("source", "target"):
            vocabularies[name].tokenizer.save(folder / f"tokenizer.{name}.json")
    elif vocabularies:
        vocabularies["text"].tokenizer.save(folder / "tokenizer.json")
    if "sentence_pairs" in data:
        write_text(folder / "examples.json", json.dumps(MASKED_EXAMPLES) + "\n")
    if "height" in data:
        shape = {name: data[name] for name in ("height", "width", "channels")} | {"fit": "stretch", "fill": 0}
        labels = theirs.config.id2label
        classes = [str(labels[index]) for index in sorted(labels)]
        write_text(folder / "images.json", json.dumps({"shape": shape, "classes": classes}, indent=1) + "\n")
        levels = np.linspace(0, 255, data["height"] * data["width"] * data["channels"]).astype(np.uint8)
        write_bytes(folder / "example.png", encode_png(levels.reshape(data["height"], data["width"], data["channels"])))


def _write_run(
    draft: RunFolder, recipe: Recipe, layout: ModuleType, theirs: Any, vocabularies: Mapping[str, ImportedVocabulary]
) -> None:
    """Write config.json and weights, after the logits were compared."""
    task: Any = recipe.task.module("tasks").load(recipe.task.config, draft.path)
    with preserve_rng_state():
        model = build_model(recipe, task).eval()
        mappings = layout.weight_mappings(recipe.model.config, task.spec)
        tensors = layout.finish(weight_map.from_theirs(mappings, theirs.state_dict()), theirs)
        for name, table in layout.tables(task.spec).items():
            if name in tensors:
                tensors[name] = vocabularies[table].select_rows(tensors[name])
        if "readout.bias" in tensors and vocabularies:
            vocabulary = vocabularies[layout.tables(task.spec)["readout.bias"]]
            tensors["readout.bias"] = vocabulary.suppress_missing(tensors["readout.bias"])
        names = checkpoint.model_weights(model)
        checkpoint.restore_weights(model, {name: tensors[name] for name in names}, draft.model)

        def to_their_ids(table: str, tokens: Tensor) -> Tensor:
            return vocabularies[table].to_source_ids(tokens) if vocabularies else tokens

        huggingface.check_logits(layout, model, theirs, task.spec, ids=to_their_ids)
        identity = new_identity(recipe, file_checksums(draft), {})
        write_config(draft, recipe, identity)
        facts: JSONObject = {"run": identity.run_id, "step": 0, "metrics": {}}
        tensor_files.write_tensors(draft.model, _to_float32(checkpoint.model_weights(model)), facts)


def _to_float32(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to(torch.float32) for name, tensor in tensors.items()}
