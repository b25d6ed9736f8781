/* The time of a node's step by its minibatch, t = a + k·b, fitted to what was measured. A constant
   part below zero has no meaning, so that a is at least 0, as in job/minibatch/profile.c: where
   least squares would make it negative, the line goes through the origin. Pure, tested in
   tests/browser/test_pure.py. */

/**
 * a and k in seconds; `aWithin` and `kWithin` are half the intervals of 95 % (two standard errors);
 * `error` is the median relative distance of a point from the line.
 * @typedef {{a: number, k: number, aWithin: number, kWithin: number, error: number}} StepFit
 */

const LEAST_SPREAD = 1.2;
const STANDARD_ERRORS = 2;

/** @param {number[]} values */
const sum = (values) => values.reduce((all, v) => all + v, 0);

/**
 * Least squares with a ≥ 0.
 * @param {number[][]} points
 */
function line(points) {
  const n = points.length;
  const mb = sum(points.map(([b]) => b)) / n;
  const mt = sum(points.map(([, t]) => t)) / n;
  const spread = sum(points.map(([b]) => (b - mb) ** 2));
  const k = sum(points.map(([b, t]) => (b - mb) * (t - mt))) / spread;
  const a = mt - k * mb;
  const squares = sum(points.map(([b]) => b * b));
  return a >= 0 ? {a, k, perA: 1 / n + mb * mb / spread, perK: 1 / spread, free: 2} : {
    a: 0,
    k: sum(points.map(([b, t]) => b * t)) / squares,
    perA: 1 / n + mb * mb / spread,
    perK: 1 / squares,
    free: 1
  };
}

/**
 * The median relative distance of the points from a line.
 * @param {number[][]} points
 * @param {number} a
 * @param {number} k
 */
export function distance(points, a, k) {
  const off = points.map(([b, t]) => Math.abs(t - a - k * b) / t).sort((p, q) => p - q);
  return off.length ? off[off.length >> 1] : NaN;
}

/**
 * The line through [minibatch, seconds]; null where the sizes are too much alike to tell a from
 * k·b, or where larger minibatches took no longer.
 * @param {number[][]} points
 * @returns {StepFit | null}
 */
export function fitStep(points) {
  const sizes = points.map(([b]) => b);
  if (points.length < 2 || !(Math.max(...sizes) > LEAST_SPREAD * Math.min(...sizes))) {
    return null;
  }
  const {a, k, perA, perK, free} = line(points);
  if (!(k > 0)) {
    return null;
  }
  const off = points.map(([b, t]) => t - a - k * b);
  const variance = points.length > free ? sum(off.map((v) => v * v)) / (points.length - free) : NaN;
  return {
    a,
    k,
    aWithin: STANDARD_ERRORS * Math.sqrt(variance * perA),
    kWithin: STANDARD_ERRORS * Math.sqrt(variance * perK),
    error: distance(points, a, k)
  };
}
