// Side panel: the two faithfulness metrics of the selected map, and the what-if controls if the page has a server.

import { make, formatNumber, roving, select, visible } from "./dom.js";
import { mapGroups } from "./data.js";
import { ImageCanvas } from "./image_canvas.js";
import { chance, EMPTY } from "./header.js";
import { resultKey, resultOf } from "./result.js";
import { translateTerm, t } from "./i18n.js";

const MAX_SWITCHES = 60; // items with a switch; more are found by a search
const PICTURE_PIXELS = 256; // of the image whose cells are masked

// Share from 0 to 1 as a bar from the left; if it may be negative, as a bar from the middle to either side.
function meter(share, text, signed = false) {
  const [from, to] = signed ? [Math.min(0.5, 0.5 + share / 2), Math.max(0.5, 0.5 + share / 2)] : [0, Math.max(0, share)];
  const style = { "margin-left": `${100 * from}%`, width: `${100 * (to - from)}%` };
  return make("div", { class: "meter" }, make("span", { class: "figure big" }, text),
    make("span", { class: `meter-track ${signed ? "signed" : ""}`, "aria-hidden": "true" }, make("span", { class: `meter-bar ${share < 0 ? "below" : ""}`, style })));
}

// The two metrics of one head of a map, or of the mean of its heads (head -1).
export function figuresOf(map, head) {
  const { honesty } = map || {};
  if (!honesty) return {};
  const isMean = head < 0 && map.heads > 1; // the map that is drawn: the mean of the heads, or one head
  const index = Math.max(0, head);
  return isMean ? { agreement: honesty.gradient_of_mean, removal: honesty.removal_of_mean } : { agreement: honesty.gradient[index], removal: honesty.removal[index] };
}

function figures(map, head) {
  const { agreement, removal } = figuresOf(map, head);
  return make("div", { class: "trust", "data-map": map.name, "data-head": map.heads > 1 ? head : Math.max(0, head) },
    make("p", { class: "quiet" }, `${map.title}, ${head < 0 && map.heads > 1 ? t`mean of all heads` : t`head ${Math.max(0, head) + 1}`}`),
    Number.isFinite(agreement) ? [meter(agreement, formatNumber(agreement, 2), true),
      make("p", {}, t`rank agreement with gradient × input (1 = the same order of importance, 0 = unrelated, −1 = the opposite order)`)] : null,
    Number.isFinite(removal) ? [meter(removal, `${Math.round(100 * removal)}%`),
      make("p", {}, map.honesty.by_row
        ? t`of the outputs change when the item they attend to most is removed`
        : t`of the most attended items change the output when they are removed`)] : null);
}

// The card of the maps that a view draws: of one head, of several heads, or of their mean, and of further maps (`also`).
function faithfulness(page) {
  const { map, head, heads = [head], also = [], reason } = page.selection || {};
  const drawn = [...heads.map((index) => ({ map, head: index })), ...also];
  const measured = drawn.filter((entry) => Object.values(figuresOf(entry.map, entry.head)).some(Number.isFinite));
  const content = measured.length ? measured.map((entry) => figures(entry.map, entry.head)) : reason ? make("p", { class: "quiet" }, reason) : null;
  if (!content) return null;
  return make("section", { class: "card faithfulness", "aria-label": t`Faithfulness metrics` },
    make("h2", {}, t`How far to trust this map`), content,
    make("p", { class: "quiet" }, t`A weight shows what the model attends to, not why it predicts this output.`));
}

// A module with one map per sentence has one switch for the words of every sentence.
function switchTitle(data, map) {
  const isShared = data.maps.filter((candidate) => candidate.module === map.module).length > 1;
  return isShared ? translateTerm(map.englishTitle.replace(/sentence \d+/gi, "every sentence")) : map.groupTitle;
}

// A module has one switch per head, even if it has several maps in a batch.
function headSwitches(page) {
  const { server, data } = page;
  const modules = data.maps.filter((map, i) => data.maps.findIndex((candidate) => candidate.module === map.module) === i);
  return mapGroups(modules).map(({ key }) => make("div", { class: "switches" },
    make("p", { class: "quiet" }, switchTitle(data, modules.find((map) => map.group === key))),
    modules.filter((map) => map.group === key).map((map) => make("div", { class: "switch-row" },
      make("span", { class: "figure quiet" }, `L${map.layer + 1}`),
      Array.from({ length: map.heads }, (_, head) => {
        const off = server.has("disabled_heads", [map.module, head]);
        const title = t`${switchTitle(data, map)}, layer ${map.layer + 1}`;
        return make("button", { type: "button", class: "switch", "aria-pressed": String(off), "data-key": `off:${map.module}:${head}`,
          title: off ? t`${title}, head ${head + 1}: off` : t`${title}, head ${head + 1}: on`, "aria-label": t`Switch off ${title}, head ${head + 1}`,
          onclick: () => { server.toggle("disabled_heads", [map.module, head]); server.run(); } }, String(head + 1));
      })))));
}

