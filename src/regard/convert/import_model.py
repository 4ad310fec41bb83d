"""A model of others becomes a run: its vocabulary with our marks, its weights under our names, and a recipe for it."""

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

MASKED_EXAMPLES = ["The capital of France is [MASK]."]  # an example of a text with a gap


def import_model(source: str, out: Path) -> Path:
    """A folder of transformers, or the name of a model on its hub -> a run folder `out`, which it returns."""
    check_available(out)
    library = require("transformers", extra="huggingface")
    layout, theirs = huggingface.load_pretrained(source, library)
    model, data = layout.settings_from_theirs(theirs)
    found = _vocabularies(source, layout, theirs, data, library) if layout.TEMPLATE else {}
    task = task_of(layout.MODEL)
    recipe = recipes.read(task, settings={"model": {"name": layout.MODEL, **model}, "data": data})

    def fill(draft: RunFolder) -> None:
        _write_files(draft.path, found, theirs, data)
        _write_run(draft, recipe, layout, theirs, found)

    create_run_folder(out, fill)
    trusts.mark_trusted(out)
    parts = load_run(out, trust=True)
    now = Progress(step=0, best=BestEvaluation(step=0), run=None, ended=f"it was imported from {source}")
    model_card.write(RunFolder(out), parts.recipe, task=parts.task, model=parts.model, progress=now)
    return out


def task_of(model: str) -> str:
    """The task whose own model this is."""
    for name in registered_names("regard.tasks"):
        defaults = read_constant(source_path("regard.tasks", name), "DEFAULTS")
        if isinstance(defaults, dict) and defaults.get("model", {}).get("name") == model:
            return name
    raise ConfigError(f"no task has the model {model} as its own")


def _vocabularies(
    source: str, layout: ModuleType, theirs: Any, data: Mapping[str, Any], library: Any
) -> dict[str, ImportedVocabulary]:
    """The vocabularies of a model by what its tables call them, and the files that hold them."""
    config, mask = theirs.config, "sentence_pairs" in data  # a masked language model tells pairs apart, or not
    known = {"pad": config.pad_token_id, "end": getattr(config, "eos_token_id", None)}
    starts = (getattr(config, name, None) for name in ("decoder_start_token_id", "bos_token_id"))
    known["start"] = next((number for number in starts if number is not None), None)
    if data.get("joint", True):
        path = _file(source, "tokenizer.json", library)
        both = read_vocabulary(path, size=config.vocab_size, special_token_ids=known, mask=mask)
        return dict.fromkeys(("source", "target", "text"), both)
    sizes = {"source": config.vocab_size, "target": config.decoder_vocab_size}
    return {
        name: read_vocabulary(_file(source, f"tokenizer.{name}.json", library), size=size, special_token_ids=known)
        for name, size in sizes.items()
    }


def _file(source: str, name: str, library: Any) -> Path:
    """A file of the model's folder, or of its place on the hub."""
    try:
        found = library.utils.hub.cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    except OSError:
        found = None
    if found is None:
        raise DataError(
            f"{source}: there is no {name}, and sentencepiece files (.spm) are not read: save the tokenizer as {name} "
            "beside the model"
        )
    return Path(found)


def _write_files(folder: Path, found: Mapping[str, ImportedVocabulary], theirs: Any, data: Mapping[str, Any]) -> None:
    """What a task keeps in its run folder."""
    if "joint" in data and not data["joint"]:
        for name in ("source", "target"):
            found[name].tokenizer.save(folder / f"tokenizer.{name}.json")
    elif found:
        found["text"].tokenizer.save(folder / "tokenizer.json")
    if "sentence_pairs" in data:
        write_text(folder / "examples.json", json.dumps(MASKED_EXAMPLES) + "\n")
    if "height" in data:
        shape = {name: data[name] for name in ("height", "width", "channels")} | {"fit": "stretch", "fill": 0}
        labels = theirs.config.id2label
        classes = [str(labels[number]) for number in sorted(labels)]
        write_text(folder / "images.json", json.dumps({"shape": shape, "classes": classes}, indent=1) + "\n")
        levels = np.linspace(0, 255, data["height"] * data["width"] * data["channels"]).astype(np.uint8)
        write_bytes(folder / "example.png", encode_png(levels.reshape(data["height"], data["width"], data["channels"])))


def _write_run(
    draft: RunFolder, recipe: Recipe, layout: ModuleType, theirs: Any, found: Mapping[str, ImportedVocabulary]
) -> None:
    """config.json and weights, after the logits were found to be theirs."""
    task: Any = recipe.task.module("tasks").load(recipe.task.config, draft.path)
    with preserve_rng_state():
        model = build_model(recipe, task).eval()
        own = layout.weight_mappings(recipe.model.config, task.spec)
        tensors = layout.finish(weight_map.from_theirs(own, theirs.state_dict()), theirs)
        for name, table in layout.tables(task.spec).items():
            if name in tensors:
                tensors[name] = found[table].select_rows(tensors[name])
        if "readout.bias" in tensors and found:
            tensors["readout.bias"] = found[layout.tables(task.spec)["readout.bias"]].suppress_missing(
                tensors["readout.bias"]
            )
        wanted = checkpoint.model_weights(model)
        checkpoint.restore_weights(model, {name: tensors[name] for name in wanted}, draft.model)
        ids = lambda table, tokens: found[table].to_source_ids(tokens) if found else tokens  # noqa: E731  # an argument
        huggingface.check_logits(layout, model, theirs, task.spec, ids=ids)
        identity = new_identity(recipe, file_checksums(draft), {})
        write_config(draft, recipe, identity)
        facts: JSONObject = {"run": identity.run_id, "step": 0, "metrics": {}}
        tensor_files.write_tensors(draft.model, _plain(checkpoint.model_weights(model)), facts)


def _plain(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to(torch.float32) for name, tensor in tensors.items()}
