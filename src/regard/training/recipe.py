"""Recipes: all settings of a run, read from TOML, `key=value` words or a dict, and written to the run's config.json."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.core import config as configs
from regard.core.config import Table
from regard.core.errors import ConfigError, did_you_mean
from regard.core.registry import find, registered_names
from regard.decoding.strategy import DecodingStrategy
from regard.tasks import check_fit
from regard.training import migrations
from regard.training.config import BUDGET_SETTINGS, Config, Pretrained
from regard.training.pretrained_settings import with_source_settings

Settings = Sequence[str] | Mapping[str, Any]  # ["model.dim=8"], {"model.dim": 8} or {"model": {"dim": 8}}
_SECTIONS = ("task", "seed", "data", "model", "pretrained", "training", "decoding")
AUTO = "auto"  # model.preset=auto: sizes and training follow the data
_NAMED_SECTIONS = ("model", "decoding")  # model=luong is short for model.name=luong


@dataclass(frozen=True)
class ComponentChoice:
    """A task or model: its registry name and its settings."""

    name: str
    config: Any

    def module(self, package: str) -> ModuleType:
        """Return its module, found in `regard.<package>`."""
        return find(f"regard.{package}", self.name)


@dataclass(frozen=True)
class PlanRequest:
    """Settings that the user gave, which a plan keeps, and whether the other ones follow the data."""

    explicit: frozenset[str]  # dotted names
    follows_data: bool  # True: vocabulary, batches, model and training; False: the schedule of training.minutes only


@dataclass(frozen=True)
class Recipe:
    """All settings that determine a run."""

    task: ComponentChoice
    model: ComponentChoice
    training: Config
    decoding: DecodingStrategy | None  # None: the task does not decode
    seed: int = 1
    pretrained: Pretrained | None = None  # None: all weights are initialized from the seed
    plan: PlanRequest | None = dataclasses.field(
        default=None, compare=False
    )  # what training derives from the data before it starts; None: nothing

    def to_dict(self) -> Table:
        """Return plain values, including all defaults; the inverse of `from_dict`."""
        table: Table = {"task": self.task.name, "seed": self.seed, "data": configs.to_dict(self.task.config)}
        table["model"] = {"name": self.model.name, **configs.to_dict(self.model.config)}
        if self.pretrained is not None:
            table["pretrained"] = configs.to_dict(self.pretrained)
        table["training"] = configs.to_dict(self.training)
        if self.decoding is not None:
            table["decoding"] = {"name": self.decoding.name, **configs.to_dict(self.decoding.config)}
        return table

    def with_settings(self, settings: Settings) -> Recipe:
        """Return the recipe with some settings changed."""
        return from_dict(_override(self.to_dict(), settings))


def read(task: str, path: Path | None = None, *, settings: Settings = ()) -> Recipe:
    """Read the recipe of a task: its defaults, overridden by a TOML file, overridden by settings.

    Settings are words such as "model=transformer", or a dict with nested or dotted keys. The model settings of
    `pretrained.run` override the defaults.
    """
    migrations.check_renamed_value(task, "task", migrations.RENAMED_TASKS)
    table = configs.read_toml(path) if path else {}
    table = _override(table, settings)
    if table.setdefault("task", task) != task:
        raise ConfigError(f"task={table['task']!r}, but {task!r} was requested; request the task of the recipe")
    request, table = _plan_request(task, table)
    defaults = with_source_settings(getattr(find("regard.tasks", task), "DEFAULTS", {}), table, task)
    recipe = from_dict(_merge_sections(defaults, table))
    return dataclasses.replace(recipe, plan=request)


def _plan_request(task: str, table: Table) -> tuple[PlanRequest | None, Table]:
    """Return what is derived from the data, and the table without model.preset=auto.

    Settings follow the data for model.preset=auto, and for own data if no size of the model is set. The schedule
    follows training.minutes if it is the only limit and no schedule is set.
    """
    model = table.get("model", {})
    is_requested = isinstance(model, dict) and model.get("preset") == AUTO
    if is_requested:
        table = {**table, "model": {name: value for name, value in model.items() if name != "preset"}}
    explicit = frozenset(name for name, _ in _flatten(table))
    is_own = "." not in task and _has_own_data(table.get("data")) and "pretrained" not in table
    is_default = is_own and not _has_sizes(task, explicit, model)
    follows_minutes = "training.minutes" in explicit and not any(
        name in ("training.steps", "training.epochs") or name.startswith("training.schedule.") for name in explicit
    )
    if not (is_requested or is_default or follows_minutes):
        return None, table
    return PlanRequest(explicit, follows_data=is_requested or is_default), table


def _has_sizes(task: str, explicit: frozenset[str], model: Any) -> bool:
    """Return True if a preset or a number of the model is set; scores, rates and other choices leave the sizes open."""
    names = {name.removeprefix("model.") for name in explicit if name.startswith("model.")} - {"name"}
    if not names:
        return False
    defaults = getattr(find("regard.tasks", task), "DEFAULTS", {})
    name = model.get("name") or defaults.get("model", {}).get("name", "")
    if name not in registered_names("regard.models"):
        return True
    fields = {field.name: field.default for field in dataclasses.fields(find("regard.models", name).Config)}
    is_choice = {name for name, default in fields.items() if isinstance(default, str | float | bool)}
    return not names <= is_choice


def _has_own_data(data: Any) -> bool:
    """Return True if a [data] section names files of the user or a dataset of Hugging Face."""
    if not isinstance(data, dict):
        return False
    paths = (data.get("path"), data.get("paths"))
    return any(path not in (None, "", "none", []) for path in paths) or str(data.get("dataset", "")).startswith("hf:")


def setting_texts(settings: Settings) -> list[str]:
    """Return settings as `key=value` for messages: ["a.b=1"] or {"a": {"b": 1}} -> ["a.b=1"]."""
    if isinstance(settings, Mapping):
        return [f"{name}={value}" for name, value in _flatten(settings)]
    return list(settings)


def setting_names(settings: Settings) -> list[str]:
    """Return the dotted names of settings: ["a.b=1"] or {"a": {"b": 1}} -> ["a.b"]."""
    if isinstance(settings, Mapping):
        return [name for name, _ in _flatten(settings)]
    return [setting.partition("=")[0] for setting in settings]


def _merge_sections(base: Table, table: Table) -> Table:
    """Merge `table` into `base`.

    A section that names another model or strategy, or a preset, does not inherit the settings of the one in `base`. A
    table with a training budget does not inherit the budget of `base`.
    """
    base = dict(base)
    training = table.get("training")
    if isinstance(training, dict) and any(name in training for name in BUDGET_SETTINGS):
        base["training"] = {
            name: value for name, value in base.get("training", {}).items() if name not in BUDGET_SETTINGS
        }
    for section in _NAMED_SECTIONS:
        name, base_name = table.get(section, {}).get("name"), base.get(section, {}).get("name")
        if name is not None and name != base_name:
            base.pop(section, None)
        elif "preset" in table.get(section, {}):
            base[section] = {"name": base_name}
    return configs.merge(base, table)


def _override(table: Table, settings: Settings) -> Table:
    if isinstance(settings, Mapping):
        return _override_from_dict(table, settings)
    for setting in settings:
        key, _, value = setting.partition("=")
        if key in _NAMED_SECTIONS:
            table = _merge_sections(table, configs.override({}, [f"{key}.name={value}"]))
        else:
            table = configs.override(table, [setting])
    return table


def _override_from_dict(table: Table, settings: Mapping[str, Any]) -> Table:
    changes: Table = {}
    for name, value in _flatten(settings):
        change: Any = "none" if value is None else configs.to_dict(value)
        for part in reversed((f"{name}.name" if name in _NAMED_SECTIONS else name).split(".")):
            change = {part: change}
        changes = configs.merge(changes, change)
    for section in _NAMED_SECTIONS:  # select another model before its settings are changed
        if "name" in changes.get(section, {}):
            table = _merge_sections(table, {section: {"name": changes[section]["name"]}})
    return configs.merge(table, changes)


def _flatten(settings: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """{"a": {"b": 1}} and {"a.b": 1} -> ("a.b", 1)."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from ((f"{key}.{name}", inner) for name, inner in _flatten(value))
        else:
            yield str(key), value


