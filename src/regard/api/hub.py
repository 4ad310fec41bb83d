"""Upload of runs to the Hugging Face Hub."""

from __future__ import annotations

from pathlib import Path

from regard.core import hub
from regard.core.checksums import verify_files
from regard.core.errors import HubError
from regard.core.extras import require
from regard.core.pretrained_runs import PREFIX, is_pretrained, locate_run
from regard.training import model_card, tensor_files
from regard.training.run_folder import RunFolder, read_identity

OPTIONAL_FILES = ("imported.json", "pretrained.json", "LICENSE.txt")


def push(run: Path | str, name: str, *, private: bool = False, message: str = "") -> str:
    """Upload a run to the Hub: `regard.push("runs/first", "hf:USER/NAME")` -> its address.

    The repository gets the configuration, the weights, the files of the task and the model card. Training logs and
    checkpoints stay on this machine. Files are verified by their checksums first.
    """
    target = hub.parse_name(name)
    if target.revision is not None:
        raise HubError(f"{target}: a run is uploaded to the main branch; leave out @REVISION")
    folder = RunFolder(locate_run(run))
    names = files_to_push(folder)
    hub.check_files(names, target)
    card = _card(folder, str(target))
    with hub.wrap_errors(target):
        client, operation = hub.client(), require("huggingface_hub", extra="huggingface").CommitOperationAdd
        if not client.repo_exists(target.repository):
            client.create_repo(target.repository, private=private)
        additions = [operation(file, card if file == folder.card.name else folder.path / file) for file in names]
        client.create_commit(target.repository, additions, commit_message=message or f"Upload {folder.path.name}")
    return f"{hub.endpoint()}/{target.repository}"


def files_to_push(folder: RunFolder) -> list[str]:
    """Return the verified files of a run that another machine needs."""
    identity = read_identity(folder)
    verify_files(folder.path, identity.files)
    if not folder.model.exists():
        raise HubError(f"{folder.model}: no weights yet; continue training")
    _, metadata = tensor_files.read_tensors(folder.model)
    identity.check(folder.model, metadata)
    optional = [name for name in (folder.card.name, *OPTIONAL_FILES) if (folder.path / name).is_file()]
    return list(dict.fromkeys([folder.config.name, folder.model.name, *optional, *identity.files]))


def _card(folder: RunFolder, name: str) -> bytes:
    """Return the model card with the name on the Hub in its commands."""
    text = folder.card.read_text(encoding="utf-8") if folder.card.exists() else ""
    old_name = f"{PREFIX}{folder.path.name}" if is_pretrained(folder.path) else folder.path.resolve().name
    return model_card.rename(text, old_name, name).encode()
