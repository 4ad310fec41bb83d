"""Runs on the Hugging Face Hub: `hf:USER/NAME`, or `hf:USER/NAME@REVISION`, stands wherever a run folder is accepted.

A run is downloaded once for each commit to the folder `hub` of the cache. It contains data only: a repository with
code, pickles or any other file that regard does not write is refused before anything is downloaded. The rules for
untrusted runs (core/trust.py) and the checksums of the run apply when it is loaded.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from regard.core.errors import ConfigError, HubError, RegardError, TrustError
from regard.core.extras import require
from regard.core.files import cache_folder, draft_folder, flush_folder

PREFIX = "hf:"
FOLDER = "hub"  # in the cache folder
ENDPOINT = "https://huggingface.co"  # HF_ENDPOINT replaces it
REQUIRED_FILES = ("config.json", "model.safetensors")
HUB_FILES = (".gitattributes", ".gitignore")  # written by the Hub; never downloaded
DATA_SUFFIXES = frozenset(".json .safetensors .md .txt .tsv .csv .toml .png .jpg .wav .mid".split())
PLAIN_NAMES = frozenset({"LICENSE", "NOTICE"})
_NAME = re.compile(r"([\w-][\w.-]*/[\w-][\w.-]*)(?:@([\w./-]+))?")


class HubName(NamedTuple):
    """A repository of the Hub, and optionally a branch, tag or commit."""

    repository: str  # USER/NAME
    revision: str | None

    def __str__(self) -> str:
        return f"{PREFIX}{self.repository}{f'@{self.revision}' if self.revision else ''}"


def is_hub_name(run: Path | str) -> bool:
    """Return True for `hf:…`."""
    return str(run).startswith(PREFIX)


def parse_name(text: str) -> HubName:
    """`hf:USER/NAME[@REVISION]` -> its parts."""
    match = _NAME.fullmatch(text.removeprefix(PREFIX))
    if match is None or ".." in text:
        raise ConfigError(f"{text}: not a name on the Hub; write hf:USER/NAME or hf:USER/NAME@REVISION")
    return HubName(match[1], match[2])


def client() -> Any:
    """Return the client of the Hub; HF_ENDPOINT and HF_TOKEN are those of huggingface_hub."""
    library = require("huggingface_hub", extra="huggingface")
    return library.HfApi(endpoint=endpoint(), library_name="regard")


def endpoint() -> str:
    """Return the address of the Hub."""
    return os.environ.get("HF_ENDPOINT", "").rstrip("/") or ENDPOINT


def download(text: str) -> Path:
    """`hf:USER/NAME[@REVISION]` -> a local run folder; only a commit that is not in the cache is downloaded."""
    name = parse_name(text)
    with wrap_errors(name):
        hub = client()
        info = hub.model_info(name.repository, revision=name.revision)
        files = [entry.rfilename for entry in info.siblings or ()]
        check_files(files, name)
        target = hub_folder() / name.repository / str(info.sha)
        if not target.is_dir():
            _download(hub, name.repository, str(info.sha), files=files, target=target)
    return target


def _download(hub: Any, repository: str, commit: str, *, files: list[str], target: Path) -> None:
    """Download a commit next to its place, then rename the folder; another process may be faster."""
    with draft_folder(target) as draft:
        patterns = [file for file in files if file not in HUB_FILES]
        hub.snapshot_download(repository, revision=commit, local_dir=draft, allow_patterns=patterns)
        shutil.rmtree(draft / ".cache", ignore_errors=True)  # bookkeeping of huggingface_hub
        flush_folder(draft)
        with suppress(OSError):
            draft.rename(target)
        if not target.is_dir():
            raise HubError(f"{target}: cannot be created; set REGARD_CACHE to a folder that can be written")


def hub_folder() -> Path:
    """Return the cache folder of downloaded runs."""
    return cache_folder() / FOLDER


def is_downloaded(run: Path) -> bool:
    """Return True for a run in the cache of the Hub; such a run is read-only."""
    return run.resolve().is_relative_to(hub_folder().resolve())


def check_files(files: list[str], name: HubName) -> None:
    """Raise an error unless the files are those of a run: data that regard writes, and nothing that can be executed."""
    for file in files:
        path = PurePosixPath(file)
        is_inside = not path.is_absolute() and ".." not in path.parts and not set(file) & set("\\:\0")
        is_data = path.suffix in DATA_SUFFIXES or path.name in PLAIN_NAMES or file in HUB_FILES
        if not (is_inside and is_data):
            raise TrustError(
                f"{name}: contains {file!r}, which is not a data file of a run; nothing was downloaded. Runs have "
                "safetensors, JSON and text, without code and without pickles"
            )
    if missing := [file for file in REQUIRED_FILES if file not in files]:
        raise HubError(
            f"{name}: not a run of regard ({' and '.join(missing)} missing); for models of transformers use "
            "regard import"
        )


@contextmanager
def wrap_errors(name: HubName) -> Iterator[None]:
    """Turn errors of the client into one line with a remedy."""
    errors: Any = require("huggingface_hub.errors", extra="huggingface")
    try:
        yield
    except RegardError:
        raise
    except Exception as error:
        is_upload = isinstance(error, RuntimeError) and error.__cause__ is not None  # the client wraps failed uploads
        problem = _describe(error.__cause__ if is_upload else error, name, errors)
        if problem is None:
            raise
        raise HubError(f"{name}: {problem}") from None


def _describe(error: BaseException | None, name: HubName, errors: Any) -> str | None:
    """Return problem and remedy of an error of the client; None for a bug."""
    problems = {  # subclasses first
        errors.OfflineModeIsEnabled: "HF_HUB_OFFLINE is set; unset it, or use a run folder",
        errors.RevisionNotFoundError: "the repository has no such branch, tag or commit; leave out @REVISION",
        errors.GatedRepoError: f"access is restricted; request it on {endpoint()}/{name.repository}",
        errors.RepositoryNotFoundError: "no such repository, or it is private; check the name, or log in with "
        "`hf auth login` or HF_TOKEN",
        errors.LocalTokenNotFoundError: "not logged in; run `hf auth login`, or set HF_TOKEN",
    }
    for kind, problem in problems.items():
        if isinstance(error, kind):
            return problem
    if isinstance(error, errors.HfHubHTTPError):
        return _describe_status(getattr(error.response, "status_code", None))
    if isinstance(error, OSError) or type(error).__module__.startswith("http"):  # transport errors of the HTTP library
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        return (
            f"{endpoint()} cannot be reached ({reason}); check the network, or use a run folder. Downloaded runs are "
            f"in {hub_folder()}"
        )
    return None


def _describe_status(status: int | None) -> str:
    if status in (401, 403):
        return f"{endpoint()} refuses access ({status}); log in with `hf auth login`, or set HF_TOKEN with write access"
    return f"{endpoint()} answered with status {status}; try again later"
