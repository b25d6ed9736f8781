/* Smoothing and curves as arrays. Pure, tested in tests/browser/test_pure.py. A curve is
   {x, min, max, mean}: four arrays of one length. */

/**
 * An exponential mean over distance on the x axis, debiased (so that it starts at the first value,
 * not at 0). It starts anew at each of `cuts` (a restart, a change of the learning rate), so that
 * it never drags a jump along.
 * @param {{x: number[], mean: number[]}} curve
 * @param {number} weight of what came before, from 0 to 1
 * @param {number[]} [cuts]
 * @param {boolean} [log] for a log axis: the mean of the logarithms, so that one high value does
 *     not lift the line for long; values that such an axis cannot show are left out
 */
export function smooth(curve, weight, cuts = [], log = false) {
  const {x} = curve;
  const mean = log ? curve.mean.map((v) => (v > 0 ? Math.log(v) : NaN)) : curve.mean;
  const unit = Math.max((x[x.length - 1] - x[0]) / 400, gapOf(x)) || 1;
  const out = new Array(x.length);
  let sum = 0;
  let mass = 0;
  let cut = 0;
  for (let i = 0; i < x.length; i++) {
    while (cut < cuts.length && cuts[cut] <= x[i]) {
      if (i > 0 && cuts[cut] > x[i - 1]) {
        sum = 0;
        mass = 0;
      }
      cut++;
    }
    const keep = i === 0 ? 0 : weight ** Math.max(0.05, (x[i] - x[i - 1]) / unit);
    if (Number.isFinite(mean[i])) {
      const share = 1 - (weight > 0 ? Math.min(keep, 0.9999) : 0) || 1;
      sum = sum * keep + mean[i] * share;
      mass = mass * keep + share;
    }
    out[i] = mass > 0 ? sum / mass : NaN;
  }
  return log ? out.map(Math.exp) : out;
}

/**
 * The median distance of neighbours.
 * @param {number[]} x
 */
function gapOf(x) {
  const gaps = [];
  for (let i = 1; i < x.length; i++) {
    gaps.push(x[i] - x[i - 1]);
  }
  gaps.sort((a, b) => a - b);
  return gaps.length ? gaps[gaps.length >> 1] : 0;
}

/**
 * The value at or before x (steps) or between its neighbours.
 * @param {number[]} xs
 * @param {number[]} ys
 * @param {number} x
 * @param {boolean} [stepped]
 */
export function valueAt(xs, ys, x, stepped = false) {
  const i = lastAtOrBefore(xs, x);
  if (i < 0) {
    return NaN;
  }
  if (stepped || i === xs.length - 1 || xs[i] === x || !Number.isFinite(ys[i + 1])) {
    return ys[i];
  }
  return ys[i] + (ys[i + 1] - ys[i]) * (x - xs[i]) / (xs[i + 1] - xs[i]);
}

/**
 * The index of the last of xs that is at most x; -1 where there is none.
 * @param {number[]} xs
 * @param {number} x
 */
export function lastAtOrBefore(xs, x) {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (xs[mid] <= x) {
      low = mid + 1;
    } else {
      high = mid;
    }
  }
  return low - 1;
}

/**
 * @param {number[]} xs
 * @param {number} x
 */
export function nearest(xs, x) {
  const i = lastAtOrBefore(xs, x);
  if (i < 0) {
    return 0;
  }
  return i + 1 < xs.length && xs[i + 1] - x < x - xs[i] ? i + 1 : i;
}

/**
 * Indices of the points within a range.
 * @param {number[]} xs
 * @param {number[]} range
 */
export function visible(xs, [a, b]) {
  return xs.map((x, i) => i).filter((i) => xs[i] >= a && xs[i] <= b);
}

/**
 * Several sparse lines on the union of their x: rows [x, y1, y2, …] with null where a line has no
 * point.
 * @param {Page.Points[]} lines
 */
export function union(lines) {
  /** @type {Map<number, Page.ChartRow>} */
  const at = new Map();
  lines.forEach((line, k) => {
    for (let i = 0; i < line.x.length; i++) {
      let row = at.get(line.x[i]);
      if (!row) {
        row = [line.x[i], ...lines.map(() => null)];
        at.set(line.x[i], row);
      }
      row[k + 1] = line.y[i];
    }
  });
  return [...at.values()].sort((a, b) => Number(a[0]) - Number(b[0]));
}
