"""Fixtures and settings shared by all tests: one thread, a fixed seed, real data and a browser."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.append(str(Path(__file__).parent))  # for modules that several tests share
# Subprocesses started by tests find the package too, installed or not.
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT / "src"), os.environ.get("PYTHONPATH")]))
# Compiled modules are saved, or every subprocess would compile all modules that it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# Two workers on two cores: more threads would compete. Set before torch is imported, and inherited by subprocesses.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The cache (trusted runs, parsed chorales) is separate from the user's cache folder.
os.environ.setdefault("REGARD_CACHE", str(ROOT / ".pytest_cache" / "regard"))

import hypothesis
import pytest
import torch

hypothesis.settings.register_profile(
    "regard",
    deadline=None,  # the first call of a kernel is slow
    derandomize=True,
    database=None,
    max_examples=40,
)
hypothesis.settings.load_profile("regard")


def pytest_collection_finish() -> None:
    """Exclude the collected tests from garbage collection: one pass over them takes 0.4 s."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    """Seed torch and limit it to one thread before every test, and restore its default dtype afterwards.

    CTranslate2 sets the number of threads of the whole process. Two workers with two threads each wait for each other.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dtype = torch.get_default_dtype()
    yield
    torch.set_default_dtype(dtype)


@pytest.fixture(scope="session")
def root() -> Path:
    """Return the folder of the repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Return the folder of real data sets next to the repository; skip the test if there is none."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}")
    return folder


@pytest.fixture(scope="session")
def browser_path() -> str:
    """Return the path of Chromium; skip the test if it is missing, or fail it if CI=true.

    The headless shell is the same engine without the browser's own window, which costs more than most test pages.
    """
    for name in ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    if os.environ.get("CI") == "true":
        pytest.fail("no chromium on PATH; install it: apt-get install chromium")
    pytest.skip("no chromium on PATH")


@pytest.fixture(scope="session")
def browser(browser_path: str) -> Iterator[Any]:
    """Start one headless Chromium for all tests of a process, without background network traffic."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=browser_path, args=[*flags, "--disable-component-update", "--disable-sync"]
        )
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def translation_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a small Transformer trained for translation, with greedy decoding; tests must not change it."""
    from regard.training import recipe as recipes
    from regard.training.train import train

    settings = ["model.layers=1", "model.dim=32", "model.ffn_dim=32", "model.heads=2", "model.dropout=0.0"]
    settings += ["data.pairs=300", "data.vocab_size=300", "decoding=greedy"]
    settings += ["training.steps=40", "training.evaluation.every=40", "training.optimizer.lr=0.01"]
    return train(recipes.read("translation", settings=settings), tmp_path_factory.mktemp("runs") / "en-ko")
