"""A recipe: every choice of a run. Read from TOML and `key=value`, written whole into the run's config.json."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from regard.core import config as configs
from regard.core.config import Table
from regard.core.errors import ConfigError, did_you_mean
from regard.core.registry import find
from regard.decoding.strategy import DecodingStrategy
from regard.tasks import check_fit
from regard.training.config import BUDGET_SETTINGS, Config, Pretrained

_SECTIONS = ("task", "seed", "data", "model", "pretrained", "training", "decoding")


@dataclass(frozen=True)
class ComponentChoice:
    """A task or a model by the name of its file, and its settings."""

    name: str
    config: Any

    def module(self, package: str) -> ModuleType:
        """The module so named."""
        return find(f"regard.{package}", self.name)


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a run computes."""

    task: ComponentChoice
    model: ComponentChoice
    training: Config
    decoding: DecodingStrategy | None  # None: the task decodes nothing
    seed: int = 1
    pretrained: Pretrained | None = None  # None: all weights begin as the seed gives them

    def to_dict(self) -> Table:
        """Plain values with all defaults written out; `from_dict` reads them back."""
        table: Table = {"task": self.task.name, "seed": self.seed, "data": configs.to_dict(self.task.config)}
        table["model"] = {"name": self.model.name, **configs.to_dict(self.model.config)}
        if self.pretrained is not None:
            table["pretrained"] = configs.to_dict(self.pretrained)
        table["training"] = configs.to_dict(self.training)
        if self.decoding is not None:
            table["decoding"] = {"name": self.decoding.name, **configs.to_dict(self.decoding.config)}
        return table

    def with_settings(self, settings: Sequence[str]) -> Recipe:
        """The recipe with settings laid over it."""
        return from_dict(_override(self.to_dict(), settings))


def read(task: str, path: Path | None = None, *, settings: Sequence[str] = ()) -> Recipe:
    """The recipe of a task: its defaults, then a TOML file, then `key=value` settings such as `model=transformer`."""
    table = configs.read_toml(path) if path else {}
    table = _override(table, settings)
    if table.setdefault("task", task) != task:
        raise ConfigError(f"task={table['task']!r}, but {task!r} was asked for; run: regard train {table['task']}")
    return from_dict(_lay_over(getattr(find("regard.tasks", task), "DEFAULTS", {}), table))


def _lay_over(base: Table, table: Table) -> Table:
    """Merge, but a section that names another model or decoder, or a preset, does not inherit the settings of the
    default one, and a recipe that says how long to train is not cut short by the default's budget."""
    kept = dict(base)
    training = table.get("training")
    if isinstance(training, dict) and any(name in training for name in BUDGET_SETTINGS):
        kept["training"] = {
            name: value for name, value in kept.get("training", {}).items() if name not in BUDGET_SETTINGS
        }
    for section in ("model", "decoding"):
        own, default = table.get(section, {}).get("name"), base.get(section, {}).get("name")
        if own is not None and own != default:
            kept.pop(section, None)
        elif "preset" in table.get(section, {}):
            kept[section] = {"name": default}
    return configs.merge(kept, table)


def _override(table: Table, settings: Sequence[str]) -> Table:
    for setting in settings:
        key, _, value = setting.partition("=")
        if key in ("model", "decoding"):
            named = configs.override({}, [f"{key}.name={value}"])
            table = _lay_over(table, named)
        else:
            table = configs.override(table, [setting])
    return table


def from_dict(table: Table) -> Recipe:
    """A recipe from its table; an unknown section, name or key is an error that names it."""
    for key, value in table.items():
        if key not in _SECTIONS:
            raise ConfigError(f"no section {key!r} in a recipe; {did_you_mean(key, _SECTIONS)}")
        if key not in ("task", "seed") and not isinstance(value, dict):
            raise ConfigError(f"{key}={value!r} is not a section; settings go below it, as in {key}.name=…")
    task, seed = table.get("task"), table.get("seed", 1)
    if not isinstance(task, str):
        raise ConfigError(f"task={task!r} must be the name of a task; see: regard list tasks")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ConfigError(f"seed={seed!r} must be a whole number, 0 or more")
    model = _name("model", table.get("model", {}))
    check_fit(task, model)
    return Recipe(
        task=ComponentChoice(task, configs.from_dict(find("regard.tasks", task).Config, table.get("data", {}), "data")),
        model=ComponentChoice(model, _settings("model", find("regard.models", model), table["model"])),
        training=configs.from_dict(Config, table.get("training", {}), "training"),
        decoding=_decoding(table["decoding"]) if "decoding" in table else None,
        seed=seed,
        pretrained=configs.from_dict(Pretrained, table["pretrained"], "pretrained") if "pretrained" in table else None,
    )


def _decoding(section: Table) -> DecodingStrategy:
    name = _name("decoding", section)
    return DecodingStrategy(name, _settings("decoding", find("regard.decoding.strategies", name), section))


def _name(where: str, section: Table) -> str:
    name = section.get("name")
    if not isinstance(name, str):
        example = {"model": "transformer", "decoding": "beam"}[where]
        raise ConfigError(f"{where}.name={name!r} must be given as a name, for example {where}={example}")
    return name


def _settings(where: str, module: ModuleType, section: Table) -> Any:
    """A value of a file's Config, from a section of a recipe; a `preset` in it is laid below the other settings."""
    settings = {key: value for key, value in section.items() if key not in ("name", "preset")}
    preset = section.get("preset")
    if preset is not None:
        presets = getattr(module, "PRESETS", {})
        if preset not in presets:
            raise ConfigError(f"{module.__name__} has no preset {preset!r}; {did_you_mean(str(preset), presets)}")
        settings = configs.merge(configs.to_dict(presets[preset]), settings)
    return configs.from_dict(module.Config, settings, where)