// Every axis that any map attends to; the axis of the selected map is the default.
function itemSwitches(page) {
  const { data } = page;
  const axes = data.attendedAxes();
  const axis = [page.state.forbid, page.selection?.map?.keys].find((name) => axes.includes(name)) || axes[0];
  const image = data.imageOf(axis);
  const items = data.items(axis).map((item, i) => ({ ...item, i }));
  const listed = image ? items.filter((item) => !item.box) : items;
  return [make("h3", {}, t`Mask an item`),
    axes.length > 1 ? select(t`Axis`, axes.map((key) => ({ key, label: data.axes[key].title })), axis, (key) => page.change({ forbid: key })) : null,
    image ? [make("p", { class: "quiet" }, t`Click a cell of the image to mask it.`), cellSwitches(page, axis, image, items.filter((item) => item.box))] : null,
    listed.length > MAX_SWITCHES ? searchedSwitches(page, axis, listed) : make("div", { class: "tokens" }, listed.map((item) => itemSwitch(page, axis, item)))];
}

function itemSwitch(page, axis, { text, i, box }, properties = {}) {
  const { server } = page;
  return make("button", { type: "button", class: box ? "cell-switch" : "token-switch", "aria-pressed": String(server.has("hidden_items", [axis, i])), "data-key": `forbid:${axis}:${i}`,
    onclick: () => { server.toggle("hidden_items", [axis, i]); server.run(); }, ...properties }, box ? "" : visible(text));
}

// The cells of an image as buttons on the image, in its own grid.
function cellSwitches(page, axis, image, items) {
  const picture = new ImageCanvas(image, PICTURE_PIXELS, { "aria-hidden": "true" });
  const share = (value) => `${(100 * value).toFixed(3)}%`;
  const buttons = items.map((item) => itemSwitch(page, axis, item, { title: item.text, "aria-label": t`cell ${item.text}`,
    style: { left: share(item.box[0]), top: share(item.box[1]), width: share(item.box[2] - item.box[0]), height: share(item.box[3] - item.box[1]) } }));
  const columns = Math.max(1, Math.round(1 / (items[0].box[2] - items[0].box[0])));
  return roving(make("div", { class: "cell-switches", role: "group", "aria-label": t`Cells of the image` }, picture.canvas, buttons), columns);
}

// Many items: those that match a search, and those that are masked.
function searchedSwitches(page, axis, items) {
  const list = make("div", { class: "tokens" });
  const show = () => {
    const query = (page.state.find ?? "").toLowerCase();
    const isMasked = ({ i }) => page.server.has("hidden_items", [axis, i]);
    const matches = items.filter((item) => !isMasked(item) && (item.text.toLowerCase().includes(query) || String(item.i + 1) === query));
    const shown = matches.slice(0, MAX_SWITCHES);
    list.replaceChildren(...items.filter(isMasked).map((item) => itemSwitch(page, axis, item)), ...shown.map((item) => itemSwitch(page, axis, item, { title: t`item ${item.i + 1}` })),
      shown.length < matches.length ? make("p", { class: "quiet" }, t`${matches.length - shown.length} more; search for a text or a number from 1 to ${items.length}`) : "");
  };
  const box = make("input", { type: "search", "data-key": "find", "aria-label": t`Search items`, placeholder: t`Search items`, value: page.state.find ?? "",
    oninput: () => { page.updateState({ find: box.value || undefined }); show(); } });
  show();
  return [box, list];
}

function temperature(page) {
  const { server } = page;
  const readout = make("output", { class: "figure" }, formatNumber(server.changes.temperature, 1));
  return make("label", { class: "slider" }, make("h3", {}, t`Attention temperature`, " ", readout),
    make("input", { type: "range", min: 0.1, max: 4, step: 0.1, value: server.changes.temperature, "data-key": "temperature",
      oninput: (event) => { readout.textContent = formatNumber(Number(event.target.value), 1); },
      onchange: (event) => { server.changes = { ...server.changes, temperature: Number(event.target.value) }; server.run(); } }));
}

// One sentence about the effect of a change: the result, and its probability if the result stays the same.
function verdict([before, after], isSame) {
  if (!isSame) return t`The output changed.`;
  const isScored = Number.isFinite(before.score) && Number.isFinite(after.score);
  if (!isScored || chance(before) === chance(after)) return t`The output did not change.`;
  return t`The output is the same, its probability changed from ${chance(before)} to ${chance(after)}.`;
}

function outcome(page) {
  const { server } = page;
  if (server.busy) return make("p", { class: "quiet", role: "status" }, t`Running again …`);
  const undo = make("button", { type: "button", class: "action plain", "data-key": "undo", onclick: () => server.reset() }, t`Undo all`);
  if (!server.before || !server.hasChanges) return server.hasChanges ? undo : null;
  const inspections = [server.before, page.data];
  const isSame = resultKey(server.before) === resultKey(page.data);
  const scored = ({ outputs: [best] }) => (Number.isFinite(best.score) ? ` ${chance(best)}` : "");
  const line = (label, data) => make("p", {}, make("span", { class: "spoken-label" }, label), resultOf(data).content || EMPTY, make("span", { class: "figure quiet" }, scored(data)));
  return make("div", { class: "outcome", role: "status" }, line(t`before`, server.before), line(t`now`, page.data),
    make("p", { class: isSame ? "quiet" : "warm" }, verdict(inspections.map(({ outputs }) => outputs[0]), isSame)), undo);
}

function whatIf(page) {
  if (!page.server || !page.data.maps.length) return null;
  return make("section", { class: `card what-if ${page.server.busy ? "busy" : ""}`, "aria-label": t`What if` },
    make("h2", {}, t`What if …`),
    outcome(page),
    make("h3", {}, t`Switch off a head`), headSwitches(page), temperature(page), itemSwitches(page));
}

export function sidePanel(page) {
  return [whatIf(page), faithfulness(page)].filter(Boolean);
}
