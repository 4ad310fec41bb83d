// Talks to the server that sent the page, if one did: a new sentence, a what-if, the fine tiles of a long map.

export class Server {
  constructor(base, page) {
    Object.assign(this, { base, page, changes: { off: [], forbid: [], temperature: 1 }, before: null, busy: false, wrong: "" });
  }

  // A function that fetches one tile of an inspection, as base64 text or null.
  tiles(one) {
    return async (map, head, level, i, j) => {
      const answer = await fetch(`${this.base}/tile?${new URLSearchParams({ look: one.id, map, head, level, i, j })}`);
      return (await answer.json()).data;
    };
  }

  get changed() {
    const { off, forbid, temperature } = this.changes;
    return off.length > 0 || forbid.length > 0 || temperature !== 1;
  }

  toggle(list, item) {
    const same = (other) => JSON.stringify(other) === JSON.stringify(item);
    const kept = this.changes[list].filter((other) => !same(other));
    this.changes[list] = kept.length < this.changes[list].length ? kept : [...kept, item];
  }

  has(list, item) {
    return this.changes[list].some((other) => JSON.stringify(other) === JSON.stringify(item));
  }

  // Run the sentence again with what is switched off, forbidden or cooled; the page then shows the answer.
  async run(text = this.page.raw.title) {
    const fresh = text !== this.page.raw.title;
    if (fresh) this.changes = { off: [], forbid: [], temperature: 1 };
    if (!this.before || fresh) this.before = fresh ? null : this.page.raw;
    this.busy = true;
    this.wrong = "";
    this.page.draw();
    try {
      const answer = await fetch(`${this.base}/look`, {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ text, ...this.changes }),
      });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error || found.detail || `the server answered ${answer.status}`);
      await this.page.replace(found);
      if (!this.changed) this.before = null;
    } catch (wrong) {
      this.wrong = wrong.message;
    } finally {
      this.busy = false;
      this.page.draw();
    }
  }

  reset() {
    this.changes = { off: [], forbid: [], temperature: 1 };
    return this.run();
  }
}

// No server stands behind a page opened from disk.
export function server(raw, page) {
  return raw.server ? new Server(raw.server, page) : null;
}
