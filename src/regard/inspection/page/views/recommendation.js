// User on the left (profile and history), recommendations on the right with their reasons; below, the attention of several users
// to items, and the items in two dimensions. If the page has a server, profile and history can be edited.

import { draw, make, formatNumber, percent, select } from "../dom.js";
import { legend, matrix } from "../matrix.js";
import { t } from "../i18n.js";

const FIELD_STYLE = { display: "grid", "grid-template-columns": "6.5em minmax(0, 1fr)", margin: "6px 0" }; // a label, then an input field
const shareText = (share) => `${Math.round(100 * share)}%`;

// Text of the request to the server: the given profile fields, a bar, the titles.
function requestText(fields, titles) {
  const assignments = fields.filter(([, value]) => value).map(([name, value]) => `${name}=${value}`);
  return `${assignments.join(", ")} | ${titles.join("; ")}`;
}

function profile(raw, editable, typed) {
  return raw.fields.map((field) => {
    const box = editable
      ? make("input", { type: "text", name: `field:${field.name}`, value: typed[`field:${field.name}`] ?? field.value, list: `values:${field.name}`, "data-key": `field:${field.name}`, autocomplete: "off" })
      : make("span", { class: "word" }, field.value || t`not given`);
    return make("label", { class: "choice", style: FIELD_STYLE }, make("span", { class: "choice-label" }, field.name), box,
      editable && field.values.length ? make("datalist", { id: `values:${field.name}` }, field.values.map((value) => make("option", { value }))) : null);
  });
}

function history(raw, requestFor) {
  const items = raw.history.map((title, i) => make("li", { class: "share", style: { "grid-template-columns": "1fr auto" } },
    make("span", { class: "share-label", style: { "text-align": "left" }, title }, title),
    requestFor ? make("button", { type: "button", class: "link", "data-key": `drop:${i}`, "aria-label": t`remove ${title}`,
      onclick: () => requestFor(raw.history.filter((_, index) => index !== i)) }, "×") : null));
  return raw.history.length ? make("ol", { class: "shares history", style: { "max-height": "300px" } }, items.reverse()) : make("p", { class: "quiet" }, t`no items yet`);
}

function userForm(raw, page) {
  const form = make("form", { class: "card", "aria-label": t`User` });
  const fields = () => raw.fields.map((field) => [field.name, form.elements[`field:${field.name}`]?.value.trim() ?? field.value]);
  const requestFor = page.server ? (titles) => page.server.run(requestText(fields(), titles)) : null;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const addition = form.elements.more.value.trim();
    page.server.formValues = Object.fromEntries(new FormData(form));
    requestFor(addition ? [...raw.history, addition] : raw.history);
  });
  const typed = (page.server?.error && page.server.formValues) || {}; // a rejected input can be corrected
  form.append(make("h2", {}, raw.user ? t`User ${raw.user}` : t`A new user`), ...profile(raw, Boolean(requestFor), typed),
    make("h3", {}, t`History, latest first (${raw.history.length})`), history(raw, requestFor));
  if (requestFor) {
    form.append(make("label", { class: "choice", style: FIELD_STYLE }, make("span", { class: "choice-label" }, t`next item`),
      make("input", { type: "text", name: "more", value: typed.more ?? "", list: "titles", "data-key": "more", autocomplete: "off" }),
      make("datalist", { id: "titles" }, raw.titles.map((value) => make("option", { value })))),
    make("button", { type: "submit", class: "action", disabled: page.server.busy }, t`Recommend`));
  } else form.append(make("p", { class: "quiet" }, t`Profile and history can be edited here if the page is served by regard look or regard serve.`));
  return form;
}

