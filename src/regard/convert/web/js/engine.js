// The model of the page: reads the model file, and answers requests with inspections.

import { noChanges } from "./inspection.js";
import { Program } from "./program.js";
import { TASKS } from "./tasks.js";
import { bytesOf, readConstants } from "./weights.js";

export class Engine {
  // file: the parsed model file (convert/web/model_file.py)
  constructor(file) {
    const constants = readConstants(file.constants.entries, bytesOf(file.constants.bytes));
    const programs = Object.fromEntries(Object.entries(file.programs).map(([name, program]) => [name, new Program(program, constants)]));
    this.task = new TASKS[file.task](file, programs);
  }

  // request: {text, upload: {name, file: base64}, options, changes} -> the inspection, or a promise of it
  inspect({ text = "", upload = null, options = {}, changes = noChanges() }) {
    return this.task.inspect({ text, upload, options, changes });
  }
}
