// The page where there is nothing to show: its words, which stand in it in English, in the language of the browser.

import { language, t } from "./i18n.js";

// Enter looks and Shift+Enter begins a line, as on every page; line breaks are sent as they are, and not as a form has them.
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
  document.querySelector(".action").textContent = t`Look`;
  document.getElementById("others")?.replaceChildren(t`Runs here:`);
  preserveLineBreaks(document.querySelector("form.asking"), document.querySelector(".ask"));
  document.documentElement.dataset.ready = "yes";
}
