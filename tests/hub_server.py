"""A loopback server with the part of the Hub's HTTP API that the client of huggingface_hub uses for models."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

TOKEN = "hf_loopback"


class Repositories:
    """Commits of repositories, and stored large files."""

    def __init__(self) -> None:
        self.commits: dict[str, list[dict[str, bytes]]] = {}  # USER/NAME -> files of each commit
        self.objects: dict[str, bytes] = {}  # SHA-256 -> large file
        self.requests: list[str] = []  # METHOD path
        self.address = ""

    def add(self, name: str, files: dict[str, bytes]) -> None:
        """Add a commit."""
        commits = self.commits.setdefault(name, [{".gitattributes": b""}])
        commits.append({**commits[-1], **files})

    def find(self, name: str, revision: str) -> tuple[str, dict[str, bytes]] | None:
        """Return id and files of a commit; None if there is none."""
        commits = self.commits.get(name, [])
        ids = [hashlib.sha1(f"{name} {index}".encode()).hexdigest() for index in range(len(commits))]
        index = len(commits) - 1 if revision == "main" else ids.index(revision) if revision in ids else -1
        return (ids[index], commits[index]) if index >= 0 else None


@contextmanager
def serve_hub() -> Iterator[Repositories]:
    """Serve an empty Hub on a free port."""
    store = Repositories()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (HubHandler,), {"store": store}))
    store.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()


class HubHandler(BaseHTTPRequestHandler):
    """One request."""

    store: Repositories
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Log nothing."""

    def reply(self, status: int, content: object = None, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def handle_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = self._read_chunks()
        path = urlsplit(self.path).path
        self.store.requests.append(f"{self.command} {path}")
        parts = path.strip("/").split("/")
        is_write = self.command in ("POST", "PUT") and parts[0] != "lfs"
        if is_write and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.reply(401, {"error": "Invalid username or password."}, {"X-Error-Message": "Invalid credentials"})
        elif parts[0] == "lfs":
            self._store_object(parts, body)
        elif path == "/api/repos/create":
            self._create(json.loads(body))
        elif path == "/api/validate-yaml":
            self.reply(200, {"errors": [], "warnings": []})
        elif path.endswith(".git/info/lfs/objects/batch"):
            self._batch(json.loads(body))
        elif parts[:2] == ["api", "models"]:
            self._model_api("/".join(parts[2:4]), parts[4:], body)
        elif len(parts) > 4 and parts[2] == "resolve":
            self._resolve("/".join(parts[:2]), parts[3], "/".join(parts[4:]))
        else:
            self.reply(404, {"error": "not found"})

    do_GET = do_HEAD = do_POST = do_PUT = handle_request

    def _read_chunks(self) -> bytes:
        data = b""
        while size := int(self.rfile.readline(), 16):
            data += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return data

    def _create(self, request: dict[str, str]) -> None:
        name = f"{request['organization']}/{request['name']}"
        is_new = name not in self.store.commits
        self.store.commits.setdefault(name, [{".gitattributes": b""}])
        self.reply(200 if is_new else 409, {"url": f"{self.store.address}/{name}", "name": name})

    def _batch(self, request: dict[str, list[dict[str, str]]]) -> None:
        objects = [
            {
                "oid": entry["oid"],
                "size": entry["size"],
                "actions": {
                    "upload": {"href": f"{self.store.address}/lfs/{entry['oid']}"},
                    "verify": {"href": f"{self.store.address}/lfs/verify"},
                },
            }
            for entry in request["objects"]
        ]
        self.reply(200, {"transfer": "basic", "objects": objects})

    def _store_object(self, parts: list[str], body: bytes) -> None:
        if parts[1] != "verify":
            if hashlib.sha256(body).hexdigest() != parts[1]:
                self.reply(400, {"error": "checksum"})
                return
            self.store.objects[parts[1]] = body
        self.reply(200, {})

    def _model_api(self, name: str, rest: list[str], body: bytes) -> None:
        commit = self.store.find(name, rest[1] if rest[:1] in (["revision"], ["tree"]) else "main")
        if name not in self.store.commits:
            self.reply(404, {"error": "Repository not found"}, {"X-Error-Code": "RepoNotFound"})
        elif commit is None:
            self.reply(404, {"error": "Invalid rev id"}, {"X-Error-Code": "RevisionNotFound"})
        elif rest[:1] == ["preupload"]:
            files = json.loads(body)["files"]
            modes = [
                {
                    "path": file["path"],
                    "uploadMode": "lfs" if file["path"].endswith(".safetensors") else "regular",
                    "shouldIgnore": False,
                }
                for file in files
            ]
            self.reply(200, {"files": modes})
        elif rest[:1] == ["commit"]:
            self._commit(name, body)
        elif rest[:1] == ["tree"]:
            tree = [
                {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
                for path, data in commit[1].items()
            ]
            self.reply(200, tree)
        else:
            siblings = [{"rfilename": path} for path in commit[1]]
            self.reply(200, {"_id": "1", "id": name, "sha": commit[0], "siblings": siblings, "private": False})

    def _commit(self, name: str, body: bytes) -> None:
        files = {}
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.store.objects[value["oid"]]
        self.store.add(name, files)
        commit_id = self.store.find(name, "main")
        assert commit_id is not None
        url = f"{self.store.address}/{name}/commit/{commit_id[0]}"
        self.reply(200, {"success": True, "commitOid": commit_id[0], "commitUrl": url})

    def _resolve(self, name: str, revision: str, path: str) -> None:
        commit = self.store.find(name, revision)
        if commit is None or path not in commit[1]:
            self.reply(404, {"error": "Entry not found"}, {"X-Error-Code": "EntryNotFound"})
            return
        data = commit[1][path]
        headers = {"ETag": f'"{hashlib.sha256(data).hexdigest()}"', "X-Repo-Commit": commit[0]}
        self.reply(200, data, headers)
