// Text with colored entities; a selected unit shows its tag, the alternatives, and its attention.

import { textColorOn, shade } from "../color.js";
import { entityColor } from "../result.js";
import { legend as colorBar } from "../matrix.js";
import { make, formatNumber, select, slicer, visible } from "../dom.js";
import { clamp } from "../state.js";
import { alternatives } from "../tokens.js";
import { t } from "../i18n.js";

const AXES = ["sentence", "text"];
const SPECIAL_TOKENS = { sentence: 0, text: 1 }; // number of special tokens before the first token of an axis
const attentionMaps = (data) => data.maps.filter((map) => !map.long && AXES.includes(map.queries) && AXES.includes(map.keys));
const entityTypes = (data) => [...new Set(data.extra.entities.entities.map((entity) => entity.type))].sort();
const unitsOf = (data) => data.items("units");

function entityOf(data, span) {
  return data.extra.entities.entities.find((entity) => span[0] < entity.stop && span[1] > entity.start);
}

// Render the text unit by unit with `render`, and the text between units unchanged.
function renderUnits(data, render) {
  const textOf = slicer(data.extra.entities.text);
  const parts = [];
  let end = 0;
  unitsOf(data).forEach((item, i) => {
    const [start, stop] = item.span;
    if (start > end) parts.push(textOf(end, start));
    parts.push(render(item, i, textOf(start, stop)));
    end = stop;
  });
  return [...parts, textOf(end)];
}

function legend(data) {
  return make("p", { class: "entities-legend" }, entityTypes(data).map((type) => make("span", { class: "entity-kind", style: { "border-bottom": `3px solid ${entityColor(data, type)}`, "margin-right": "14px" } }, type)));
}

function taggedText(data, chosen, page) {
  return make("p", { class: "entities-text", style: { "line-height": "2.2", "font-size": "17px" } }, renderUnits(data, (item, i, text) => {
    const entity = entityOf(data, item.span);
    const style = { background: "none", border: "0", padding: "2px 1px", cursor: "pointer", "white-space": "pre-wrap", "overflow-wrap": "anywhere", "max-width": "100%" };
    if (entity) style["border-bottom"] = `3px solid ${entityColor(data, entity.type)}`;
    if (i === chosen) style.background = "var(--accent-soft)";
    return make("button", { type: "button", class: `entities-unit${entity ? " entity" : ""}`, style, "data-key": `unit:${i}`, title: data.extra.entities.tags[i],
      "aria-label": `${visible(text)} ${data.extra.entities.tags[i]}`, onclick: () => page.change({ row: i }) }, text);
  }));
}

// Weight of each unit for the selected one: the sum over its tokens.
function unitWeights(data, map, chosen) {
  const specialTokens = SPECIAL_TOKENS[map.queries];
  const row = map.row(-1, data.extra.entities.firsts[chosen] + specialTokens);
  const weights = new Float32Array(unitsOf(data).length);
  data.items(map.keys).forEach((item, column) => {
    if (!item.special && item.word !== undefined) weights[item.word] += row[column];
  });
  return weights;
}

function attendedText(data, map, chosen) {
  const weights = unitWeights(data, map, chosen);
  const top = Math.max(...weights, 1e-9);
  const text = make("p", { class: "entities-attention", style: { "line-height": "2.2", "font-size": "17px" } }, renderUnits(data, (item, i, text) => {
    const share = weights[i] / top;
    return make("span", { style: { background: shade(share), color: textColorOn(share), "border-radius": "4px", padding: "2px 1px", "white-space": "pre-wrap", "overflow-wrap": "anywhere", "max-width": "100%" }, title: formatNumber(weights[i], 3) }, text);
  }));
  return make("div", {}, text, colorBar(top));
}

export const view = {
  name: "entities",
  title: t`Entities`,
  sidePanel: true,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra.entities),
  show(data, element, page) {
    const maps = attentionMaps(data);
    const map = maps.find((candidate) => candidate.name === page.state.map) || maps.at(-1);
    if (map) page.selection = { map, head: -1 };
    const first = unitsOf(data).findIndex((item) => entityOf(data, item.span));
    const chosen = page.state.row === undefined ? Math.max(0, first) : clamp(page.state.row, unitsOf(data).length);
    const token = data.outputs[0].tokens[chosen];
    element.append(make("section", { class: "card" }, make("h2", {}, t`Entities`), legend(data), taggedText(data, chosen, page)));
    element.append(make("section", { class: "card entities-detail" },
      make("h2", {}, visible(unitsOf(data)[chosen].text), " ", make("span", { class: "quiet" }, token.text)), alternatives(token),
      map ? make("div", { class: "controls" }, make("p", { class: "quiet" }, t`Attention of this unit, mean of all heads:`),
        maps.length > 1 ? select(t`Layer`, maps.map((entry) => ({ key: entry.name, label: entry.title })), map.name, (name) => page.change({ map: name })) : null) : null,
      map ? attendedText(data, map, chosen) : make("p", { class: "quiet" }, t`This model has no attention over the sentence.`)));
  },
};