def from_dict(table: Table) -> Recipe:
    """Build a recipe from its table; an unknown section, name or key raises a ConfigError."""
    _check_renamed_names(table)
    for key, value in table.items():
        if key not in _SECTIONS:
            raise ConfigError(_unknown_key(key, table))
        if key not in ("task", "seed") and not isinstance(value, dict):
            raise ConfigError(f"{key}={value!r} is not a section; write settings as {key}.name=…")
    task, seed = table.get("task"), table.get("seed", 1)
    if not isinstance(task, str):
        raise ConfigError(f"task={task!r} must be the name of a task: {', '.join(registered_names('regard.tasks'))}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ConfigError(f"seed={seed!r} must be an integer, 0 or more")
    model = _name("model", table.get("model", {}))
    check_fit(task, model)
    _check_renamed_settings(table, task, model)
    return Recipe(
        task=ComponentChoice(task, configs.from_dict(find("regard.tasks", task).Config, table.get("data", {}), "data")),
        model=ComponentChoice(model, _settings("model", find("regard.models", model), table["model"])),
        training=configs.from_dict(Config, table.get("training", {}), "training"),
        decoding=_decoding(table["decoding"]) if "decoding" in table else None,
        seed=seed,
        pretrained=configs.from_dict(Pretrained, table["pretrained"], "pretrained") if "pretrained" in table else None,
    )


def _unknown_key(key: str, table: Table) -> str:
    """Return the message for a key that is not a section; a setting without its section is named: training.steps."""
    names: dict[str, str] = {}  # last part of a dotted name -> that name
    for name in _dotted_settings(table):
        names.setdefault(name.rpartition(".")[2], name)
    close = [] if get_close_matches(key, _SECTIONS, cutoff=0.75) else get_close_matches(key, names, n=1, cutoff=0.75)
    if key in names or close:
        return f"no setting {key!r}; did you mean {names[key if key in names else close[0]]!r}?"
    return f"{key!r} is not a section of a recipe; {did_you_mean(key, _SECTIONS)}"


def _dotted_settings(table: Table) -> Iterator[str]:
    """Yield the dotted names of the settings of a recipe, those of [training] first."""
    yield from (name for name, _ in _flatten({"training": configs.to_dict(Config())}))
    for section, package in (("data", "tasks"), ("model", "models"), ("decoding", "decoding.strategies")):
        name = table.get("task") if section == "data" else table.get(section, {}).get("name")
        if isinstance(name, str) and ("." in name or name in registered_names(f"regard.{package}")):
            fields = dataclasses.fields(find(f"regard.{package}", name).Config)
            yield from (f"{section}.{field.name}" for field in fields)


def _check_renamed_names(table: Table) -> None:
    """Refuse sections, tasks and strategies under their old names."""
    for key in table:
        if key in migrations.RENAMED_SECTIONS:
            raise migrations.renamed_error(f"[{key}]", f"[{migrations.RENAMED_SECTIONS[key]}]")
    migrations.check_renamed_value(table.get("task"), "task", migrations.RENAMED_TASKS)
    if isinstance(table.get("decoding"), dict):
        migrations.check_renamed_value(table["decoding"].get("name"), "decoding", migrations.RENAMED_STRATEGIES)


def _check_renamed_settings(table: Table, task: str, model: str) -> None:
    """Refuse settings under their old names. Tasks, models and strategies of other packages name their own settings."""
    if "." not in task:
        config = find("regard.tasks", task).Config
        migrations.check_renamed(table.get("data", {}), config, migrations.renamed_data(task), "data.")
    migrations.check_removed(model, table["model"])
    if model in migrations.RENAMED_MODEL:
        config = find("regard.models", model).Config
        migrations.check_renamed(table["model"], config, migrations.RENAMED_MODEL[model], "model.")
    training, defaults = table.get("training", {}), Config()
    for section, renamed in migrations.RENAMED_TRAINING.items():
        settings = training.get(section, {}) if section else training
        config, prefix = (getattr(defaults, section), f"training.{section}.") if section else (defaults, "training.")
        if isinstance(settings, dict):
            migrations.check_renamed(settings, type(config), renamed, prefix)
    migrations.check_renamed(table.get("pretrained", {}), Pretrained, migrations.RENAMED_PRETRAINED, "pretrained.")
    strategy = table.get("decoding", {}).get("name")
    if isinstance(strategy, str) and "." not in strategy:
        config = find("regard.decoding.strategies", strategy).Config
        migrations.check_renamed(table["decoding"], config, migrations.RENAMED_DECODING, "decoding.")


def _decoding(section: Table) -> DecodingStrategy:
    name = _name("decoding", section)
    return DecodingStrategy(name, _settings("decoding", find("regard.decoding.strategies", name), section))


def _name(section_name: str, section: Table) -> str:
    name = section.get("name")
    if not isinstance(name, str):
        example = {"model": "transformer", "decoding": "beam"}[section_name]
        raise ConfigError(f"{section_name}.name={name!r} must be a name, for example {section_name}={example}")
    return name


def _settings(section_name: str, module: ModuleType, section: Table) -> Any:
    """Build the Config of a module from a section of a recipe; other settings override those of its `preset`."""
    settings = {key: value for key, value in section.items() if key not in ("name", "preset")}
    preset = section.get("preset")
    if preset is not None:
        presets = getattr(module, "PRESETS", {})
        if preset not in presets:
            raise ConfigError(f"{module.__name__} has no preset {preset!r}; {did_you_mean(str(preset), presets)}")
        settings = configs.merge(configs.to_dict(presets[preset]), settings)
    names = {field.name for field in dataclasses.fields(module.Config)}
    for key in settings:
        if key not in names:
            choices = [*names, "name", *(["preset"] if section_name == "model" else [])]
            raise ConfigError(f"{section_name}: no setting {key!r}; {did_you_mean(key, choices)}")
    return configs.from_dict(module.Config, settings, section_name)
