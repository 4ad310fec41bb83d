"""A run in Python: load one or train one, then ask it, evaluate it, check it and look inside it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.api.verbs import Verbs, as_list, check_texts
from regard.core import config as configs
from regard.core import trust as trusts
from regard.core.errors import ConfigError, DataError, did_you_mean
from regard.core.task import Prediction, Task
from regard.decoding.strategy import DecodingStrategy
from regard.engines import engine as engine_registry
from regard.engines.engine import Engine, EngineHandle
from regard.engines.select import EngineSelector
from regard.engines.torch_free import TorchFreePredictor
from regard.inspection import invariants, training_snapshots
from regard.inspection.invariants import CheckResult
from regard.inspection.report import InspectionReport, inspect_run
from regard.training import data_paths, migrations
from regard.training import recipe as recipes
from regard.training import train as runs
from regard.training.console import Console, SilentConsole
from regard.training.device import select_device
from regard.training.load_run import LoadedRun, load_run
from regard.training.recipe import Recipe, Settings, setting_names
from regard.training.run_folder import RunFolder, read_identity


@dataclass(frozen=True)
class NoOptions:
    """The options of a task that declares none."""


class Run(Verbs):
    """A trained model with its task: what a run folder holds."""

    folder: Path
    recipe: Recipe  # every choice it was made with
    task: Task
    model: nn.Module  # in evaluation mode
    verb: str  # what people call what it does: "translate"
    verbs: tuple[str, ...]  # the same, where it has several names
    options: type[Any]  # the dataclass of what one can ask for in a request
    settings: Settings  # changes to its recipe, as given when it was loaded

    def __init__(
        self,
        parts: LoadedRun,
        settings: Settings = (),
        *,
        device: str = "cpu",
        engine: str = engine_registry.NATIVE,
        precision: str = "float32",
    ) -> None:
        self.folder, self.recipe, self.task, self.model = parts.folder, parts.recipe, parts.task, parts.model
        module = self.recipe.task.module("tasks")
        usual = getattr(module, "VERB", "predict")
        self.verbs = self.task.verbs or tuple(getattr(module, "VERBS", (usual,)))
        self.verb = usual if usual in self.verbs else self.verbs[0]
        self.options = getattr(module, "Options", NoOptions)
        self.settings, self._device, self._engine_name, self._precision = settings, device, engine, precision
        self._parts, self._trusted = parts, parts.trusted
        self._loaded = engine_registry.model_fingerprint(self.model)

    def __repr__(self) -> str:
        names = f"{self.recipe.model.name} for {self.recipe.task.name}"
        return f"Run({str(self.folder)!r}: {names}, {_short(self.parameters)} parameters)"

    def __reduce__(self) -> tuple[Callable[..., Run], tuple[str, Settings]]:
        """A pickled run is its folder and how it was loaded: no weights, and no code of ours but `load`."""
        again = partial(load, device=self._device, engine=self._engine_name, precision=self._precision)
        again = partial(again, trust=self._trusted)
        return again, (str(self.folder.resolve()), self.settings)

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return sum(weight.numel() for weight in self.model.parameters())

    def predict(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Inputs -> the answers to each, best first.

        A text is given to the task to read: it is an input itself or the path of one. Options are the fields of
        `run.options`; `decoding="greedy"` or `decoding={"beam_width": 8}` changes the search.
        """
        inputs = as_list(inputs, self.verb)
        request, decoding = self.parse_request(options)
        quick = self._quick(request, decoding)
        if quick is not None and all(isinstance(given, str) for given in inputs):
            return quick.predict(inputs) if inputs else []
        model, decoding = self._pair(request, decoding)
        if not inputs:
            return []
        try:
            return self.task.predict(model, [self.parse_input(given) for given in inputs], request, decoding)
        except (TypeError, AttributeError) as wrong:
            check_texts(inputs, wrong)
            raise

    def engine_handle(self, decoding: DecodingStrategy | None) -> EngineHandle:
        """What answers a request with this decoding, step by step: the model and the decoder that the task is handed.
        Engine auto, which chooses by the whole request, has our own here."""
        return self._engine(decoding)

    def torch_free_predictor(self, **options: Any) -> TorchFreePredictor | None:
        """What answers texts with these options without the task, by engine auto; None where nothing does."""
        return self._quick(*self.parse_request(options))

    def external_engine(self, request: Any, decoding: DecodingStrategy | None) -> EngineHandle | None:
        """What answers this request by engine auto, where it is not our own engine; compared now if it never was."""
        pair = self._pair(request, decoding)
        return pair if self._auto is not None and self._auto.chosen else None

    def cache_command(self, settings: Sequence[str], **options: Any) -> None:
        """Note which request the words of a command stand for, so that the next such command needs no torch."""
        if self._auto is not None:
            self._auto.cache_command(settings, *self.parse_request(options))

    @property
    def engine_note(self) -> str:
        """Why engine auto had our own engine answer the last request, where another might have; else nothing."""
        why = "" if self._auto is None else self._auto.why
        return f"engine native: {why}" if why else ""

    @property
    def uses_external_engine(self) -> bool:
        """Whether the last request was answered by a library that has threads of its own."""
        return self._engine_name == "ctranslate2" or (self._auto is not None and self._auto.chosen)

    def _pair(self, request: Any, decoding: DecodingStrategy | None) -> EngineHandle:
        return self.engine_handle(decoding) if self._auto is None else self._auto.handle_for(request, decoding)

    def _quick(self, request: Any, decoding: DecodingStrategy | None) -> TorchFreePredictor | None:
        def slow(texts: list[str]) -> list[list[Prediction]]:
            model, search = self.engine_handle(decoding)
            return self.task.predict(model, [self.parse_input(text) for text in texts], request, search)

        return None if self._auto is None else self._auto.torch_free_predictor(request, decoding, slow)

    def parse_input(self, raw_input: Any) -> Any:
        """A text, or the path of a file, through the task's `read`; what is neither is an input already."""
        named = isinstance(raw_input, str) or (isinstance(raw_input, Path) and bool(self.task.input_suffixes))
        return self.task.parse_input(str(raw_input)) if named else raw_input

    def parse_request(self, options: Mapping[str, Any]) -> tuple[Any, DecodingStrategy | None]:
        """Options by name -> a value of the task's Options, and the decoding of this request."""
        names = [field.name for field in fields(self.options)]
        own = self.recipe.decoding
        migrations.check_renamed(options, self.options, migrations.RENAMED_OPTIONS.get(self.recipe.task.name, {}))
        for name in options:
            if name not in (*names, "decoding"):
                close = (
                    f"did you mean 'decoding.{name}'?" if own and own.has_setting(name) else did_you_mean(name, names)
                )
                raise ConfigError(f"{self.verb}: no setting {name!r}; {close}")
        wanted = options.get("decoding", own)
        if wanted is not None and not isinstance(wanted, DecodingStrategy):
            wanted = self.recipe.with_settings({"decoding": wanted}).decoding
        table = {name: value for name, value in options.items() if name != "decoding"}
        return configs.from_dict(self.options, table, self.verb), wanted

    def inspect(self, raw_input: Any, **options: Any) -> InspectionReport:
        """Every attention map of one input, as a page: shows itself in a notebook, `.save("page.html")` elsewhere."""
        request, decoding = self.parse_request(options)
        return inspect_run(self, raw_input, options=request, decoding=decoding)

    def evaluate(self, split: str = "test", **asked: Any) -> dict[str, float]:
        """Free-running scores on a split; the goal's metric is among them. `asked`: see `tested`."""
        with self._with_data():
            return self.evaluation_task(**asked).evaluate(self.model, split, self.recipe.decoding)

    def extra_metrics(self, split: str = "test", **asked: Any) -> dict[str, float]:
        """Further scores, which take longer."""
        with self._with_data():
            return self.evaluation_task(**asked).extra_metrics(self.model, split, self.recipe.decoding)

    @contextmanager
    def _with_data(self) -> Iterator[None]:
        with torch.no_grad(), trusts.trust_scope(self.folder, trusted=self._trusted):
            try:
                yield
            except DataError:
                data_paths.check_paths_exist(self.recipe, self.folder)  # which says what to do where the data has moved
                raise

    def evaluation_task(self, **asked: Any) -> Task:
        """The task as it is evaluated, with what its file's `Evaluation` lets one ask for: other texts, say."""
        request = configs.from_dict(self.evaluation_options, asked, "evaluate")
        return (self.task if self.uses_training_data else self.task.as_test_data()).with_evaluation_options(request)

    @property
    def evaluation_options(self) -> type[Any]:
        """The dataclass of what an evaluation can be told."""
        kind: type[Any] = getattr(self.recipe.task.module("tasks"), "Evaluation", NoOptions)
        return kind

    @cached_property
    def uses_training_data(self) -> bool:
        """Whether the data is what the run was trained with: it is unless settings name other data."""
        if not any(name.startswith("data.") for name in setting_names(self.settings)):
            return True
        return data_paths.is_same_data(self.task, read_identity(RunFolder(self.folder)).fingerprint)

    def check(self) -> list[CheckResult]:
        """The laws that this model must keep, each with what was found."""
        return invariants.check(self.task, self.model, self.recipe.decoding, options=self.options())

    @cached_property
    def _engine(self) -> Engine:
        return engine_registry.build(self._engine_name, self._parts, self._precision)

    @cached_property
    def _auto(self) -> EngineSelector | None:
        if self._engine_name != engine_registry.AUTO:
            return None
        return EngineSelector(
            self._parts,
            precision=self._precision,
            is_unmodified=lambda: engine_registry.model_fingerprint(self.model) == self._loaded,
        )


