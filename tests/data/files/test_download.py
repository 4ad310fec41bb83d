import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from regard.core import trust
from regard.core.errors import ConfigError, DataError, TrustError
from regard.data.files import download

CONTENT = bytes(range(256)) * 900
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Handler(BaseHTTPRequestHandler):
    """Serves at most `max_bytes` of CONTENT, with ranges if `ranges` is set, and records the range headers."""

    def do_GET(self):
        requested_range = self.headers.get("Range")
        self.server.requests.append(requested_range)
        if "missing" in self.path:
            self.send_error(404)
            return
        start = int(requested_range.removeprefix("bytes=").rstrip("-")) if requested_range and self.server.ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        length = str(len(CONTENT) - start) if self.server.length is None else self.server.length
        if length:
            self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(CONTENT[start : start + self.server.max_bytes])

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.ranges, server.max_bytes, server.requests, server.length = True, len(CONTENT), [], None
        server.url = f"http://127.0.0.1:{server.server_port}/file.bin"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_file_is_downloaded(server, tmp_path):
    download.fetch(server.url, tmp_path / "new" / "file.bin", checksum=CHECKSUM)
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["file.bin"]
    assert (tmp_path / "new" / "file.bin").read_bytes() == CONTENT


def test_an_interrupted_download_is_resumed(server, tmp_path):
    server.max_bytes = 70_000
    message = rf"file\.bin: interrupted after 70000 of {len(CONTENT)} bytes; run the command again to resume"
    with pytest.raises(DataError, match=message):
        download.fetch(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert not (tmp_path / "file.bin").exists()
    server.max_bytes = len(CONTENT)
    download.fetch(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert server.requests == [None, "bytes=70000-"] and (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_server_without_ranges_restarts_the_download(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT[:5000])
    server.ranges = False
    download.fetch(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_complete_part_is_used(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(CONTENT)
    download.fetch(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_wrong_checksum_leaves_no_file(server, tmp_path):
    message = rf"SHA-256 is {CHECKSUM[:12]}…, not {'0' * 12}…; try again, or the file has changed"
    with pytest.raises(DataError, match=message):
        download.fetch(server.url, tmp_path / "file.bin", checksum="0" * 64)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_part_fails_the_checksum_and_is_downloaded_again(server, tmp_path):
    (tmp_path / "file.bin.part").write_bytes(b"x" * 100)
    with pytest.raises(DataError, match="SHA-256 is"):
        download.fetch(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    download.fetch(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_an_error_response_is_reported(server, tmp_path):
    with pytest.raises(DataError, match=r"missing: the server responds 404 Not Found"):
        download.fetch(f"{server.url}missing", tmp_path / "x", checksum=CHECKSUM)


def test_a_missing_connection_is_an_error(tmp_path):
    message = r"http://127\.0\.0\.1:9/x: no connection \(.*\); download it by other means and save it as .*x"
    with pytest.raises(DataError, match=message):
        download.fetch("http://127.0.0.1:9/x", tmp_path / "x", checksum=CHECKSUM)


def test_a_folder_that_cannot_be_created_is_an_error(server, tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(DataError, match=r"x: cannot be written: "):
        download.fetch(server.url, tmp_path / "file" / "x", checksum=CHECKSUM)


def test_a_data_set_is_downloaded_once(server, tmp_path, monkeypatch):
    base_url = server.url.removesuffix("file.bin")
    monkeypatch.setitem(
        download.SETS, "mine", download.Dataset(base_url, {"a.bin": CHECKSUM, "b.bin": CHECKSUM}, "free")
    )
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    for _ in range(2):
        assert download.fetch_dataset("mine") == tmp_path / "mine"
    assert len(server.requests) == 2 and sorted(p.name for p in (tmp_path / "mine").iterdir()) == ["a.bin", "b.bin"]


def test_an_unknown_data_set_is_an_error():
    with pytest.raises(ConfigError, match=r"no data set 'multi3k' to download; did you mean 'multi30k'\?"):
        download.fetch_dataset("multi3k")


def test_checksums_are_those_of_the_real_files(shared_data):
    for file, checksum in download.SETS["multi30k"].files.items():
        assert hashlib.sha256((shared_data / "multi30k" / file).read_bytes()).hexdigest() == checksum


def test_an_untrusted_run_fetches_nothing(server, tmp_path):
    with (
        trust.trust_scope(tmp_path, trusted=False),
        pytest.raises(TrustError, match=r"this run would fetch http.* over the"),
    ):
        download.fetch(server.url, tmp_path / "x", checksum=CHECKSUM)
    assert not (tmp_path / "x").exists()


def test_an_invalid_content_length_is_ignored(server, tmp_path):
    server.length = "abc"
    download.fetch(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
    assert (tmp_path / "file.bin").read_bytes() == CONTENT


def test_a_response_over_the_limit_is_refused(server, tmp_path):
    server.length = ""
    message = r"file\.bin: sends more than 100,000 bytes, the limit for this file; check the address$"
    with pytest.raises(DataError, match=message):
        download.fetch(server.url, tmp_path / "file.bin", checksum=CHECKSUM, max_bytes=100_000)
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_of_a_data_set_is_downloaded_again(server, tmp_path, monkeypatch, capsys):
    base_url = server.url.removesuffix("file.bin")
    monkeypatch.setitem(download.SETS, "mine", download.Dataset(base_url, {"a.bin": CHECKSUM}, "free"))
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a.bin").write_bytes(CONTENT[:-1] + b"?")
    assert (download.fetch_dataset("mine") / "a.bin").read_bytes() == CONTENT
    assert "a.bin: damaged (its checksum differs); it is downloaded again" in capsys.readouterr().err


def test_concurrent_fetches_download_once(server, tmp_path):
    errors = []

    def fetch():
        try:
            download.fetch(server.url, tmp_path / "file.bin", checksum=CHECKSUM)
        except DataError as error:
            errors.append(error)

    threads = [threading.Thread(target=fetch) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and len(server.requests) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["file.bin"] and (tmp_path / "file.bin").read_bytes() == CONTENT
