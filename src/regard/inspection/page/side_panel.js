// Side panel: the two faithfulness metrics of the selected map, and the what-if controls if the page has a server.

import { make, formatNumber, percent, select, visible } from "./dom.js";
import { mapGroups } from "./data.js";
import { EMPTY } from "./header.js";
import { t } from "./i18n.js";

// Share from 0 to 1 as a bar from the left; if it may be negative, as a bar from the middle to either side.
function meter(share, text, signed = false) {
  const [from, to] = signed ? [Math.min(0.5, 0.5 + share / 2), Math.max(0.5, 0.5 + share / 2)] : [0, Math.max(0, share)];
  const style = { "margin-left": `${100 * from}%`, width: `${100 * (to - from)}%` };
  return make("div", { class: "meter" }, make("span", { class: "figure big" }, text),
    make("span", { class: `meter-track ${signed ? "signed" : ""}`, "aria-hidden": "true" }, make("span", { class: `meter-bar ${share < 0 ? "below" : ""}`, style })));
}

function faithfulness(page) {
  const { map, head } = page.selection || {};
  if (!map?.honesty) return null;
  const { honesty } = map;
  const isMean = head < 0 && map.heads > 1; // the map that is drawn: the mean of the heads, or one head
  const index = Math.max(0, head);
  const [agreement, removal] = isMean ? [honesty.gradient_of_mean, honesty.removal_of_mean] : [honesty.gradient[index], honesty.removal[index]];
  return make("section", { class: "card faithfulness", "aria-label": t`Faithfulness metrics` },
    make("h2", {}, t`How far to trust this map`),
    make("p", { class: "quiet" }, `${map.title}, ${isMean ? t`mean of all heads` : t`head ${index + 1}`}`),
    Number.isFinite(agreement) ? [meter(agreement, formatNumber(agreement, 2), true),
      make("p", {}, t`rank agreement with gradient × input (1 = the same order of importance, 0 = unrelated, −1 = the opposite order)`)] : null,
    Number.isFinite(removal) ? [meter(removal, `${Math.round(100 * removal)}%`),
      make("p", {}, map.honesty.by_row
        ? t`of the outputs change when the item they attend to most is removed`
        : t`of the most attended items change the output when they are removed`)] : null,
    make("p", { class: "quiet" }, t`A weight shows what the model attends to, not why it predicts this output.`));
}

// A module has one switch per head, even if it has several maps in a batch.
function headSwitches(page) {
  const { server, data } = page;
  const modules = data.maps.filter((map, i) => data.maps.findIndex((candidate) => candidate.module === map.module) === i);
  return mapGroups(modules).map(({ key, label }) => make("div", { class: "switches" },
    make("p", { class: "quiet" }, label),
    modules.filter((map) => map.group === key).map((map) => make("div", { class: "switch-row" },
      make("span", { class: "figure quiet" }, `L${map.layer + 1}`),
      Array.from({ length: map.heads }, (_, head) => {
        const off = server.has("disabled_heads", [map.module, head]);
        return make("button", { type: "button", class: "switch", "aria-pressed": String(off), "data-key": `off:${map.module}:${head}`,
          title: off ? t`${map.title}, head ${head + 1}: off` : t`${map.title}, head ${head + 1}: on`, "aria-label": t`Switch off ${map.title}, head ${head + 1}`,
          onclick: () => { server.toggle("disabled_heads", [map.module, head]); server.run(); } }, String(head + 1));
      })))));
}

// Every axis that any map attends to; the axis of the selected map is the default.
function itemSwitches(page) {
  const { server, data } = page;
  const axes = data.attendedAxes();
  const axis = [page.state.forbid, page.selection?.map.keys].find((name) => axes.includes(name)) || axes[0];
  return [make("h3", {}, t`Mask an item`),
    axes.length > 1 ? select(t`Axis`, axes.map((key) => ({ key, label: data.axes[key].title })), axis, (key) => page.change({ forbid: key })) : null,
    make("div", { class: "tokens" }, data.labels(axis).map((label, i) =>
      make("button", { type: "button", class: "token-switch", "aria-pressed": String(server.has("hidden_items", [axis, i])), "data-key": `forbid:${axis}:${i}`,
        onclick: () => { server.toggle("hidden_items", [axis, i]); server.run(); } }, visible(label))))];
}

function temperature(page) {
  const { server } = page;
  const readout = make("output", { class: "figure" }, formatNumber(server.changes.temperature, 1));
  return make("label", { class: "slider" }, make("h3", {}, t`Attention temperature`, " ", readout),
    make("input", { type: "range", min: 0.1, max: 4, step: 0.1, value: server.changes.temperature, "data-key": "temperature",
      oninput: (event) => { readout.textContent = formatNumber(Number(event.target.value), 1); },
      onchange: (event) => { server.changes = { ...server.changes, temperature: Number(event.target.value) }; server.run(); } }));
}

// One sentence about the effect of a change: the output, and its probability if the text stays the same.
function verdict(before, after) {
  if (before.text !== after.text) return t`The output changed.`;
  const isScored = Number.isFinite(before.score) && Number.isFinite(after.score);
  if (!isScored || percent(before.score) === percent(after.score)) return t`The output did not change.`;
  return t`The output is the same, its probability changed from ${percent(before.score)} to ${percent(after.score)}.`;
}

function outcome(page) {
  const { server } = page;
  if (server.busy) return make("p", { class: "quiet", role: "status" }, t`Running again …`);
  const undo = make("button", { type: "button", class: "action plain", "data-key": "undo", onclick: () => server.reset() }, t`Undo all`);
  if (!server.before || !server.hasChanges) return server.hasChanges ? undo : null;
  const [before, after] = [server.before.outputs[0], page.data.outputs[0]];
  const chance = (output) => (Number.isFinite(output.score) ? ` ${percent(output.score)}` : "");
  return make("div", { class: "outcome", role: "status" },
    make("p", {}, make("span", { class: "spoken-label" }, t`before`), before.text || EMPTY, make("span", { class: "figure quiet" }, chance(before))),
    make("p", {}, make("span", { class: "spoken-label" }, t`now`), after.text || EMPTY, make("span", { class: "figure quiet" }, chance(after))),
    make("p", { class: before.text === after.text ? "quiet" : "warm" }, verdict(before, after)),
    undo);
}

function whatIf(page) {
  if (!page.server) return null;
  return make("section", { class: `card what-if ${page.server.busy ? "busy" : ""}`, "aria-label": t`What if` },
    make("h2", {}, t`What if …`),
    outcome(page),
    page.data.maps.length ? [make("h3", {}, t`Switch off a head`), headSwitches(page), itemSwitches(page), temperature(page)] : null);
}

export function sidePanel(page) {
  return [whatIf(page), faithfulness(page)].filter(Boolean);
}
