// Lines between tokens for the selected heads; thickness is the weight. A hovered or focused token shows its distribution as numbers.

import { draw, fitLabel, make } from "../dom.js";
import { headColor } from "../color.js";
import { distribution } from "../distribution.js";
import { mapChoices } from "../attention_levels.js";
import { clamp } from "../state.js";
import { t } from "../i18n.js";

const LINE_HEIGHT = 30;
const MIN_WEIGHT = 0.03;

function headChips(map, chosen, page) {
  const toggle = (head) => {
    const next = chosen.includes(head) ? chosen.filter((index) => index !== head) : [...chosen, head].sort((a, b) => a - b);
    page.change({ heads: next.length ? next : [head] });
  };
  const chips = Array.from({ length: map.heads }, (_, head) => make("button", {
    type: "button", class: "chip", "aria-pressed": String(chosen.includes(head)), "data-key": `chip:${head}`,
    style: { "--chip": headColor(head) }, onclick: () => toggle(head),
  }, String(head + 1)));
  const all = chosen.length === map.heads;
  return make("div", { class: "choice" }, make("span", { class: "choice-label" }, t`Heads`), make("div", { class: "chips" }, chips,
    map.heads > 1 ? make("button", { type: "button", class: "chip word-chip", "data-key": "chip:all", onclick: () => page.change({ heads: all ? [0] : Array.from({ length: map.heads }, (_, i) => i) }) }, all ? t`one` : t`all`) : null));
}

function curves(map, heads, { left, right }) {
  const group = draw("g", { class: "curves", fill: "none" });
  for (const head of heads) {
    for (let row = 0; row < map.rows; row++) {
      for (let column = 0; column < map.columns; column++) {
        const weight = map.value(head, row, column);
        if (weight < MIN_WEIGHT) continue;
        const [y1, y2] = [(row + 0.5) * LINE_HEIGHT, (column + 0.5) * LINE_HEIGHT];
        const middle = (left + right) / 2;
        group.append(draw("path", {
          d: `M${left} ${y1}C${middle} ${y1} ${middle} ${y2} ${right} ${y2}`, stroke: headColor(head), "data-row": row, "data-column": column,
          "stroke-width": (0.5 + 6.5 * weight).toFixed(2), "stroke-opacity": (0.15 + 0.75 * weight).toFixed(2), "stroke-linecap": "round",
        }));
      }
    }
  }
  return group;
}

function words(labels, { x, room, anchor, kind, choose }) {
  return labels.map((label, i) => draw("g", {
    class: `line-word ${kind}`, tabindex: 0, role: "button", "aria-label": t`${label}: show distribution`, "data-kind": kind, "data-index": i,
    onpointerenter: () => choose(kind, i), onfocus: () => choose(kind, i), onclick: () => choose(kind, i),
  }, draw("rect", { x: anchor === "end" ? 0 : x - 4, y: i * LINE_HEIGHT + 2, width: anchor === "end" ? x + 4 : 400, height: LINE_HEIGHT - 4, rx: 6 }),
  draw("text", { x, y: (i + 0.5) * LINE_HEIGHT, "text-anchor": anchor, "dominant-baseline": "central" }, fitLabel(label, room, "16px"))));
}

function details(data, map, heads, { kind, index }) {
  if (kind === "key") {
    const column = (head) => Float32Array.from({ length: map.rows }, (_, row) => map.value(head, row, index));
    return heads.map((head) => {
      const list = distribution({ labels: data.labels(map.queries), weights: column(head), title: data.labels(map.keys)[index], subtitle: t`is attended to by · head ${head + 1}`, head });
      list.querySelector(".sum").remove(); // a column is not a distribution, so its sum has no meaning
      return list;
    });
  }
  return heads.map((head) => distribution({ labels: data.labels(map.keys), weights: map.row(head, index), title: data.labels(map.queries)[index],
    subtitle: map.heads > 1 ? t`attends to · head ${head + 1}` : t`attends to`, head }));
}

export const view = {
  name: "lines",
  title: t`Lines`,
  suits: (data) => data.maps.some((map) => !map.long),
  sidePanel: true,
  show(data, element, page) {
    const selected = data.map(page.state.map);
    const map = selected.long ? data.maps.find((candidate) => !candidate.long) : selected;
    const heads = (page.state.heads || [clamp(page.state.head, map.heads)]).filter((head) => head < map.heads);
    const chosen = heads.length ? heads : [0];
    page.selection = { map, head: chosen[0] };
    element.append(make("div", { class: "controls" },
      mapChoices(data, map, page, (candidate) => !candidate.long), headChips(map, chosen, page)));

    const width = Math.max(240, Math.min(760, element.clientWidth - 48 - (element.clientWidth > 860 ? 328 : 0)));
    const [left, right] = [width * 0.3, width * 0.7];
    const panel = make("div", { class: "lines-side" });
    const lines = curves(map, chosen, { left: left + 8, right: right - 8 });
    const svg = draw("svg", { width, height: LINE_HEIGHT * Math.max(map.rows, map.columns), class: "lines", role: "group",
      "aria-label": t`${map.title}: lines from ${map.rows} tokens to ${map.columns} tokens` });
    const choose = (kind, index) => {
      svg.classList.add("choosing");
      lines.querySelectorAll("path").forEach((path) => path.classList.toggle("on", path.dataset[kind === "query" ? "row" : "column"] === String(index)));
      svg.querySelectorAll(".line-word").forEach((word) => word.classList.toggle("on", word.dataset.kind === kind && word.dataset.index === String(index)));
      panel.replaceChildren(...details(data, map, chosen, { kind, index }));
      if (kind === "query") page.updateState({ row: index });
    };
    svg.append(lines,
      ...words(data.labels(map.queries), { x: left, room: left - 4, anchor: "end", kind: "query", choose }),
      ...words(data.labels(map.keys), { x: right, room: width - right - 4, anchor: "start", kind: "key", choose }));
    element.append(make("section", { class: "card split" },
      make("div", { class: "scroll" }, make("div", { class: "line-heads quiet", style: { width: `${width}px` } }, make("span", {}, t`queries`), make("span", {}, t`keys`)), svg), panel));
    if (page.state.row !== undefined) choose("query", clamp(page.state.row, map.rows));
    else panel.append(make("p", { class: "quiet hint" }, t`Hover over a token, or move to it with Tab, to see its distribution as numbers.`));
  },
};
