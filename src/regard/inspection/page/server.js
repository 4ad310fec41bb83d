// Client of the server that sent the page, if any: new inputs, what-if changes, fine tiles of long maps, the numbers of a head.

import { Inspection } from "./data.js";
import { t } from "./i18n.js";

const noChanges = () => ({ disabled_heads: [], hidden_items: [], temperature: 1 }); // field names of the request
const isEqual = (first, second) => JSON.stringify(first) === JSON.stringify(second);
const sameInput = (first, second) => first.text === second.text && first.file === second.file && isEqual(first.options, second.options); // true if two requests have the same input and options

// Return the part of a request that is stored in the address.
function addressOf({ text, file, options = {}, changes: { disabled_heads, hidden_items, temperature } }) {
  return { text: file ? undefined : text, file, options: isEqual(options, {}) ? undefined : JSON.stringify(options), off: disabled_heads, hide: hidden_items, temperature: temperature === 1 ? undefined : temperature };
}

function optionsIn(text) {
  try {
    return JSON.parse(text ?? "{}") ?? {};
  } catch {
    return {}; // a truncated link
  }
}

// A request is an input with options of the task, and changes of the model. The input is a text, or the name of an uploaded file with its key `file`.
export class Server {
  constructor(raw, page) {
    const displayed = { text: raw.text, options: {}, changes: noChanges() };
    Object.assign(this, { base: raw.server, page, initialText: raw.text, displayed, lastRequest: displayed, changes: noChanges(), before: null, pending: null, busy: false, error: "", files: new Map(), compared: [] });
  }

  // Send a request and return the JSON of the response.
  async request(address, options) {
    const response = await fetch(address, options).catch(() => {
      throw new Error(t`The server does not answer; is it still running?`);
    });
    const result = await response.json().catch(() => ({}));
    if (!response.ok) throw new Error(result.error || t`the server returned ${response.status}`);
    return result;
  }

  get(path, query) {
    return this.request(`${this.base}/${path}?${new URLSearchParams(query)}`);
  }

  post(base, body) {
    return this.request(`${base}/look`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  }

  // Return a function that fetches one tile of an inspection, as base64 text or null.
  tileFetcher(inspection) {
    return async (map, head, level, i, j) => (await this.get("tile", { look: inspection.id, map, head, level, i, j })).data;
  }

  // Fetch all numbers of one head.
  step(map, head) {
    return this.get("step", { look: this.page.raw.id, map, head });
  }

  // Options of the last request.
  get options() {
    return this.lastRequest.options;
  }

  get hasChanges() {
    return !isEqual(this.changes, noChanges());
  }

  toggle(list, item) {
    const remaining = this.changes[list].filter((candidate) => !isEqual(candidate, item));
    const next = remaining.length < this.changes[list].length ? remaining : [...remaining, item];
    this.changes = { ...this.changes, [list]: next };
  }

  has(list, item) {
    return this.changes[list].some((candidate) => isEqual(candidate, item));
  }

  // Submit the request in the address, if it is not displayed: after a reload, a link, or the back button. An address cannot contain
  // a file. A file uploaded by this page is still available; otherwise the page's initial input is used and the address is updated.
  restore() {
    const { text = this.initialText, file, options, off = [], hide = [], temperature = 1 } = this.page.state;
    const unavailable = file ? !this.files.has(file) : this.page.raw.opens && text !== this.initialText && !(text === "" && this.page.raw.generates); // the server does not open files by name
    if (unavailable) this.page.updateState(addressOf({ changes: noChanges() }));
    const input = unavailable ? { text: this.initialText } : file ? { text: this.files.get(file).name, file } : { text };
    const request = { ...input, options: optionsIn(options), changes: unavailable ? noChanges() : { disabled_heads: off, hidden_items: hide, temperature }, restored: true };
    if (sameInput(request, this.lastRequest) && isEqual(request.changes, this.lastRequest.changes)) return false;
    this.submit(request);
    return true;
  }

  // Inspect a text, or the displayed input again, with heads off, items masked or a temperature. A new text starts without changes.
  run(text = this.displayed.text, changes = text === this.displayed.text ? this.changes : noChanges()) {
    return this.submit({ text, file: text === this.displayed.text ? this.displayed.file : undefined, options: this.options, changes });
  }

  // Display the result of a request. Requests that arrive while a response is pending are sent after it, so the last request
  // is the one that is displayed.
  async submit(request) {
    Object.assign(this, { pending: request, lastRequest: request, changes: request.changes });
    if (this.busy) return;
    this.busy = true;
    this.error = "";
    this.page.draw();
    try {
      while (this.pending !== null) await this.sendPending();
    } catch (error) {
      this.error = error.message;
      // discard the failed request, so that later requests do not fail with it
      const compared = this.page.runs.length > 1 ? this.compared : [];
      Object.assign(this, { pending: null, lastRequest: this.displayed, changes: this.displayed.changes, compared });
    } finally {
      this.busy = false;
      this.page.draw();
    }
  }

  async sendPending() {
    const [request, displayed, before] = [this.pending, this.displayed, this.page.data];
    const { text, file, options, changes, upload = this.files.get(file) } = request; // what-if on an uploaded file sends the file again
    this.pending = null;
    const inputs = { text, upload, ...(isEqual(options, {}) ? {} : { options }) };
    const isNewWithChanges = !isEqual(changes, noChanges()) && !sameInput(request, displayed);
    const unchanged = isNewWithChanges ? new Inspection(await this.post(this.base, inputs)) : null;
    const result = await this.post(this.base, { ...inputs, ...changes });
    const compared = [];
    for (const { base } of this.compared) compared.push(await this.post(base, inputs));
    if (this.pending !== null) return; // a newer request is pending
    if (isEqual(changes, noChanges())) this.before = null;
    else if (!sameInput(request, displayed)) this.before = unchanged; // a link to an input with changes
    else this.before ||= before;
    if (upload) this.files.set(file, upload);
    this.displayed = request;
    if (this.page.draft === text) this.page.draft = null;
    await this.page.replace(result, compared);
    this.page.updateState(addressOf(request), !request.restored && !(sameInput(request, displayed) && isEqual(changes, displayed.changes)));
  }

  // Upload a file of the user. Another file of the same name is another input.
  async send(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    const upload = { name: file.name, file: btoa(text) };
    return this.submit({ text: file.name, file: `${file.name}/${Date.now().toString(36)}`, upload, options: this.options, changes: noChanges() });
  }

  // Show the displayed input with further runs of the server, next to this run; [] shows this run alone.
  compareWith(choices) {
    this.compared = choices;
    this.page.updateState({ view: choices.length ? "compare" : undefined }, true);
    return this.run();
  }

  // Use these options of the task from now on.
  useOptions(options) {
    return this.submit({ text: this.displayed.text, file: this.displayed.file, options, changes: this.changes });
  }

  // Report an input that cannot be requested.
  showError(message) {
    this.error = message;
    this.page.draw();
  }

  reset() {
    return this.run(this.displayed.text, noChanges());
  }
}
