"""The verbs of all tasks as methods of a run, each a thin call of `answer`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.errors import ConfigError
from regard.core.task import Prediction

if TYPE_CHECKING:
    from regard.training.recipe import Recipe


class Verbs:
    """A run has the verb of its task; any other says in one line which that is.

    Inputs are what the task's `read` takes: a text, or the path of a file. Options are those of `run.options`, and
    `decoding={"beam_width": 8}` changes the search.
    """

    folder: Path
    recipe: Recipe
    verb: str
    verbs: tuple[str, ...]

    def predict(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Inputs -> the answers to each, best first."""
        raise NotImplementedError

    def translate(self, texts: Sequence[str], **options: Any) -> list[str]:
        """The best translation of each text."""
        return [answers[0].text for answers in self._ask("translate", texts, options)]

    def generate(self, prompt: Any = "", /, **options: Any) -> list[Prediction]:
        """New works, from nothing or going on from a beginning, likeliest first; `answer.files` makes their files."""
        if isinstance(prompt, list | tuple):
            raise ConfigError("generate goes on from one beginning; write generate(text), or answer([…]) for several")
        return self._ask("generate", [prompt], options)[0]

    def classify(self, inputs: Sequence[Any], **options: Any) -> list[Prediction]:
        """The likeliest class of each input; `answer` gives the others too."""
        return [answers[0] for answers in self._ask("classify", inputs, options)]

    def tag(self, texts: Sequence[str], **options: Any) -> list[Prediction]:
        """Each text with a tag for every word."""
        return [answers[0] for answers in self._ask("tag", texts, options)]

    def fill(self, texts: Sequence[str], **options: Any) -> list[list[Prediction]]:
        """Each text with its gaps filled, likeliest first."""
        return self._ask("fill", texts, options)

    def complete(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Continuations of each beginning, likeliest first."""
        return self._ask("complete", inputs, options)

    def upscale(self, images: Sequence[Any], **options: Any) -> list[Prediction]:
        """Each image with more pixels."""
        return [answers[0] for answers in self._ask("upscale", images, options)]

    def caption(self, images: Sequence[Any], **options: Any) -> list[str]:
        """A sentence about each image."""
        return [answers[0].text for answers in self._ask("caption", images, options)]

    def detect(self, images: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """The objects in each image, surest first."""
        return self._ask("detect", images, options)

    def recommend(self, users: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Items for each user, best first."""
        return self._ask("recommend", users, options)

    def nearest(self, words: Sequence[str], **options: Any) -> list[list[Prediction]]:
        """The words nearest to each word, or to a sum such as "king - man + woman"."""
        return self._ask("nearest", words, options)

    def _ask(self, verb: str, inputs: Sequence[Any], options: dict[str, Any]) -> list[list[Prediction]]:
        if verb not in self.verbs:
            other = self.verb if hasattr(Verbs, self.verb) else "predict"
            task = self.recipe.task.name
            raise ConfigError(f"{self.folder} was trained for {task}, whose verb is {self.verb}; run.{other}(…)")
        return self.predict(inputs, **options)


def as_list(inputs: Any, verb: str) -> list[Any]:
    """Inputs in whatever holds them (a list, an array, the column of a table) -> a list; one text alone is none."""
    if isinstance(inputs, str | Path) or not isinstance(inputs, Iterable):
        raise ConfigError(f"{verb} takes a list of texts; write {verb}([text])")
    return list(inputs)


def check_texts(inputs: Sequence[Any], error: Exception) -> None:
    """Something went wrong with these inputs: name the first that is no text, such as an empty cell of a table."""
    for number, given in enumerate(inputs, start=1):
        if not isinstance(given, str):
            what = f"input {number} is {repr(given)[:40]} ({type(given).__name__}), which cannot be read: {error}"
            raise ConfigError(f"{what}; give a text, or the path of a file where the task opens files") from error
