// Run a program: a list of operations whose arguments are inputs, constants and earlier results.

import { OPERATORS } from "./operators.js";

// aten.add.Tensor -> the operation "aten.add"; overloads with different arguments have their own entry.
function operatorOf(name) {
  const operator = OPERATORS[name] ?? OPERATORS[name.replace(/\.[^.]+$/, "")];
  if (!operator) throw new Error(`no operation ${name}`);
  return operator;
}

export class Program {
  // constants: name -> tensor
  constructor({ nodes, outputs }, constants) {
    Object.assign(this, { outputs, constants });
    this.nodes = nodes.map(([name, values, options]) => ({ name, values, options, run: name === "input" ? null : operatorOf(name) }));
    this.numInputs = this.nodes.filter((node) => node.name === "input").length;
    const isInput = nodes.map(() => false);
    this.nodes.forEach(({ name, values }, i) => { isInput[i] = name === "input" || name === "regard_web.attend.default" || dependsOn(values, isInput); });
    this.isFixed = isInput.map((depends) => !depends); // results that are the same for all inputs are computed once
    this.fixed = [];
    this.lastUse = lastUses(this.nodes, outputs);
  }

  // inputs: tensors; context: {changes, hiddenKeys, record}, see attention.js -> output tensors
  run(inputs, context = {}) {
    if (inputs.length !== this.numInputs) throw new Error(`${inputs.length} inputs, but the program has ${this.numInputs}`);
    const results = new Array(this.nodes.length);
    const valueOf = (argument) => {
      if (argument === null || typeof argument !== "object") return argument;
      if (Array.isArray(argument)) return argument.map(valueOf);
      if ("n" in argument) return results[argument.n];
      if ("c" in argument) return this.constants[argument.c];
      return Number(argument.f.replace("inf", "Infinity"));
    };
    this.nodes.forEach((node, i) => {
      if (!node.run) results[i] = inputs[i];
      else if (this.isFixed[i] && i in this.fixed) results[i] = this.fixed[i];
      else {
        results[i] = node.run(...node.values.map(valueOf), Object.fromEntries(Object.entries(node.options).map(([key, value]) => [key, valueOf(value)])), context);
        if (this.isFixed[i]) this.fixed[i] = results[i];
      }
      for (const unused of this.lastUse[i]) results[unused] = undefined;
    });
    return this.outputs.map(valueOf);
  }
}

function dependsOn(values, isInput) {
  return values.some((value) => (Array.isArray(value) ? dependsOn(value, isInput) : value !== null && typeof value === "object" && "n" in value && isInput[value.n]));
}

// For each node, the earlier results that are not used after it.
function lastUses(nodes, outputs) {
  const last = new Map();
  const visit = (value, i) => {
    if (Array.isArray(value)) value.forEach((part) => visit(part, i));
    else if (value !== null && typeof value === "object" && "n" in value) last.set(value.n, i);
  };
  nodes.forEach(({ values }, i) => visit(values, i));
  visit(outputs, nodes.length);
  const lists = nodes.map(() => []);
  for (const [node, i] of last) if (i < nodes.length) lists[i].push(node);
  return lists;
}
