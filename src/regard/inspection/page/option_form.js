// Form of the options of a task, made from their JSON schema: number of tokens, beam width, seed, and so on.

import { make } from "./dom.js";
import { t } from "./i18n.js";

// The schema of a value: of an optional one, without null.
function valueSchema(schema) {
  return schema.anyOf ? { ...schema, ...schema.anyOf.find((entry) => entry.type !== "null") } : schema;
}

const INPUT_TYPES = { integer: "number", number: "number", string: "text", boolean: "checkbox" };
const isShown = (schema) => Boolean(schema.enum || INPUT_TYPES[schema.type]); // files and lists have no field

function field(name, schema, value) {
  const properties = { name, "data-key": `option:${name}` };
  if (schema.enum) return make("select", properties, schema.enum.map((entry) => make("option", { value: entry, selected: entry === value }, String(entry))));
  if (schema.type === "boolean") return make("input", { ...properties, type: "checkbox", checked: Boolean(value) });
  return make("input", { ...properties, type: INPUT_TYPES[schema.type], value: value ?? "", max: schema.maximum, step: schema.type === "integer" ? 1 : schema.type === "number" ? "any" : undefined, autocomplete: "off" });
}

// The value of a field; undefined if it is empty.
function readField(input, schema) {
  if (schema.type === "boolean") return input.checked;
  if (input.value === "") return undefined;
  return ["integer", "number"].includes(schema.type) ? Number(input.value) : input.value;
}

// Options that differ from their defaults are sent with every input.
export function optionForm(page) {
  const schemas = Object.entries(page.raw.options?.properties || {}).map(([name, schema]) => [name, valueSchema(schema)]).filter(([, schema]) => isShown(schema));
  if (!schemas.length) return null;
  const { options } = page.server;
  const submit = (event) => {
    event.preventDefault();
    const entries = schemas.map(([name, schema]) => [name, readField(form.elements[name], schema), schema.default ?? undefined]);
    page.server.useOptions(Object.fromEntries(entries.filter(([, value, initial]) => value !== undefined && value !== initial)));
  };
  const form = make("form", { class: "option-form", onsubmit: submit }, schemas.map(([name, schema]) => make("label", { class: "option", title: schema.description },
    make("span", { class: "choice-label" }, name.replaceAll("_", " ")), field(name, schema, options[name] ?? schema.default))),
  make("button", { type: "submit", class: "action plain", disabled: page.server.busy, "data-key": "option:apply" }, t`Apply`));
  const details = make("details", { class: "options", open: page.optionsOpen ?? Object.keys(options).length > 0, ontoggle: () => { page.optionsOpen = details.open; } },
    make("summary", {}, t`Options`), form);
  return details;
}
