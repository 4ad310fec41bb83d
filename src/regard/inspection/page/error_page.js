// Error page: its HTML is in English; this script translates it to the language of the browser.

import { language, t } from "./i18n.js";

// Enter submits and Shift+Enter inserts a line break, as on every page. Line breaks are sent unchanged, not as the form encodes them.
function preserveLineBreaks(form, box) {
  box.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const query = new URLSearchParams(new FormData(form));
    query.set("text", box.value);
    location.assign(`/?${query}`);
  });
}

export function start() {
  document.documentElement.lang = language;
  document.querySelector("h1").textContent = t`There is nothing to show`;
  document.querySelector(".ask").setAttribute("aria-label", t`Input`);
  document.querySelector(".action").textContent = t`Inspect`;
  document.getElementById("others")?.replaceChildren(t`Available runs:`);
  preserveLineBreaks(document.querySelector("form.asking"), document.querySelector(".ask"));
  document.documentElement.dataset.ready = "yes";
}
