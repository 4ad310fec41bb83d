// A user on the left (profile and history), what is recommended on the right with its reasons; below, the choices of
// several users beside each other and the items in two dimensions. Served, profile and history can be edited.

import { draw, make, number, select } from "../dom.js";
import { matrix } from "../matrix.js";
import { say } from "../i18n.js";

const LABELLED = { display: "grid", "grid-template-columns": "6.5em minmax(0, 1fr)", margin: "6px 0" }; // a name, then a box to fill in
const percent = (share) => `${Math.round(100 * share)} %`;

// What is asked of the server: the profile that is filled in, a bar, the titles.
function words(fields, titles) {
  const told = fields.filter(([, value]) => value).map(([name, value]) => `${name}=${value}`);
  return `${told.join(", ")} | ${titles.join("; ")}`;
}

function profile(raw, editable, typed) {
  return raw.fields.map((field) => {
    const box = editable
      ? make("input", { type: "text", name: `field:${field.name}`, value: typed[`field:${field.name}`] ?? field.value, list: `values:${field.name}`, "data-key": `field:${field.name}`, autocomplete: "off" })
      : make("span", { class: "word" }, field.value || say`not told`);
    return make("label", { class: "choice", style: LABELLED }, make("span", { class: "choice-label" }, field.name), box,
      editable && field.values.length ? make("datalist", { id: `values:${field.name}` }, field.values.map((value) => make("option", { value }))) : null);
  });
}

function history(raw, ask) {
  const items = raw.history.map((title, i) => make("li", { class: "share", style: { "grid-template-columns": "1fr auto" } },
    make("span", { class: "share-label", style: { "text-align": "left" }, title }, title),
    ask ? make("button", { type: "button", class: "link", "data-key": `drop:${i}`, "aria-label": say`without ${title}`,
      onclick: () => ask(raw.history.filter((_, other) => other !== i)) }, "×") : null));
  return raw.history.length ? make("ol", { class: "shares history", style: { "max-height": "300px" } }, items.reverse()) : make("p", { class: "quiet" }, say`nothing yet`);
}

function left(raw, page) {
  const form = make("form", { class: "card", "aria-label": say`User` });
  const fields = () => raw.fields.map((field) => [field.name, form.elements[`field:${field.name}`]?.value.trim() ?? field.value]);
  const ask = page.server ? (titles) => page.server.run(words(fields(), titles)) : null;
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const more = form.elements.more.value.trim();
    page.server.typed = Object.fromEntries(new FormData(form));
    ask(more ? [...raw.history, more] : raw.history);
  });
  const typed = (page.server?.wrong && page.server.typed) || {}; // what was refused can be mended
  form.append(make("h2", {}, raw.user ? say`User ${raw.user}` : say`A new user`), ...profile(raw, Boolean(ask), typed),
    make("h3", {}, say`History, latest first (${raw.history.length})`), history(raw, ask));
  if (ask) {
    form.append(make("label", { class: "choice", style: LABELLED }, make("span", { class: "choice-label" }, say`and then`),
      make("input", { type: "text", name: "more", value: typed.more ?? "", list: "titles", "data-key": "more", autocomplete: "off" }),
      make("datalist", { id: "titles" }, raw.titles.map((value) => make("option", { value })))),
    make("button", { type: "submit", class: "action", disabled: page.server.busy }, say`Recommend`));
    if (page.server.wrong) form.append(make("p", { class: "wrong", role: "alert" }, page.server.wrong));
  } else form.append(make("p", { class: "quiet" }, say`Served by regard look or regard serve, profile and history can be edited here.`));
  return form;
}

function because(one, rank) {
  const bars = one.reasons.map((reason) => make("li", { class: "share", style: { "grid-template-columns": "minmax(0, 16em) 1fr 4.2em" } },
    make("span", { class: "share-label", title: reason.name }, reason.name),
    make("span", { class: "share-track" }, make("span", { class: "share-bar", style: { width: `${100 * reason.share}%` } })),
    make("span", { class: "figure share-value", title: reason.weight === null ? "" : say`attention ${number(reason.weight, 3)}` }, percent(reason.share))));
  const check = one.reasons.length ? make("p", { class: "quiet check" }, one.without === rank
    ? say`Without ${one.reasons[0].name}: still no. ${rank}, so the weight was no reason.` : say`Without ${one.reasons[0].name}: no. ${one.without} instead of ${rank}.`) : null;
  return make("details", { open: rank === 1 }, make("summary", {}, make("strong", {}, one.title), " ", make("span", { class: "quiet figure" }, number(one.score, 2)),
    " ", make("span", { class: "quiet" }, Object.values(one.about).filter(Boolean).join(" · ").replaceAll("|", ", "))), make("ul", { class: "shares" }, bars), check);
}

