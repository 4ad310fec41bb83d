// Talks to the server that sent the page, if one did: a new sentence, a what-if, the fine tiles of a long map, the numbers of a head.

import { t } from "./i18n.js";

const noChanges = () => ({ off: [], forbid: [], temperature: 1 });
const isEqual = (first, second) => JSON.stringify(first) === JSON.stringify(second);
const sameInput = (first, second) => first.text === second.text && first.file === second.file; // whether two wishes have one input

// What of a wish stands in the address.
function addressOf({ text, file, changes: { off, forbid, temperature } }) {
  return { text: file ? undefined : text, file, off, hide: forbid, temperature: temperature === 1 ? undefined : temperature };
}

// A wish is an input (a text, or the name of a file that was sent and which one, `file`) with changes.
export class Server {
  constructor(raw, page) {
    const displayed = { text: raw.text, changes: noChanges() };
    Object.assign(this, { base: raw.server, page, initialText: raw.text, displayed, lastRequest: displayed, changes: noChanges(), before: null, pending: null, busy: false, error: "", files: new Map() });
  }

  async get(path, query) {
    const response = await fetch(`${this.base}/${path}?${new URLSearchParams(query)}`);
    const result = await response.json();
    if (!response.ok) throw new Error(result.error || t`the server answered ${response.status}`);
    return result;
  }

  // A function that fetches one tile of an inspection, as base64 text or null.
  tileFetcher(inspection) {
    return async (map, head, level, i, j) => (await this.get("tile", { look: inspection.id, map, head, level, i, j })).data;
  }

  // All the numbers of one head.
  step(map, head) {
    return this.get("step", { look: this.page.raw.id, map, head });
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

  // What the address asks for, if that is not what is shown: after a reload, a link, or the back button. Files cannot be in an
  // address; one that was sent to this page is still here, for any other the page's first input stands, and the address says so.
  restore() {
    const { text = this.initialText, file, off = [], hide = [], temperature = 1 } = this.page.state;
    const unavailable = file ? !this.files.has(file) : this.page.raw.opens && text !== this.initialText; // the server opens no file by its name
    if (unavailable) this.page.updateState(addressOf({ changes: noChanges() }));
    const input = unavailable ? { text: this.initialText } : file ? { text: this.files.get(file).name, file } : { text };
    const request = { ...input, changes: unavailable ? noChanges() : { off, forbid: hide, temperature }, restored: true };
    if (sameInput(request, this.lastRequest) && isEqual(request.changes, this.lastRequest.changes)) return false;
    this.submit(request);
    return true;
  }

  // Look at a text, or again at what is shown, with what is switched off, forbidden or cooled. A new text begins unchanged.
  run(text = this.displayed.text, changes = text === this.displayed.text ? this.changes : noChanges()) {
    return this.submit({ text, file: text === this.displayed.text ? this.displayed.file : undefined, changes });
  }

  // The page shows the answer to a wish. What is wished while an answer is awaited is asked for after it, so the last wish is
  // the one that is shown.
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
      // what failed is not kept: no later wish fails with it
      Object.assign(this, { pending: null, lastRequest: this.displayed, changes: this.displayed.changes });
    } finally {
      this.busy = false;
      this.page.draw();
    }
  }

  async sendPending() {
    const [request, displayed, before] = [this.pending, this.displayed, this.page.data];
    const { text, file, changes, upload = this.files.get(file) } = request; // what-if on a file that was sent sends it again
    this.pending = null;
    const body = JSON.stringify({ text, ...changes, upload });
    const response = await fetch(`${this.base}/look`, { method: "POST", headers: { "Content-Type": "application/json" }, body });
    const result = await response.json();
    if (!response.ok) throw new Error(result.error || t`the server answered ${response.status}`);
    if (this.pending !== null) return; // something else is wished for by now
    if (isEqual(changes, noChanges()) || !sameInput(request, displayed)) this.before = null;
    else this.before ||= before;
    if (upload) this.files.set(file, upload);
    this.displayed = request;
    if (this.page.draft === text) this.page.draft = null;
    await this.page.replace(result);
    this.page.updateState(addressOf(request), !request.restored && !sameInput(request, displayed));
  }

  // A file of the reader's own, sent whole. Another file of the same name is another input.
  async send(file) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    let text = "";
    for (let i = 0; i < bytes.length; i += 32768) text += String.fromCharCode(...bytes.subarray(i, i + 32768));
    const upload = { name: file.name, file: btoa(text) };
    return this.submit({ text: file.name, file: `${file.name}/${Date.now().toString(36)}`, upload, changes: noChanges() });
  }

  // What cannot even be asked for.
  showError(message) {
    this.error = message;
    this.page.draw();
  }

  reset() {
    return this.run(this.displayed.text, noChanges());
  }
}

// No server stands behind a page opened from disk.
export function createServer(raw, page) {
  return raw.server ? new Server(raw, page) : null;
}
