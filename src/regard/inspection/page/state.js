// The selection, stored in the URL fragment: a link, a reload or the back button restores view, input and what-if changes.

const INTEGER_KEYS = new Set(["head", "row", "column", "probe", "run", "word"]);
const PAIR_LIST_KEYS = new Set(["off", "hide"]); // what-if: [[module, head], …] and [[axis, item], …]

const isPair = (pair) => Array.isArray(pair) && pair.length === 2 && typeof pair[0] === "string" && Number.isInteger(pair[1]);

function pairs(text) {
  try {
    const list = JSON.parse(text);
    return Array.isArray(list) ? list.filter(isPair) : [];
  } catch {
    return []; // a truncated link
  }
}

export function readState() {
  const state = {};
  for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
    if (key === "heads") state.heads = text.split(".").filter(Boolean).map(Number).filter(Number.isInteger);
    else if (PAIR_LIST_KEYS.has(key)) state[key] = pairs(text);
    else if (key === "temperature") state.temperature = Math.min(4, Math.max(0.1, Number(text) || 1));
    else if (!INTEGER_KEYS.has(key)) state[key] = text;
    else if (/^-?\d+$/.test(text)) state[key] = Number(text);
  }
  return state;
}

// `historyStep`: add an entry to the browser history.
export function writeState(state, historyStep = false) {
  const fragment = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (value === undefined || value === null || (Array.isArray(value) && !value.length)) continue;
    fragment.set(key, PAIR_LIST_KEYS.has(key) ? JSON.stringify(value) : Array.isArray(value) ? value.join(".") : value);
  }
  try {
    history[historyStep ? "pushState" : "replaceState"](null, "", `#${fragment}`);
  } catch {
    // A page in a notebook cell (srcdoc) has no address; the view still works, only the link does not.
  }
}

// Indices in a link may be from another input: an index out of range becomes the first.
export function clamp(value, size, low = 0) {
  return Number.isInteger(value) && value >= low && value < size ? value : Math.min(0, size - 1);
}
