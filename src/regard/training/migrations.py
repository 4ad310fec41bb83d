"""Renamed settings, and the migration of run configurations to the current version.

The `RENAMED_…` tables map the names of version 6 to those of version 7. The same tables serve to refuse an old name in
a recipe, on the command line or in a request, with an error that states the new name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from regard.core.config import Table
from regard.core.errors import CheckpointError, ConfigError

CONFIG_VERSION = 7
OLDEST = 6  # the first version that can be migrated

Names = Mapping[str, str]
RENAMED_TASKS: Names = {"images": "image_generation"}
RENAMED_SECTIONS: Names = {"start": "pretrained"}
RENAMED_STRATEGIES: Names = {"prefix": "forced_prefix"}
RENAMED_DATA: Names = {  # [data] of every task
    "name": "dataset",
    "rows": "batch_size",
    "tokens": "max_batch_tokens",
    "longest": "max_length",
    "vocabulary": "vocab_size",
    "minimum": "min_frequency",
    "level": "tokenizer",
    "memory": "max_memory_mb",
    "evaluated": "eval_tokens",
    "things": "objects_per_scene",
    "drop": "condition_dropout",
}
RENAMED_DATA_BY_TASK: Mapping[str, Names] = {  # added to RENAMED_DATA for one task
    "captioning": {"held": "held_out", "features": "backbone", "weights": "backbone_weights"},
    "embeddings": {"drawn": "shared_negatives"},
    "image_generation": {"small": "low_resolution", "levels": "intensity_levels", "classes": "class_conditional"},
    "masked_language": {"share": "mask_prob", "pairs": "sentence_pairs"},
    "music": {"shown": "visible_prob"},
    "recommendation": {
        "longest": "max_history",
        "top": "eval_k",
        "held_users": "cold_users",
        "held_items": "cold_items",
        "negatives": "num_negatives",
    },
    "tagging": {"form": "format"},
}
_XLNET_REASON = (
    "xlnet now has the relative positions of its paper (section 2.4), without this setting; train runs of earlier "
    "versions again"
)
REMOVED_MODEL: Mapping[str, Names] = {  # settings of earlier architectures, by model
    "xlnet": {"max_distance": _XLNET_REASON, "reach": _XLNET_REASON}
}
RENAMED_OPTIONS: Mapping[str, Names] = {  # options of a request, by task
    "captioning": {"nbest": "n", "cover": "occlude"},
    "classification": {"top": "n"},
    "detection": {"least": "threshold"},
    "embeddings": {"top": "n"},
    "image_classification": {"nbest": "n"},
    "image_generation": {"count": "n"},
    "language": {"samples": "n"},
    "masked_language": {"top": "n"},
    "music": {"samples": "n", "exactly": "exact_length", "keep": "prompt_seconds", "like": "condition"},
    "recommendation": {"count": "n", "again": "include_seen", "search": "index"},
    "translation": {"nbest": "n"},
}
PERCENT_METRICS: Mapping[str, tuple[str, ...]] = {  # metrics that were percentages before they became shares, by task
    "captioning": ("exact", "pointing", "more_exact"),
    "detection": ("ap50", "ap"),
    "image_classification": ("accuracy",),
}
RENAMED_MODEL: Mapping[str, Names] = {  # [model], by model
    "bahdanau": {"word_scale": "embedding_scale"},
    "bert": {"hidden": "ffn_dim"},
    "bilstm_crf": {"letters": "char_dim"},
    "captioner": {
        "word_scale": "embedding_scale",
        "tied": "tie_embeddings",
        "named": "bag_of_words_weight",
        "choices": "policy_weight",
        "openness": "entropy_weight",
        "expected": "soft_prob",
        "gradual": "hard_warmup",
        "grid": "feature_dim",
        "coverage": "coverage_weight",
    },
    "detr": {"hidden": "ffn_dim"},
    "flat_attention": {"inner": "attention_dim", "mixer": "encoder", "sentence_mixer": "sentence_encoder"},
    "gpt": {"hidden": "ffn_dim", "scale": "scale_embeddings"},
    "hierarchical": {"inner": "attention_dim", "mixer": "encoder", "sentence_mixer": "sentence_encoder"},
    "image_transformer": {
        "hidden": "ffn_dim",
        "line": "block_1d",
        "query": "query_block",
        "memory": "memory_block",
        "places": "position_unit",
        "surroundings": "neighbourhood",
    },
    "luong": {"word_scale": "embedding_scale", "feed": "input_feeding"},
    "music_transformer": {"hidden": "ffn_dim", "reach": "max_distance", "sight": "lookahead_layers"},
    "recommender": {"hidden": "ffn_dim"},
    "sasrec": {"hidden": "ffn_dim"},
    "seq2seq": {"word_scale": "embedding_scale"},
    "tagger": {"hidden": "ffn_dim", "letters": "char_dim"},
    "transformer": {"hidden": "ffn_dim", "share": "tie_embeddings", "scale": "scale_embeddings"},
    "vit": {"hidden": "ffn_dim"},
    "xlnet": {"hidden": "ffn_dim"},
}
RENAMED_TRAINING: Mapping[str, Names] = {  # [training] and its sections
    "": {"probe": "probe_input"},
    "optimizer": {
        "decay": "weight_decay",
        "accumulate": "accumulation_steps",
        "clip": "max_grad_norm",
        "nonfinite": "on_nonfinite",
    },
    "schedule": {"floor": "min_lr_ratio"},
    "evaluation": {"more": "higher_is_better", "average": "average_last"},
    "files": {"keep": "keep_checkpoints"},
}
RENAMED_PRETRAINED: Names = {"only": "params", "vectors": "word_vectors", "table": "embedding"}
RENAMED_DECODING: Names = {
    "width": "beam_width",
    "no_repeat": "no_repeat_ngram_size",
    "forbid": "suppress_tokens",
    "samples": "num_samples",
}
RENAMED_VALUES: Mapping[str, Mapping[Any, Any]] = {  # data.KEY -> old value -> new value
    "class_conditional": {"told": True, "ignored": False},
}


def renamed_data(task: str) -> Names:
    """Return the renamed settings (old -> new) in [data] of a built-in task."""
    return {**RENAMED_DATA, **RENAMED_DATA_BY_TASK.get(task, {})}


def check_renamed(names: Iterable[str], settings: type[Any], renamed: Names, prefix: str = "") -> None:
    """Raise a ConfigError for the first old name, if the dataclass `settings` has the new field and not the old one."""
    fields = {field.name for field in dataclasses.fields(settings)}
    for name in names:
        if name in renamed and name not in fields and renamed[name] in fields:
            raise renamed_error(prefix + name, prefix + renamed[name])


def check_removed(model: str, names: Iterable[str]) -> None:
    """Raise a ConfigError for a setting of a model whose architecture has changed: its old weights do not fit."""
    for name in names:
        if reason := REMOVED_MODEL.get(model, {}).get(name):
            raise ConfigError(f"model.{name}: {reason}")


def check_renamed_value(name: object, key: str, renamed: Names) -> None:
    """Raise a ConfigError for the old name of a task or strategy, as in decoding=prefix."""
    if isinstance(name, str) and name in renamed:
        raise renamed_error(f"{key}={name}", f"{key}={renamed[name]}")


def renamed_error(old: str, new: str) -> ConfigError:
    """Return the error for an old name."""
    return ConfigError(f"{old} was renamed; write {new}")


def _renamed(table: Any, names: Names) -> Any:
    return {names.get(key, key): value for key, value in table.items()} if isinstance(table, dict) else table


def _rename_settings(table: Table) -> Table:
    """Version 6 -> 7: use the setting names of PyTorch, Hugging Face and fairseq."""
    table = _renamed(table, RENAMED_SECTIONS)
    task = table.get("task")
    if isinstance(task, str) and "." not in task:  # a third-party task names its own settings
        table["task"] = task = RENAMED_TASKS.get(task, task)
        table["data"] = _renamed_values(_renamed(table.get("data", {}), renamed_data(task)))
    model, decoding, training = table.get("model"), table.get("decoding"), table.get("training")
    if isinstance(model, dict):
        table["model"] = _renamed(model, RENAMED_MODEL.get(str(model.get("name")), {}))
    if isinstance(decoding, dict) and "." not in str(decoding.get("name")):
        name = decoding.get("name")
        table["decoding"] = {**_renamed(decoding, RENAMED_DECODING), "name": RENAMED_STRATEGIES.get(str(name), name)}
    if isinstance(training, dict):
        sections = {key: _renamed(value, RENAMED_TRAINING.get(key, {})) for key, value in training.items()}
        table["training"] = _renamed(sections, RENAMED_TRAINING[""])
    if "pretrained" in table:
        table["pretrained"] = _renamed(table["pretrained"], RENAMED_PRETRAINED)
    return table


def _renamed_values(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    return {
        key: RENAMED_VALUES[key].get(value, value) if key in RENAMED_VALUES and isinstance(value, str) else value
        for key, value in data.items()
    }


# version -> the function that migrates a table of that version to the next
MIGRATIONS: Mapping[int, Callable[[Table], Table]] = MappingProxyType({6: _rename_settings})


def migrate(table: Table, where: Path) -> Table:
    """Migrate a run's configuration to the current version, or raise an error that names the version."""
    version = table.get("version")
    if not isinstance(version, int) or version < 1:
        raise CheckpointError(f"{where}: version={version!r} is not a version of a run's configuration")
    if version > CONFIG_VERSION:
        raise CheckpointError(
            f"{where}: version {version} was written by a newer regard; this one reads up to {CONFIG_VERSION}: upgrade "
            "regard"
        )
    if version < OLDEST:
        raise CheckpointError(
            f"{where}: version {version} is too old; this regard reads versions {OLDEST} to {CONFIG_VERSION}: train "
            "the run again"
        )
    table = {key: value for key, value in table.items() if key != "version"}
    for step in range(version, CONFIG_VERSION):
        table = MIGRATIONS[step](table)
    return table


def to_shares(task: str, metrics: Mapping[str, float]) -> dict[str, float]:
    """Return stored metrics with shares between 0 and 1. Metrics of earlier runs above 1 are percentages."""
    names = [name for name in PERCENT_METRICS.get(task, ()) if name in metrics]
    is_percentage = any(metrics[name] > 1 for name in names)
    return {name: value / 100 if is_percentage and name in names else value for name, value in metrics.items()}
