"""Registry by file name: scores, models, decoders and tasks are looked up by the name of their module."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from types import ModuleType

from regard.core import trust
from regard.core.errors import ConfigError, did_you_mean


def registered_names(package: str) -> list[str]:
    """Return the names of a package's public modules, without importing the package or any of them."""
    spec = importlib.util.find_spec(package)
    folders = [] if spec is None else spec.submodule_search_locations or []
    return sorted(module.name for module in pkgutil.iter_modules(folders) if not module.name.startswith("_"))


def find(package: str, name: str) -> ModuleType:
    """Import a registered module by name, or any module by dotted name (my_lab.my_model).

    Dotted names are refused for untrusted runs.
    """
    if "." in name:
        return _import_external(name)
    if name not in registered_names(package):
        kind = _singular(package.rpartition(".")[2].replace("_", " "))
        raise ConfigError(f"unknown {kind} {name!r}; {did_you_mean(name, registered_names(package))}")
    return importlib.import_module(f"{package}.{name}")


def _import_external(name: str) -> ModuleType:
    trust.check_import(name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not name.startswith(error.name):
            raise
        raise ConfigError(f"no module {name!r}; is its folder on PYTHONPATH?") from None


def _singular(noun: str) -> str:
    """models -> model, strategies -> strategy."""
    return f"{noun[:-3]}y" if noun.endswith("ies") else noun.removesuffix("s")
