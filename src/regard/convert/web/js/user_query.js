// Users as text: an id, or a profile and titles of a new user, by the rules of regard/data/ratings/user_query.py and profiles.py.

const ARTICLE = /^(the|a|an)\s+(.*?)(\s*\(\d{4}\))?$/iu;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/iu;
const WORD = /[\p{L}\p{N}]+/gu;
const UNKNOWN = "not specified";

const quoted = (text) => `'${text}'`;

// Number of a cell, or null
function parseNumber(cell) {
  const text = cell.trim();
  return NUMBER.test(text) && Number.isFinite(Number(text)) ? Number(text) : null;
}

// A cell -> the number, or the indices of the known values; null if there are none
function partsOf(field, cell) {
  if (field.kind === "number") {
    const value = parseNumber(cell);
    return value === null ? null : [value];
  }
  const values = field.kind === "text" ? (cell.match(WORD) ?? []).map((word) => word.toLowerCase()) : field.kind === "several" ? cell.split("|").map((part) => part.trim()) : [cell.trim()];
  const known = [...new Set(values)].map((value) => field.values.indexOf(value)).filter((index) => index >= 0);
  return known.length ? known : null;
}

const widthOf = (field) => (field.kind === "number" ? 2 + field.edges.length : field.values.length) + 1;

// A field and a cell -> its features; the last is 1 if the value is unknown
function encodeCell(field, cell) {
  const features = new Array(widthOf(field)).fill(0);
  const parts = partsOf(field, cell);
  if (parts === null) features[features.length - 1] = 1;
  else if (field.kind === "number") {
    features[0] = Math.max(-3, Math.min(3, (parts[0] - field.mean) / field.spread));
    features[1 + field.edges.filter((edge) => edge <= parts[0]).length] = 1;
  } else for (const index of parts) features[index] = 1 / Math.sqrt(parts.length);
  return features;
}

// Cells by name -> features of each field
export const encodeProfile = (fields, cells) => fields.map((field) => encodeCell(field, cells[field.name] ?? ""));

// "age=30, city=Seoul, Korea" -> ["age=30", "city=Seoul, Korea"]
function assignments(text) {
  const parts = [];
  for (const line of text.split(/[;\n]/)) {
    const first = parts.length;
    for (const part of line.split(",").filter((piece) => piece.trim())) {
      if (part.includes("=") || parts.length === first) parts.push(part);
      else parts[parts.length - 1] += `,${part}`;
    }
  }
  return parts.map((part) => part.trim());
}

// Text of a profile -> {cells, remarks}
function parseProfile(fields, text) {
  const [cells, remarks] = [{}, []];
  for (const part of assignments(text)) {
    const at = part.indexOf("=");
    if (at < 0) throw new Error(`profile: ${quoted(part)} is not of the form name=value, for example age=30`);
    const [name, value] = [part.slice(0, at).trim(), part.slice(at + 1).trim()];
    const field = fields.find((candidate) => candidate.name === name);
    if (!field) throw new Error(`profile: users have no ${quoted(name)}; choose one of ${fields.map((candidate) => candidate.name).join(", ")}`);
    if (partsOf(field, value)) cells[name] = value;
    else remarks.push(field.kind === "number" ? `${name}=${quoted(value)} is not a number and is ignored` : `${name}=${quoted(value)} is not in the training data and is ignored`);
  }
  return { cells, remarks };
}

// Normalized title: "The Postman (1997)" and "Postman, The (1997)" have the same key.
function titleKey(title) {
  const text = title.trim().split(/\s+/u).join(" ");
  const match = ARTICLE.exec(text);
  return (match ? `${match[2]}, ${match[1]}${match[3] ?? ""}` : text).toLowerCase();
}

// Titles or ids separated by commas, semicolons or line ends -> indices of items; a title may contain commas
function parseItems(text, names) {
  const find = (name) => names[titleKey(name)] ?? names[titleKey(name.trim().replace(/^"(.*)"$/u, "$1").replaceAll('""', '"'))];
  const items = [];
  for (const chunk of text.split(/[;\n]/).filter((part) => part.trim())) {
    let pieces = chunk.split(",");
    while (pieces.length) {
      let count = pieces.length;
      while (count && find(pieces.slice(0, count).join(",")) === undefined) count--;
      if (!count) throw new Error(`no item ${quoted(pieces[0].trim())} in the data; give a title or an id as in the data`);
      items.push(find(pieces.slice(0, count).join(",")));
      pieces = pieces.slice(count);
    }
  }
  return [...new Set(items)];
}

// Text -> {user: index or null, cells, items: of a new user or null, remarks}
export function parseUser(text, users, names) {
  const bar = text.indexOf("|");
  const [before, after] = bar < 0 ? [text, ""] : [text.slice(0, bar), text.slice(bar + 1)];
  if (bar < 0 && !before.includes("=")) {
    const id = before.trim();
    if (!id) return { user: null, cells: {}, items: [], remarks: [] };
    const user = users.ids.indexOf(id);
    if (user < 0) throw new Error(`no user ${quoted(id)} in the data (there are ${users.ids.length}, from ${quoted(users.ids[0])} to ${quoted(users.ids.at(-1))}); describe a new user: name=value | titles`);
    const cells = Object.fromEntries(users.fields.map(({ name }) => [name, users.cells[name][user]]));
    const missing = users.fields.filter(({ name }) => !cells[name]).map(({ name }) => name);
    return { user, cells, items: null, remarks: missing.length ? [`${UNKNOWN}: ${missing.join(", ")}`] : [] };
  }
  const { cells, remarks } = parseProfile(users.fields, before);
  const missing = users.fields.filter(({ name }) => !cells[name]).map(({ name }) => name);
  if (missing.length && before.trim()) remarks.push(`${UNKNOWN}: ${missing.join(", ")}`);
  return { user: null, cells, items: parseItems(after, names), remarks };
}

// Names of the profile fields as evidence: "age 30", "city not specified"
export const fieldNames = (fields, cells) => fields.map(({ name }) => (cells[name] ? `${name} ${cells[name]}` : `${name} ${UNKNOWN}`));
