// A text with its entities in colour; a unit that is chosen shows its tag, what else it might be, and where it looked.

import { headColour, inkOn, shade } from "../color.js";
import { make, number, select, visible } from "../dom.js";
import { clamp } from "../state.js";
import { alternatives } from "../tokens.js";
import { say } from "../i18n.js";

const AXES = ["sentence", "text"];
const MARKS = { sentence: 0, text: 1 }; // marks that stand before the first token of an axis
const suited = (data) => data.maps.filter((map) => !map.long && AXES.includes(map.queries) && AXES.includes(map.keys));
const kinds = (data) => [...new Set(data.extra.entities.entities.map((entity) => entity.type))].sort();
const unitsOf = (data) => data.items("units");

function entityOf(data, span) {
  return data.extra.entities.entities.find((entity) => span[0] < entity.stop && span[1] > entity.start);
}

// The text unit by unit, what is between them too; each unit made by `one`.
function inText(data, one) {
  const text = data.extra.entities.text;
  const parts = [];
  let end = 0;
  unitsOf(data).forEach((item, i) => {
    const [start, stop] = item.span;
    if (start > end) parts.push(text.slice(end, start));
    parts.push(one(item, i, text.slice(start, stop)));
    end = stop;
  });
  return [...parts, text.slice(end)];
}

function legend(data) {
  return make("p", { class: "entities-legend" }, kinds(data).map((kind, i) => make("span", { class: "entity-kind", style: { "border-bottom": `3px solid ${headColour(i)}`, "margin-right": "14px" } }, kind)));
}

function tagged(data, chosen, page) {
  const all = kinds(data);
  return make("p", { class: "entities-text", style: { "line-height": "2.2", "font-size": "17px" } }, inText(data, (item, i, text) => {
    const entity = entityOf(data, item.span);
    const style = { background: "none", border: "0", padding: "2px 1px", cursor: "pointer", "white-space": "pre" };
    if (entity) style["border-bottom"] = `3px solid ${headColour(all.indexOf(entity.type))}`;
    if (i === chosen) style.background = "var(--accent-soft)";
    return make("button", { type: "button", class: `entities-unit${entity ? " entity" : ""}`, style, "data-key": `unit:${i}`, title: data.extra.entities.tags[i],
      "aria-label": `${visible(text)} ${data.extra.entities.tags[i]}`, onclick: () => page.change({ row: i }) }, text);
  }));
}

// The weight that each unit gets from the chosen one: that of its tokens together.
function received(data, map, chosen) {
  const before = MARKS[map.queries];
  const row = map.row(-1, data.extra.entities.firsts[chosen] + before);
  const sums = new Float32Array(unitsOf(data).length);
  data.items(map.keys).forEach((item, column) => {
    if (!item.special && item.word !== undefined) sums[item.word] += row[column];
  });
  return sums;
}

function looked(data, map, chosen) {
  const weights = received(data, map, chosen);
  const top = Math.max(...weights, 1e-9);
  return make("p", { class: "entities-looked", style: { "line-height": "2.2", "font-size": "17px" } }, inText(data, (item, i, text) => {
    const share = weights[i] / top;
    return make("span", { style: { background: shade(share), color: inkOn(share), "border-radius": "4px", padding: "2px 1px", "white-space": "pre" }, title: number(weights[i], 3) }, text);
  }));
}

export const view = {
  name: "entities",
  title: say`Entities`,
  opens: true, // the page begins with it
  suits: (data) => Boolean(data.extra.entities),
  show(data, element, page) {
    const maps = suited(data);
    const map = maps.find((one) => one.name === page.state.map) || maps.at(-1);
    const first = unitsOf(data).findIndex((item) => entityOf(data, item.span));
    const chosen = page.state.row === undefined ? Math.max(0, first) : clamp(page.state.row, unitsOf(data).length);
    const token = data.outputs[0].tokens[chosen];
    element.append(make("section", { class: "card" }, make("h2", {}, say`Entities`), legend(data), tagged(data, chosen, page)));
    element.append(make("section", { class: "card entities-detail" },
      make("h2", {}, visible(unitsOf(data)[chosen].text), " ", make("span", { class: "quiet" }, token.text)), alternatives(token),
      map ? make("div", { class: "controls" }, make("p", { class: "quiet" }, say`Where it looked, the mean of all heads:`),
        maps.length > 1 ? select(say`Layer`, maps.map((one) => ({ key: one.name, label: one.title })), map.name, (name) => page.change({ map: name })) : null) : null,
      map ? looked(data, map, chosen) : make("p", { class: "quiet" }, say`This model has no attention over the sentence.`)));
  },
};