def _short(count: int) -> str:
    """5_512_000 -> '5.5 M'."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            return f"{count / size:.1f} {letter}"
    return str(count)


def load(
    folder: Path | str,
    settings: Settings = (),
    *,
    device: str = "cpu",
    engine: str = engine_registry.NATIVE,
    precision: str = "float32",
    trust: bool = False,
) -> Run:
    """A run from its folder, which needs nothing else; settings such as "decoding.beam_width=8" are laid over its own.

    `device` is cpu, cuda, mps or auto. `engine` is what decodes: native, for every model; ctranslate2, for plain
    Transformers; auto, that of the two which is faster, where both answer alike; int8, for Transformers, faster where
    they are wide and not exact, which `precision="int8"` is for the others. A run that was not trained on this
    machine imports nothing from outside regard and fetches nothing, unless you `trust` whoever made it.
    """
    parts = load_run(folder, settings, device=select_device(device), trust=trust)
    return Run(parts, settings, device=device, engine=engine, precision=precision)


def train(
    task: str,
    settings: Settings = (),
    *,
    out: Path | str,
    recipe: Path | str | None = None,
    device: str | None = None,
    quiet: bool = False,
) -> Run:
    """Train: `regard.train("translation", {"model": "transformer", "training.minutes": 5}, out="runs/first")`.

    `device` is where it is trained and then used, cpu, cuda, mps or auto; `quiet` says nothing while it works.
    """
    settings = _with_device(settings, device)
    chosen = recipes.read(task, None if recipe is None else Path(recipe), settings=settings)
    return load(
        runs.train(chosen, out, step_callback=training_snapshots.record_snapshot, console=_console(quiet)),
        device=device or "cpu",
    )


def resume(
    folder: Path | str,
    settings: Settings = (),
    *,
    device: str | None = None,
    quiet: bool = False,
    trust: bool = False,
    new_log: bool = False,
) -> Run:
    """Go on with a run as if it had never stopped; settings may change its [training] and its [decoding].

    `new_log` sets a log aside that was lost or changed; the others are those of `train` and `load`.
    """
    runs.resume(
        folder,
        _with_device(settings, device),
        step_callback=training_snapshots.record_snapshot,
        console=_console(quiet),
        trust=trust,
        new_log=new_log,
    )
    return load(folder, device=device or "cpu", trust=trust)


def _with_device(settings: Settings, device: str | None) -> Settings:
    if device is None:
        return settings
    if isinstance(settings, Mapping):
        return {**settings, "training.hardware.device": device}
    return [*settings, f"training.hardware.device={device}"]


def _console(quiet: bool) -> Console | None:
    return SilentConsole() if quiet else None
