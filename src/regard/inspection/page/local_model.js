// The model inside the page, in place of a server: a worker runs it (convert/web/js/worker.js), without Python and without a network.

import { Server } from "./server.js";
import { t } from "./i18n.js";

// Start the worker from the texts of two elements: its script, and the model file.
function startWorker() {
  const script = document.getElementById("worker").textContent;
  const worker = new Worker(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  worker.postMessage({ file: document.getElementById("model").textContent });
  return worker;
}

export class LocalModel extends Server {
  constructor(raw, page) {
    super(raw, page);
    Object.assign(this, { worker: null, waiting: new Map(), lastRequestId: 0 });
  }

  // The answer of the worker to one request; the worker starts with the first.
  ask(request) {
    if (!this.worker) {
      this.worker = startWorker();
      this.worker.onmessage = ({ data }) => {
        const { resolve, reject } = this.waiting.get(data.id);
        this.waiting.delete(data.id);
        if (data.error) reject(new Error(data.error));
        else resolve(data.result);
      };
      this.worker.onerror = (event) => {
        for (const { reject } of this.waiting.values()) reject(new Error(t`the model of the page failed: ${event.message}`));
        this.waiting.clear();
      };
    }
    const id = ++this.lastRequestId;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      this.worker.postMessage({ id, request });
    });
  }

  post(base, { text, upload, options, ...changes }) {
    return this.ask({ text, upload, options, changes: Object.keys(changes).length ? changes : undefined });
  }

  // All numbers of one head of the displayed input, which the page of a long input does not store.
  async step(map, head) {
    const { text, file, options } = this.displayed;
    const { steps } = await this.ask({ text, upload: this.files.get(file), options });
    return steps.find((step) => step.map === map && step.head === head);
  }

  // Maps of the model are complete in the page.
  tileFetcher() {
    return null;
  }
}