// `output`: the same item among the outputs; its score is a log probability, if it has one.
function recommendationDetails(item, rank, output) {
  const bars = item.reasons.map((reason) => make("li", { class: "share", style: { "grid-template-columns": "minmax(0, 16em) 1fr 4.2em" } },
    make("span", { class: "share-label", title: reason.name }, reason.name),
    make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * reason.share}%` } })),
    make("span", { class: "figure share-value", title: reason.weight === null ? "" : t`attention ${formatNumber(reason.weight, 3)}` }, shareText(reason.share))));
  const check = item.reasons.length ? make("p", { class: "quiet check" }, item.without === rank
    ? t`Without ${item.reasons[0].name}: still rank ${rank}, so the weight was not a reason.` : t`Without ${item.reasons[0].name}: rank ${item.without} instead of ${rank}.`) : null;
  return make("details", { open: rank === 1 }, make("summary", {}, make("strong", {}, item.title), " ", make("span", { class: "quiet figure" }, Number.isFinite(output?.score) ? percent(output.score) : formatNumber(item.score, 2)),
    " ", make("span", { class: "quiet" }, Object.values(item.about).filter(Boolean).join(" · ").replaceAll("|", ", "))), make("ul", { class: "shares" }, bars), check);
}

function recommendationList(raw, outputs) {
  return make("section", { class: "card", "aria-label": t`Recommended items` }, make("h2", {}, t`Recommended items and reasons`),
    raw.remarks.map((remark) => make("p", { class: "quiet remark" }, remark)),
    make("ol", { class: "recommended", style: { "padding-left": "1.6em" } }, raw.list.map((item, i) => make("li", {}, recommendationDetails(item, i + 1, outputs[i])))));
}

// Users × items: each row is the attention of one user to the items.
function userItemMap(data, element, page) {
  const map = data.maps.find((candidate) => candidate.queries === "users" && candidate.keys === "items" && !candidate.long);
  if (!map) return null;
  const head = page.state.choice === undefined ? -1 : Number(page.state.choice);
  page.selection = { map, head };
  const heads = [{ key: "-1", label: t`all` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: String(i), label: String(i + 1) }))];
  const top = map.colorTop(head);
  const picture = matrix({ rows: map.rows, columns: map.columns, values: map.weights(head), top, rowLabels: data.labels("users"), columnLabels: data.labels("items"), title: t`users × items` },
    Math.max(320, element.clientWidth - 60));
  return make("section", { class: "card users-items", "aria-label": t`Users and items` }, make("h2", {}, t`Attention of users to items`),
    make("p", { class: "quiet" }, t`Weights over these items only: the items recommended above, then the items chosen most often.`),
    map.heads > 1 ? select(t`Head`, heads, String(head), (key) => page.change({ choice: key === "-1" ? undefined : key })) : null, picture, legend(top));
}

function itemScatter(raw, width) {
  const { titles, points, recommended: recommendedCount, seen: historyCount } = raw.items;
  const height = Math.min(520, Math.max(300, width * 0.6));
  const scale = (values, size) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return (value) => 30 + ((value - low) / (high - low || 1)) * (size - 60);
  };
  const [x, y] = [scale(points.map(([at]) => at), width), scale(points.map(([, at]) => at), height)];
  const kind = (i) => (i < recommendedCount ? "on" : i < recommendedCount + historyCount ? "near" : "");
  const labelBoxes = [];
  const halfWidth = (title) => [...title].reduce((sum, character) => sum + (character > "\u1100" ? 7 : 4), 12);
  const clampedX = (title, at) => Math.max(halfWidth(title), Math.min(width - halfWidth(title), at));
  const reserve = (title, at, up) => {
    const extent = halfWidth(title);
    if (labelBoxes.some(([a, b, otherHalf]) => Math.abs(a - at) < (extent + otherHalf) && Math.abs(b - up) < 15)) return false;
    return Boolean(labelBoxes.push([at, up, extent]));
  };
  const dots = titles.map((title, i) => draw("g", { class: `dot ${kind(i)}` },
    draw("circle", { cx: x(points[i][0]), cy: y(points[i][1]), r: kind(i) ? 5 : 3 }, draw("title", {}, title)),
    i < recommendedCount && reserve(title, clampedX(title, x(points[i][0])), y(points[i][1])) ? draw("text", { x: clampedX(title, x(points[i][0])), y: y(points[i][1]) - 8, "text-anchor": "middle" }, title) : null));
  return make("section", { class: "card", "aria-label": t`Items in two dimensions` }, make("h2", {}, t`Items in two dimensions`),
    make("p", { class: "quiet" }, t`PCA of the item vectors: recommended items (named if there is room), items in the history (colored), and the items chosen most often.`),
    draw("svg", { width, height, class: "scatter", role: "img", "aria-label": t`${titles.length} items in two dimensions` }, dots.reverse()));
}

export const view = {
  name: "recommendation",
  title: t`Recommendation`,
  sidePanel: true,
  opensFirst: true, // the page opens with this view
  suits: (data) => Boolean(data.extra?.recommendation),
  show(data, element, page) {
    const raw = data.extra.recommendation;
    const room = Math.max(280, element.clientWidth - 60);
    element.append(make("div", { class: "split", style: { display: "grid", "grid-template-columns": room > 760 ? "minmax(240px, 340px) minmax(0, 1fr)" : "minmax(0, 1fr)" } }, userForm(raw, page), recommendationList(raw, data.outputs)));
    const map = userItemMap(data, element, page);
    element.append(...(map ? [map] : []), itemScatter(raw, room));
  },
};
