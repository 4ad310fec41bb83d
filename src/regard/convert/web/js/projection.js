// Projection of vectors to two dimensions by principal component analysis.

const ITERATIONS = 60; // of the power method

const dot = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);

// Rows (n d) as arrays of numbers -> points (n 2)
export function principalPoints(rows) {
  const width = rows[0].length;
  const mean = rows[0].map((_, i) => rows.reduce((sum, row) => sum + row[i], 0) / rows.length);
  const centered = rows.map((row) => row.map((value, i) => value - mean[i]));
  const axes = [];
  for (let k = 0; k < Math.min(2, width); k++) axes.push(principalAxis(centered, axes, width));
  return centered.map((row) => [0, 1].map((k) => (axes[k] ? Math.round(10000 * dot(row, axes[k])) / 10000 : 0)));
}

// The direction of the largest variance that is orthogonal to the given axes, by the power method.
function principalAxis(centered, axes, width) {
  let axis = Array.from({ length: width }, (_, i) => Math.sin(i + 1)); // no particular direction
  for (let iteration = 0; iteration < ITERATIONS; iteration++) {
    const next = new Array(width).fill(0);
    for (const row of centered) {
      const share = dot(row, axis);
      for (let i = 0; i < width; i++) next[i] += share * row[i];
    }
    for (const other of axes) {
      const share = dot(next, other);
      for (let i = 0; i < width; i++) next[i] -= share * other[i];
    }
    const length = Math.sqrt(dot(next, next)) || 1;
    axis = next.map((value) => value / length);
  }
  return axis;
}
