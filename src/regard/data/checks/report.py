"""Report on a path: its layout, the data as training reads it, findings, and the command that trains on it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from regard.core import config as configs
from regard.core.errors import ConfigError, DataError, RegardError, did_you_mean, quote_setting
from regard.data.checks import captions, detect_layout, music, plain_text, ratings, speech, tagged
from regard.data.checks import documents as check_documents
from regard.data.checks import images as check_images
from regard.data.checks import pairs as check_pairs
from regard.data.checks.detect_layout import LAYOUTS, Layout
from regard.data.checks.findings import Finding, merge_equal
from regard.data.checks.images import CheckedImages
from regard.data.files import text_files
from regard.data.text import document_files
from regard.data.text.pair_files import DEFAULT_LANGUAGES, Languages

LAYOUT_DESCRIPTIONS: dict[Layout, str] = {
    "pairs": "sentence pairs",
    "documents": "documents with labels",
    "tagged": "tagged words",
    "images": "images",
    "captions": "images with captions",
    "speech": "recordings with transcripts",
    "ratings": "ratings of items by users",
    "text": "plain text",
    "music": "music",
}
TASKS: dict[Layout, str] = {
    "pairs": "translation",
    "documents": "classification",
    "tagged": "tagging",
    "images": "image_classification",
    "captions": "captioning",
    "speech": "speech_recognition",
    "ratings": "recommendation",
    "text": "language",
    "music": "music",
}
TEXT_LAYOUTS = ("pairs", "documents", "tagged", "text")  # layouts whose files have an encoding


@dataclass(frozen=True)
class PairOptions:
    """Settings of [data] for sentence pairs."""

    source: str = DEFAULT_LANGUAGES.source
    target: str = DEFAULT_LANGUAGES.target
    columns: tuple[str, ...] = ()
    header: bool | None = None


class Report(NamedTuple):
    """The result of a check."""

    layout: Layout
    lines: list[str]  # about the data: layout, encodings, numbers, columns, the first example
    findings: list[Finding]
    task: str  # task that trains on the data
    settings: dict[str, object]  # its settings of [data]: the path, with the given or the detected settings

    @property
    def command(self) -> str:
        """The `regard train` command for the data."""
        words = [quote_setting(f"data.{name}={_format_value(value)}") for name, value in self.settings.items()]
        return " ".join([f"regard train {self.task}", *words])


def examine(path: Path, layout: str = "auto", options: Mapping[str, Any] | None = None) -> Report:
    """File or folder -> the report; the layout is detected if it is not given.

    `options` are settings of [data], as for training: source, target, columns, header; label, text, header, separator.
    """
    if layout != "auto" and layout not in LAYOUTS:
        raise ConfigError(f"no layout {layout!r}; {did_you_mean(layout, ['auto', *LAYOUTS])}")
    chosen: Layout = detect_layout.detect_layout(path, options) if layout == "auto" else layout  # type: ignore[assignment]  # checked above
    settings = dict(options or {})
    images = check_images.examine(path) if chosen == "images" else None
    findings = images.findings if images is not None else _findings(path, chosen, settings)
    lines = [f"{path}: {LAYOUT_DESCRIPTIONS[chosen]}"]
    if chosen in TEXT_LAYOUTS:
        lines += _encoding_lines(path)
    with suppress(RegardError):  # the findings have the error
        lines += _describe(path, chosen, settings, images)
    task = "image_generation" if images is not None and not images.has_classes else TASKS[chosen]
    key = "paths" if chosen == "text" else "path"
    with_path = {key: str(path), **(settings or _detected_settings(path, chosen, images))}
    return Report(chosen, lines, merge_equal(findings), task, with_path)


def _findings(path: Path, layout: Layout, options: Mapping[str, Any]) -> list[Finding]:
    checks: dict[Layout, Callable[[], list[Finding]]] = {
        "pairs": lambda: check_pairs.check(path, _languages(options)),
        "documents": lambda: check_documents.check(path, _document_layout(options)),
        "tagged": lambda: tagged.check(path),
        "captions": lambda: captions.check(path),
        "speech": lambda: speech.check(path),
        "ratings": lambda: ratings.check(path, options),
        "text": lambda: plain_text.check(path),
        "music": list,
    }
    return checks[layout]()


def _describe(path: Path, layout: Layout, options: Mapping[str, Any], images: CheckedImages | None) -> list[str]:
    """Return lines about the data: its size, the columns that are read, and the first example."""
    if images is not None:
        return check_images.describe(images)
    descriptions: dict[Layout, Callable[[], list[str]]] = {
        "pairs": lambda: check_pairs.describe(path, _languages(options)),
        "documents": lambda: check_documents.describe(path, _document_layout(options)),
        "tagged": lambda: tagged.describe(path),
        "captions": lambda: captions.describe(path),
        "speech": lambda: speech.describe(path),
        "ratings": lambda: ratings.describe_ratings(path, options),
        "text": lambda: plain_text.describe(path),
        "music": lambda: music.describe(path),
    }
    return descriptions[layout]()


def _encoding_lines(path: Path) -> list[str]:
    files = [path] if path.is_file() else sorted(file for file in path.iterdir() if file.is_file())
    lines: list[str] = []
    for file in files:
        with suppress(DataError):  # the check reports the error
            lines += text_files.encoding_remarks([file])
    return lines


def _languages(options: Mapping[str, Any]) -> Languages | None:
    if not options:
        return None
    return Languages(**dataclasses.asdict(configs.from_dict(PairOptions, dict(options), "data")))


def _document_layout(options: Mapping[str, Any]) -> document_files.Layout | None:
    return configs.from_dict(document_files.Layout, dict(options), "data") if options else None


def _detected_settings(path: Path, layout: Layout, images: CheckedImages | None) -> Mapping[str, object]:
    """Return the detected settings that differ from the defaults: languages, columns, the size of images."""
    if images is not None:
        return images.size_settings
    if layout == "pairs":
        languages = check_pairs.detect_languages(path)
        return {} if languages == DEFAULT_LANGUAGES else {"source": languages.source, "target": languages.target}
    if layout != "documents":
        return {}
    columns = check_documents.guess_layout(path)
    return {} if columns == document_files.Layout() else {"label": columns.label, "text": columns.text}


def _format_value(value: object) -> str:
    """Format a setting for the command line."""
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
