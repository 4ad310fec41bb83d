"""Requests generated from the OpenAPI document of a server, with all checks of schemathesis.

    python bench/contract.py --examples 60 --page docs/reliability.md

Serves a tiny run of every task and lets schemathesis generate valid and invalid requests for every operation. A failure
is an undocumented status, content type or form of a response, an invalid request that is accepted, a valid one that is
refused as malformed, a wrong answer to a method, or a server error. Status 422 is the documented answer to a valid
request whose content a run cannot process, such as a file that is not an image.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from fuzz_server import train
from page_sections import put

CONFIG = """[checks.positive_data_acceptance]
expected-statuses = ["2xx", "401", "403", "404", "409", "422", "429", "5xx"]
"""
MAX_SECONDS = 75  # for one response


def generate_requests(url: str, *, examples: int, seed: int, work: Path) -> str:
    """Let schemathesis test a server -> its report."""
    config = work / "schemathesis.toml"
    config.write_text(CONFIG, encoding="utf-8")
    command = [
        "--config-file", str(config), "run", f"{url}openapi.json", "--checks", "all", "--continue-on-failure",
        "--phases", "examples,coverage,fuzzing", "--max-examples", str(examples), "--seed", str(seed), "--no-color",
        "--request-timeout", str(MAX_SECONDS), "--max-response-time", str(MAX_SECONDS),
        "--suppress-health-check", "all",
    ]  # fmt: skip
    done = subprocess.run(
        [str(Path(sys.executable).with_name("schemathesis")), *command],
        check=False,
        capture_output=True,
        text=True,
        cwd=work,
    )
    return done.stdout + done.stderr


def describe(report: str) -> tuple[str, int]:
    """Return a sentence about a report, and the number of failures."""
    generated = re.search(r"(\d+) generated", report)
    failures = re.search(r"found (\d+) unique failures", report)
    operations = re.search(r"Tested: (\d+)", report)
    if generated is None or operations is None:
        raise SystemExit(f"schemathesis did not finish:\n{report[-3000:]}")
    count = 0 if failures is None else int(failures[1])
    text = (
        f"{int(generated[1]):,} requests to {operations[1]} operations, all checks of schemathesis on: "
        f"{count} unique failures.\n"
    )
    return text, count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=20, help="generated requests for each operation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="folder of the runs, trained if missing")
    parser.add_argument("--report", type=Path, help="write the report of schemathesis to this file")
    parser.add_argument("--page", type=Path, help="write the result between the markers of this page")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folders = train(args.folder or Path(temporary))
        command = [sys.executable, "-m", "regard", "serve", *map(str, folders), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            assert server.stdout is not None
            url = re.search(r"http://\S+/", server.stdout.readline())
            assert url is not None
            report = generate_requests(url[0], examples=args.examples, seed=args.seed, work=Path(temporary))
        finally:
            server.terminate()
            server.wait(60)
    if args.report:
        args.report.write_text(report, encoding="utf-8")
    text, failures = describe(report)
    print(text)
    if args.page:
        put(args.page, "contract", text)
    if failures:
        raise SystemExit(report[-4000:])


if __name__ == "__main__":
    main()
