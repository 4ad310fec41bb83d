"""The file name is the registry: a score, model, decoder or task is found by the name of its file."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from types import ModuleType

from regard.core import trust
from regard.core.errors import ConfigError, did_you_mean


def registered_names(package: str) -> list[str]:
    """The public modules of a package, without importing any of them, nor the package."""
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else spec.submodule_search_locations or []
    return sorted(module.name for module in pkgutil.iter_modules(folders) if not module.name.startswith("_"))


def find(package: str, name: str) -> ModuleType:
    """The module so named. A dotted name (my_lab.my_model) is imported as it is, but not for a stranger's run."""
    if "." in name:
        return _import_foreign(name)
    if name not in registered_names(package):
        kind = package.rpartition(".")[2].replace("_", " ").removesuffix("s")
        raise ConfigError(f"unknown {kind} {name!r}; {did_you_mean(name, registered_names(package))}")
    return importlib.import_module(f"{package}.{name}")


def _import_foreign(name: str) -> ModuleType:
    trust.check_import(name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if missing.name is None or not name.startswith(missing.name):
            raise
        raise ConfigError(f"no module {name!r}; is its folder on PYTHONPATH?") from None
