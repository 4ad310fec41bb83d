// The tasks that the page can run, by name.

import { Translation } from "./tasks/translation.js";

export const TASKS = { translation: Translation };
