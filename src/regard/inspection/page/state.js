// What is being looked at, kept in the URL fragment so that a link (or the back button) restores the view.

const NUMBERS = new Set(["head", "row", "column", "probe", "run", "word"]);

export function read() {
  const state = {};
  for (const [key, text] of new URLSearchParams(location.hash.slice(1))) {
    if (key === "heads") state.heads = text.split(".").filter(Boolean).map(Number).filter(Number.isInteger);
    else if (!NUMBERS.has(key)) state[key] = text;
    else if (/^-?\d+$/.test(text)) state[key] = Number(text);
  }
  return state;
}

export function write(state) {
  const fragment = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (value === undefined || value === null || (Array.isArray(value) && !value.length)) continue;
    fragment.set(key, Array.isArray(value) ? value.join(".") : value);
  }
  try {
    history.replaceState(null, "", `#${fragment}`);
  } catch {
    // A page inside a notebook cell (srcdoc) has no address of its own; the view still works, only the link does not.
  }
}

// Indices from a link may be from another sentence: whatever does not fit falls back to the first.
export function clamp(value, size, low = 0) {
  return Number.isInteger(value) && value >= low && value < size ? value : Math.min(0, size - 1);
}
