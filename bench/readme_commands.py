"""Run every command line of the README's usage sections in order, as it stands, in an empty folder.

    python bench/readme_commands.py

The two set-up lines are run by `.ci/run`. `regard serve` is started in the background for the lines that follow it. The
commands are those of this Python environment. Prints the seconds of each line, and exits with 1 at the first failure.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADDRESS = "http://127.0.0.1:8000/health"
START_SECONDS = 60  # until a server must answer


def command_lines(page: str) -> list[str]:
    """Return the lines of all bash blocks except the set-up commands, without comments."""
    blocks = re.findall(r"^```bash\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"\s+# .*$", "", line) for line in "".join(blocks).splitlines()]
    return [line for line in lines if line and "pip install" not in line]


def environment() -> dict[str, str]:
    """Return the environment in which `regard` is the command of this Python environment."""
    paths = [str(Path(sys.executable).parent), os.environ.get("PATH", "")]
    return {**os.environ, "PATH": os.pathsep.join(paths)}


def run_lines(lines: list[str], folder: Path) -> str | None:
    """Run the lines in a folder; return the first one that fails."""
    servers: list[subprocess.Popen[bytes]] = []
    try:
        for line in lines:
            started_at = time.monotonic()
            if line.startswith("regard serve"):
                servers.append(subprocess.Popen(["bash", "-c", f"exec {line}"], cwd=folder, env=environment()))
                is_done = _answers()
            else:
                done = subprocess.run(
                    ["bash", "-c", line], cwd=folder, env=environment(), stdout=subprocess.DEVNULL, check=False
                )
                is_done = done.returncode == 0
            print(f"{time.monotonic() - started_at:6.1f} s  {'' if is_done else 'FAILED  '}{line}", flush=True)
            if not is_done:
                return line
        return None
    finally:
        for server in servers:
            server.terminate()
            server.wait()


def _answers() -> bool:
    """Wait until the server answers; return False if it does not in time."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(ADDRESS, timeout=5):
                return True
        except OSError:
            time.sleep(0.5)
    return False


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        failed = run_lines(command_lines((ROOT / "README.md").read_text(encoding="utf-8")), Path(temporary))
    sys.exit(1 if failed else 0)
