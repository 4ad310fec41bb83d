"""Import a Hugging Face model as a run: convert its vocabulary, rename its weights and write a recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.convert import huggingface, image_processor, weight_map
from regard.convert.image_processor import ImageProcessor
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

MISSING_TOKENIZER = (
    "regard reads tokenizers of the library tokenizers: save a PreTrainedTokenizerFast next to the model. "
    "A vocab.txt or sentencepiece file alone is not read"
)
MISSING_FILES = {image_processor.FILE: "save the image processor next to the model: processor.save_pretrained(folder)"}
TASKS_OF_OTHER_MODELS = {"xlnet": "masked_language"}  # models that are not the default of a task
MASKED_EXAMPLES = ["The capital of France is [MASK]."]  # example input of the run


class SourceModel(NamedTuple):
    """A model of transformers with its vocabularies or its image processor."""

    layout: ModuleType
    model: Any
    vocabularies: Mapping[str, ImportedVocabulary]
    processor: ImageProcessor | None

    def to_original(self, table: str, inputs: Tensor) -> Tensor:
        """Inputs of regard, token ids or pixels -> inputs of the original model."""
        return (
            self.vocabularies[table].to_source_ids(inputs)
            if self.processor is None
            else self.processor.normalize(inputs)
        )


def import_model(source: str, out: Path) -> Path:
    """Import a transformers folder, or a model of the hub, into the run folder `out` and return it."""
    check_available(out)
    library = require("transformers", extra="huggingface")
    layout, huggingface_model = huggingface.load_pretrained(source, library)
    model, data = layout.settings_from_huggingface(huggingface_model)
    vocabularies = _vocabularies(source, layout, huggingface_model, data, library) if layout.TEMPLATE else {}
    if "start_token" in data:
        data["start_token"] = vocabularies["text"].adds_start_token
    processor = _image_processor(source, data, library)
    task = task_of(layout.MODEL)
    recipe = recipes.read(task, settings={"model": {"name": layout.MODEL, **model}, "data": data})

    source_model = SourceModel(layout, huggingface_model, vocabularies, processor)

    def fill(draft: RunFolder) -> None:
        _write_files(draft.path, source_model, data)
        origin = {"source": source, "architecture": type(huggingface_model).__name__}
        write_text(draft.origin, json.dumps(origin, indent=1, ensure_ascii=False) + "\n")
        _write_run(draft, recipe, source_model)

    create_run_folder(out, fill)
    trusts.mark_trusted(out)
    parts = load_run(out, trust=True)
    progress = Progress(step=0, best=BestEvaluation(step=0), run=None, ended="imported")
    model_card.write(RunFolder(out), parts.recipe, task=parts.task, model=parts.model, progress=progress)
    return out


def task_of(model: str) -> str:
    """Return the task of a model: the one whose default model it is, or whose default model it can replace."""
    return TASKS_OF_OTHER_MODELS.get(model) or _task_with_default(model)


def _task_with_default(model: str) -> str:
    for name in registered_names("regard.tasks"):
        defaults = read_constant(source_path("regard.tasks", name), "DEFAULTS")
        if isinstance(defaults, dict) and defaults.get("model", {}).get("name") == model:
            return name
    raise ConfigError(f"no task has the default model {model}")


def _vocabularies(
    source: str, layout: ModuleType, huggingface_model: Any, data: Mapping[str, Any], library: Any
) -> dict[str, ImportedVocabulary]:
    """Return the vocabularies of a model by the names that its tables use."""
    config, mask = huggingface_model.config, "sentence_pairs" in data  # set for masked language models
    special_token_ids = {"pad": config.pad_token_id, "end": getattr(config, "eos_token_id", None)}
    starts = (getattr(config, name, None) for name in ("decoder_start_token_id", "bos_token_id"))
    special_token_ids["start"] = next((token_id for token_id in starts if token_id is not None), None)
    if data.get("joint", True):
        path = _file(source, "tokenizer.json", library)
        both = read_vocabulary(path, size=config.vocab_size, special_token_ids=special_token_ids, mask=mask)
        return dict.fromkeys(("source", "target", "text"), both)
    num_source = getattr(config, "source_vocab_size", 0)  # of two vocabularies in one, exported by regard
    sizes = {
        "source": num_source or config.vocab_size,
        "target": config.vocab_size - num_source if num_source else config.decoder_vocab_size,
    }
    vocabularies = {
        name: read_vocabulary(
            _file(source, f"tokenizer.{name}.json", library), size=size, special_token_ids=special_token_ids
        )
        for name, size in sizes.items()
    }
    if num_source:
        vocabularies["source"] = replace(vocabularies["source"], offset=sizes["target"])
    return vocabularies


def _image_processor(source: str, data: Mapping[str, Any], library: Any) -> ImageProcessor | None:
    """Return the image processor of a model folder; None if the model has no images."""
    if "height" not in data:
        return None
    path = _file(source, image_processor.FILE, library)
    return image_processor.read(path, **{name: data[name] for name in ("height", "width", "channels")})


def _file(source: str, name: str, library: Any) -> Path:
    """Return a file of the model folder or of the hub."""
    try:
        path = library.utils.hub.cached_file(source, name, _raise_exceptions_for_missing_entries=False)
    except OSError:
        path = None
    if path is None:
        raise DataError(f"{source}: no {name}; {MISSING_FILES.get(name, MISSING_TOKENIZER)}")
    return Path(path)


def _write_files(folder: Path, source: SourceModel, data: Mapping[str, Any]) -> None:
    """Write the files that a task stores in its run folder."""
    vocabularies, processor = source.vocabularies, source.processor
    if "joint" in data and not data["joint"]:
        for name in ("source", "target"):
            vocabularies[name].tokenizer.save(folder / f"tokenizer.{name}.json")
    elif vocabularies:
        vocabularies["text"].tokenizer.save(folder / "tokenizer.json")
    if "sentence_pairs" in data:
        write_text(folder / "examples.json", json.dumps(MASKED_EXAMPLES) + "\n")
    if processor is not None:
        shape = {name: data[name] for name in ("height", "width", "channels")} | {"resample": processor.resample}
        labels = source.model.config.id2label
        classes = [str(labels[index]) for index in sorted(labels)]
        write_text(folder / "images.json", json.dumps({"shape": shape, "classes": classes}, indent=1) + "\n")
        levels = np.linspace(0, 255, data["height"] * data["width"] * data["channels"]).astype(np.uint8)
        write_bytes(folder / "example.png", encode_png(levels.reshape(data["height"], data["width"], data["channels"])))


def _write_run(draft: RunFolder, recipe: Recipe, source: SourceModel) -> None:
    """Write config.json and weights, after the logits were compared."""
    task: Any = recipe.task.module("tasks").load(recipe.task.config, draft.path)
    with preserve_rng_state():
        model = build_model(recipe, task).eval()
        tensors = _convert_weights(recipe, task.spec, source)
        names = checkpoint.model_weights(model)
        checkpoint.restore_weights(model, {name: tensors[name] for name in names}, draft.model)
        huggingface.check_logits(source.layout, model, source.model, task.spec, ids=source.to_original)
        identity = new_identity(recipe, file_checksums(draft), {})
        write_config(draft, recipe, identity)
        facts: JSONObject = {"run": identity.run_id, "step": 0, "metrics": {}}
        tensor_files.write_tensors(draft.model, _to_float32(checkpoint.model_weights(model)), facts)


def _convert_weights(recipe: Recipe, sizes: Any, source: SourceModel) -> weight_map.Tensors:
    """Return the weights of the model of regard, with token rows in the order of its vocabulary."""
    layout, vocabularies = source.layout, source.vocabularies
    mappings = layout.weight_mappings(recipe.model.config, sizes, source.model.config)
    tensors: weight_map.Tensors = layout.finish(
        weight_map.from_huggingface(mappings, source.model.state_dict()), source.model
    )
    if source.processor is not None:
        tensors = source.processor.fold(tensors, layout.FIRST_LAYER)
    for name, table in layout.tables(sizes).items():
        if name in tensors:
            tensors[name] = vocabularies[table].select_rows(tensors[name])
    if "readout.bias" in tensors and vocabularies:
        vocabulary = vocabularies[layout.tables(sizes)["readout.bias"]]
        tensors["readout.bias"] = vocabulary.suppress_missing(tensors["readout.bias"])
    return tensors


def _to_float32(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to(torch.float32) for name, tensor in tensors.items()}