function right(raw) {
  return make("section", { class: "card", "aria-label": say`Recommended` }, make("h2", {}, say`Recommended, and why`),
    raw.remarks.map((remark) => make("p", { class: "quiet remark" }, remark)),
    make("ol", { class: "recommended", style: { "padding-left": "1.6em" } }, raw.list.map((one, i) => make("li", {}, because(one, i + 1)))));
}

// Users × items: each row is one user's look at the items.
function users(data, element, page) {
  const map = data.maps.find((one) => one.queries === "users" && one.keys === "items" && !one.long);
  if (!map) return null;
  const head = page.state.choice === undefined ? -1 : Number(page.state.choice);
  const heads = [{ key: "-1", label: say`all` }, ...Array.from({ length: map.heads }, (_, i) => ({ key: String(i), label: String(i + 1) }))];
  const picture = matrix({ rows: map.rows, columns: map.columns, values: map.numbers(head), rowLabels: data.labels("users"), columnLabels: data.labels("items"), title: say`users × items` },
    Math.max(320, element.clientWidth - 60));
  return make("section", { class: "card users-items", "aria-label": say`Users and items` }, make("h2", {}, say`Who looks at what`),
    make("p", { class: "quiet" }, say`Weights over these items alone: those recommended above, then those chosen most often.`),
    map.heads > 1 ? select(say`Head`, heads, String(head), (key) => page.change({ choice: key === "-1" ? undefined : key })) : null, picture);
}

function places(raw, width) {
  const { titles, points, recommended, seen } = raw.items;
  const height = Math.min(520, Math.max(300, width * 0.6));
  const scale = (values, size) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return (value) => 30 + ((value - low) / (high - low || 1)) * (size - 60);
  };
  const [x, y] = [scale(points.map(([at]) => at), width), scale(points.map(([, at]) => at), height)];
  const kind = (i) => (i < recommended ? "on" : i < recommended + seen ? "near" : "");
  const taken = [];
  const half = (title) => [...title].reduce((sum, letter) => sum + (letter > "\u1100" ? 7 : 4), 12);
  const inside = (title, at) => Math.max(half(title), Math.min(width - half(title), at));
  const free = (title, at, up) => {
    const wide = half(title);
    if (taken.some(([a, b, other]) => Math.abs(a - at) < (wide + other) && Math.abs(b - up) < 15)) return false;
    return Boolean(taken.push([at, up, wide]));
  };
  const dots = titles.map((title, i) => draw("g", { class: `dot ${kind(i)}` },
    draw("circle", { cx: x(points[i][0]), cy: y(points[i][1]), r: kind(i) ? 5 : 3 }, draw("title", {}, title)),
    i < recommended && free(title, inside(title, x(points[i][0])), y(points[i][1])) ? draw("text", { x: inside(title, x(points[i][0])), y: y(points[i][1]) - 8, "text-anchor": "middle" }, title) : null));
  return make("section", { class: "card", "aria-label": say`Items in two dimensions` }, make("h2", {}, say`Items in two dimensions`),
    make("p", { class: "quiet" }, say`By PCA of the items' vectors: recommended (named where there is room), chosen before (coloured), and those chosen most often.`),
    draw("svg", { width, height, class: "scatter", role: "img", "aria-label": say`${titles.length} items in two dimensions` }, dots.reverse()));
}

export const view = {
  name: "recommendation",
  title: say`Recommendation`,
  opens: true, // the page begins with it
  suits: (data) => Boolean(data.extra?.recommendation),
  show(data, element, page) {
    const raw = data.extra.recommendation;
    const room = Math.max(280, element.clientWidth - 60);
    element.append(make("div", { class: "split", style: { display: "grid", "grid-template-columns": room > 760 ? "minmax(240px, 340px) minmax(0, 1fr)" : "minmax(0, 1fr)" } }, left(raw, page), right(raw)));
    const map = users(data, element, page);
    element.append(...(map ? [map] : []), places(raw, room));
  },
};
