"""Documentation page of the server: one HTML file generated from the OpenAPI document, without scripts or downloads."""

from __future__ import annotations

import html
import json
from typing import Any

from regard.inspection.static_page import static_page

STYLE = """
pre { overflow-x: auto; padding: 10px 12px; border: 1px solid var(--line); border-radius: 6px; font-size: 13px; }
table { border-collapse: collapse; font-size: 14px; max-width: 100%; }
td, th { text-align: left; vertical-align: top; padding: 3px 16px 3px 0; white-space: normal; overflow-wrap: anywhere; }
section.card { margin-bottom: 18px; }
"""
LINKS = """
<span class="facts"><a href="/">explorer</a> <a href="/openapi.json">openapi.json</a>
<a href="/metrics">metrics</a></span>
"""
MAX_EXAMPLE_CHARACTERS = 60  # characters of a file in an example; the rest is cut
TYPE_NAMES = {"integer": "integer", "number": "number", "boolean": "true or false", "string": "text", "null": "null"}


def docs_page(document: dict[str, Any], address: str) -> str:
    """Return the page of an OpenAPI document; `address` is the URL of the server."""
    sections = [
        _section(address, path, method, operation)
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    ]
    main = "\n".join(["<h1>API reference</h1>", *sections])
    return static_page("regard: API reference", main, facts=LINKS, style=STYLE)


def _section(address: str, path: str, method: str, operation: dict[str, Any]) -> str:
    parts = [f'<section class="card"><h2><code>{method.upper()} {html.escape(path)}</code></h2>']
    parts.append(f"<p>{html.escape(operation['summary'])}</p>")
    content = operation.get("requestBody", {}).get("content", {}).get("application/json")
    if content is not None:
        examples = [example["value"] for example in content.get("examples", {}).values()] or [content["example"]]
        parts += [_curl(address + path, example) for example in examples]
        bodies = content["schema"].get("oneOf", [content["schema"]])
        parts += [_table(body) for body in bodies]
    return "\n".join([*parts, "</section>"])


def _curl(url: str, example: Any) -> str:
    """Return a curl command; the content of a file is cut."""
    text = json.dumps(_shorten_files(example), ensure_ascii=False).replace("'", "\\u0027")
    line = f"curl {url} -H 'Content-Type: application/json' \\\n  -d '{text}'"
    return f"<pre>{html.escape(line)}</pre>"


def _shorten_files(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: f"{entry[:MAX_EXAMPLE_CHARACTERS]}…"
            if key == "file" and len(entry) > MAX_EXAMPLE_CHARACTERS
            else _shorten_files(entry)
            for key, entry in value.items()
        }
    return [_shorten_files(entry) for entry in value] if isinstance(value, list) else value


def _table(body: dict[str, Any]) -> str:
    rows = []
    for name, schema in body["properties"].items():
        alternatives = [schema, *schema.get("anyOf", ())]
        properties = next((option["properties"] for option in alternatives if "properties" in option), None)
        rows += [_row(f"{name}.{key}", inner) for key, inner in (properties or {}).items()]
        if properties is None:
            rows.append(_row(name, schema, required=name in body.get("required", ())))
    title = f"<h3>{html.escape(body['title'])}</h3>" if "title" in body else ""
    header = "<tr><th>name</th><th>type</th><th>default</th><th>description</th></tr>"
    return f"{title}<table>{header}{''.join(rows)}</table>"


def _row(name: str, schema: dict[str, Any], *, required: bool = False) -> str:
    default = json.dumps(schema["default"], ensure_ascii=False) if "default" in schema else ""
    cells = [_type_name(schema), "required" if required else default, schema.get("description", "")]
    escaped = [f"<code>{html.escape(name)}</code>", *map(html.escape, cells)]
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in escaped)}</tr>"


def _type_name(schema: dict[str, Any]) -> str:
    """Return the type of a JSON schema in plain words."""
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "$ref" in schema:
        return "file"
    if "anyOf" in schema:
        return " or ".join(filter(None, dict.fromkeys(_type_name(option) for option in schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list of {_type_name(schema['items'])}" if isinstance(schema.get("items"), dict) else "list"
    return TYPE_NAMES.get(str(schema.get("type", "")), "")
