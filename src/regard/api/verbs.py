"""The verbs of all tasks as methods of a run, each a thin wrapper around `predict`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.core.errors import ConfigError
from regard.core.task import Prediction

if TYPE_CHECKING:
    from regard.training.recipe import Recipe


class Verbs:
    """Methods named after verbs. A verb that the task does not have raises an error that names the right one.

    An input is a text or the path of a file. Options are the fields of `run.options`; `decoding={"beam_width": 8}`
    changes the search.
    """

    folder: Path
    recipe: Recipe
    verb: str
    verbs: tuple[str, ...]

    def predict(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Inputs -> the predictions for each, best first."""
        raise NotImplementedError

    def translate(self, texts: Sequence[str], **options: Any) -> list[str]:
        """Return the best translation of each text."""
        return [predictions[0].text for predictions in self._predict_as("translate", texts, options)]

    def generate(self, prompt: Any = "", /, **options: Any) -> list[Prediction]:
        """Generate texts, images or music, with or without a prompt, most likely first."""
        if isinstance(prompt, list | tuple):
            raise ConfigError("generate takes one prompt; write generate(text), or predict([…]) for several")
        return self._predict_as("generate", [prompt], options)[0]

    def classify(self, inputs: Sequence[Any], **options: Any) -> list[Prediction]:
        """Return the most likely class of each input; `predict` returns the others too."""
        return [predictions[0] for predictions in self._predict_as("classify", inputs, options)]

    def tag(self, texts: Sequence[str], **options: Any) -> list[Prediction]:
        """Return each text with a tag for every word."""
        return [predictions[0] for predictions in self._predict_as("tag", texts, options)]

    def fill(self, texts: Sequence[str], **options: Any) -> list[list[Prediction]]:
        """Return each text with its masked positions filled, most likely first."""
        return self._predict_as("fill", texts, options)

    def complete(self, inputs: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Return completions of each input, most likely first."""
        return self._predict_as("complete", inputs, options)

    def upscale(self, images: Sequence[Any], **options: Any) -> list[Prediction]:
        """Return each image upscaled."""
        return [predictions[0] for predictions in self._predict_as("upscale", images, options)]

    def caption(self, images: Sequence[Any], **options: Any) -> list[str]:
        """Return a caption for each image."""
        return [predictions[0].text for predictions in self._predict_as("caption", images, options)]

    def transcribe(self, recordings: Sequence[Any], **options: Any) -> list[str]:
        """Return the transcript of each recording."""
        return [predictions[0].text for predictions in self._predict_as("transcribe", recordings, options)]

    def detect(self, images: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Return the objects in each image, most confident first."""
        return self._predict_as("detect", images, options)

    def recommend(self, users: Sequence[Any], **options: Any) -> list[list[Prediction]]:
        """Return items for each user, best first."""
        return self._predict_as("recommend", users, options)

    def nearest(self, words: Sequence[str], **options: Any) -> list[list[Prediction]]:
        """Return the words nearest to each word, or to a sum such as "king - man + woman"."""
        return self._predict_as("nearest", words, options)

    def _predict_as(self, verb: str, inputs: Sequence[Any], options: dict[str, Any]) -> list[list[Prediction]]:
        if verb not in self.verbs:
            method = self.verb if hasattr(Verbs, self.verb) else "predict"
            task = self.recipe.task.name
            raise ConfigError(f"{self.folder} was trained for {task}, whose verb is {self.verb}; run.{method}(…)")
        return self.predict(inputs, **options)


def as_list(inputs: Any, verb: str) -> list[Any]:
    """Inputs in any container (a list, an array, a column of a table) -> a list; a single text is an error."""
    if isinstance(inputs, str | Path) or not isinstance(inputs, Iterable):
        raise ConfigError(f"{verb} takes a list of texts; write {verb}([text])")
    shape: tuple[int, ...] = tuple(getattr(inputs, "shape", ()))
    if len(shape) == 3 and shape[-1] in (1, 3, 4):
        raise ConfigError(f"{verb} takes a list of inputs, not one array of shape {shape}; write {verb}([array])")
    return list(inputs)


def check_texts(inputs: Sequence[Any], error: Exception) -> None:
    """Raise an error for the first input that is not a text, such as an empty cell of a table."""
    for index, raw_input in enumerate(inputs, start=1):
        if not isinstance(raw_input, str):
            value = f"{repr(raw_input)[:40]} ({type(raw_input).__name__})"
            remedy = "give a text, or the path of a file if the task reads files"
            raise ConfigError(f"input {index} is {value}, which cannot be read: {error}; {remedy}") from error
