// Create elements. Text is always added as text nodes, never as markup, so that a sentence cannot become HTML.

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "style") for (const [name, setting] of Object.entries(value)) element.style.setProperty(name, setting);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// make("button", {class: "chip", onclick: f}, "text", otherElement) -> HTML element
export function make(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

// draw("line", {x1: 0, ...}) -> SVG element
export function draw(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG_NAMESPACE, tag), properties, children);
}

// Create a canvas of `width` x `height` CSS pixels that is sharp on high-density screens, with a context in CSS pixels.
// If there is less room, width and height shrink in proportion.
export function sharpCanvas(width, height, properties = {}) {
  const density = Math.min(window.devicePixelRatio || 1, 3);
  const canvas = make("canvas", { width: Math.round(width * density), height: Math.round(height * density), ...properties });
  canvas.style.width = `${width}px`;
  canvas.style.height = "auto";
  canvas.style.aspectRatio = `${width} / ${height}`;
  const context = canvas.getContext("2d");
  context.scale(density, density);
  return { canvas, context };
}

// Row of buttons of which one is pressed. items: [{key, label, title}]; arrow keys move the selection.
export function choice(label, items, chosen, pick) {
  const onKey = (event) => {
    const offset = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!offset) return;
    event.preventDefault();
    event.stopPropagation();
    const index = items.findIndex((item) => item.key === chosen);
    const { key } = items[(index + offset + items.length) % items.length];
    pick(key);
    document.querySelector(`[data-key="${CSS.escape(`${label}:${key}`)}"]`)?.focus(); // redrawn, so this is a new element
  };
  const buttons = items.map((item) =>
    make("button", {
      type: "button", role: "radio", class: "segment", title: item.title, "data-key": `${label}:${item.key}`,
      "aria-checked": String(item.key === chosen), tabindex: item.key === chosen ? 0 : -1, onclick: () => pick(item.key),
    }, item.label));
  return make("div", { class: "choice" },
    make("span", { class: "choice-label" }, label),
    make("div", { class: "segments", role: "radiogroup", "aria-label": label, onkeydown: onKey }, buttons));
}

// Table of buttons with `columns` columns. Tab reaches the pressed button, or else the first; arrow keys move between buttons.
export function roving(table, columns) {
  const buttons = [...table.querySelectorAll("button")];
  const tabStop = buttons.find((button) => button.getAttribute("aria-pressed") === "true") || buttons[0];
  buttons.forEach((button) => { button.tabIndex = button === tabStop ? 0 : -1; });
  table.addEventListener("keydown", (event) => {
    const offset = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns }[event.key];
    const next = buttons[buttons.indexOf(document.activeElement) + offset];
    if (!offset || !next) return;
    event.preventDefault();
    next.focus();
  });
  return table;
}

// A labelled <select>.
export function select(label, items, chosen, pick) {
  const options = items.map((item) => make("option", { value: item.key, selected: item.key === chosen }, item.label));
  const box = make("select", { "data-key": `select:${label}`, onchange: (event) => pick(event.target.value) }, options);
  return make("label", { class: "choice" }, make("span", { class: "choice-label" }, label), box);
}

// Announce a text to screen readers without moving anything on the screen.
export function announce(text) {
  document.getElementById("live").textContent = text;
}

export const formatNumber = (value, digits = 4) =>
  Number.isFinite(value) ? value.toFixed(digits).replace("-", "−") : value === -Infinity ? "−∞" : "–";

// Log probability -> percent, with one decimal where a whole number would say too little.
export const percent = (score) => {
  const share = 100 * Math.exp(score);
  if (share < 0.05) return "<0.1%";
  return `${formatNumber(share, share >= 99.95 || (share >= 10 && share < 99) ? 0 : 1)}%`;
};

// Widths of texts in pixels, in the font of the page; font: "500 17px".
const ruler = document.createElement("canvas").getContext("2d");
export function textWidths(texts, font) {
  ruler.font = `${font} ${getComputedStyle(document.body).fontFamily}`;
  return texts.map((text) => ruler.measureText(text).width);
}

// Label of an SVG element, truncated to a width. A truncated label shows its full text on hover.
export function fitLabel(label, width, font) {
  const characters = Array.from(visible(label));
  const truncated = (count) => `${characters.slice(0, count).join("")}…`;
  if (textWidths([visible(label)], font)[0] <= width) return visible(label);
  let count = characters.length - 1;
  while (count > 1 && textWidths([truncated(count)], font)[0] > width) count--;
  return [truncated(count), draw("title", {}, label)];
}

// Function: start, stop in characters (code points, as Python counts them) -> that part of a text.
export function slicer(text) {
  const characters = Array.from(text);
  return (start, stop) => characters.slice(start, stop).join("");
}

// Show a label that is only whitespace as ␣.
export const visible = (label) => (label.trim() === "" ? "␣".repeat(Math.max(1, label.length)) : label);
