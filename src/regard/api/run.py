"""A run in Python: load it or train it, then translate, evaluate, check and look."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import nn

from regard.api import engines
from regard.api.engines import Candidate, Engine
from regard.core.errors import ConfigError
from regard.core.sizes import Text
from regard.inspection import laws, probes
from regard.inspection.laws import Verdict
from regard.inspection.look import Look, look
from regard.training import recipe as recipes
from regard.training import run as runs
from regard.training.recipe import Recipe


class Run:
    """A trained model with its task: what a run folder holds."""

    def __init__(self, trained: runs.Run, *, engine: str = engines.NATIVE, shortlist: int = 0) -> None:
        self._trained = trained
        self._engine_name, self._shortlist = engine, shortlist

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return self._trained.folder

    @property
    def recipe(self) -> Recipe:
        """Every choice it was made with."""
        return self._trained.recipe

    @property
    def model(self) -> nn.Module:
        """The network, in evaluation mode."""
        return self._trained.model

    @property
    def task(self) -> Any:
        """Data, vocabulary, loss and scores."""
        return self._trained.task

    @property
    def sizes(self) -> Text:
        """What the data decided."""
        sizes: Text = self.task.sizes
        return sizes

    def evaluate(self, split: str = "test") -> dict[str, float]:
        """Free-running scores on a split."""
        return self._trained.evaluate(split)

    def check(self) -> list[Verdict]:
        """The laws of decoding, on this model."""
        return laws.check(self.model, self.sizes)

    def look(self, text: str) -> Look:
        """Every attention map of one input, as a page: shows itself in a notebook, `.save("page.html")` elsewhere."""
        return look(self, text)

    def translate(self, texts: Sequence[str]) -> list[str]:
        """The best translation of each text."""
        return [candidates[0][0] for candidates in self.candidates(texts)]

    def candidates(self, texts: Sequence[str], *, nbest: int = 1) -> list[list[Candidate]]:
        """The `nbest` best translations of each text with their log probabilities, best first."""
        if isinstance(texts, str):
            raise ConfigError("translate takes a list of texts; write translate([text])")
        recipe = self.recipe if nbest == 1 else self.recipe.changed(_nbest(self.recipe, nbest))
        return self._engine(texts, recipe)

    @cached_property
    def _engine(self) -> Engine:
        return engines.build(self._engine_name, self._trained, shortlist=self._shortlist)


def load(folder: Path | str, settings: Sequence[str] = (), *, engine: str = engines.NATIVE, shortlist: int = 0) -> Run:
    """A run from its folder, which needs nothing else; settings such as "decoding.width=8" are laid over its own.

    `engine` is what translates: native; int8, faster for wide Transformers and not exact; ctranslate2, for plain ones.
    `shortlist` lets a source token become so many target tokens only, beside the frequent ones: faster and not exact.
    It is learned from the training data when it is first used, and kept in the folder. 0 lets all tokens come.
    """
    return Run(runs.load(folder, list(settings)), engine=engine, shortlist=shortlist)


def train(task: str, settings: Sequence[str] = (), *, out: Path | str, recipe: Path | str | None = None) -> Run:
    """Train: `regard.train("translation", ["model=transformer", "training.minutes=5"], out="runs/first")`."""
    chosen = recipes.read(task, None if recipe is None else Path(recipe), settings=list(settings))
    return Run(runs.train(chosen, out, watch=probes.watch))


def _nbest(recipe: Recipe, nbest: int) -> list[str]:
    """Settings that make the recipe's decoder return so many hypotheses: a beam at least as wide."""
    if nbest < 1:
        raise ConfigError(f"nbest={nbest}: ask for at least one")
    if recipe.decoding is None or recipe.decoding.name != "beam":
        return ["decoding=beam", f"decoding.width={max(5, nbest)}", f"decoding.nbest={nbest}"]
    return [f"decoding.width={max(recipe.decoding.config.width, nbest)}", f"decoding.nbest={nbest}"]
