/* Axes: the places of ticks, and the range of an axis. Pure, tested in tests/browser/test_pure.py.
 * */
import {plural, tick, timeTick} from '../text/format.js';

/**
 * The next of 1, 2, 5 by a power of ten.
 * @param {number} raw
 */
export function step125(raw) {
  if (!(raw > 0)) {
    return 1;
  }
  const power = 10 ** Math.floor(Math.log10(raw));
  const lead = [1, 2, 5].find((v) => raw / power <= v + 0.0001) || 10;
  return power * lead;
}

/**
 * @param {number} by
 * @param {number} a
 * @param {number} b
 */
function multiples(by, a, b) {
  const all = [];
  for (let v = Math.ceil(a / by - 1e-9); v * by <= b + by * 1e-9; v++) {
    all.push(+(v * by).toPrecision(12));
  }
  return all;
}

/**
 * 3 to 6 round values within [a, b].
 * @param {number} a
 * @param {number} b
 * @param {number} [most]
 */
export function linearTicks(a, b, most = 5) {
  if (!(b > a)) {
    return [a];
  }
  const by =
      [step125((b - a) / most), step125((b - a) / most) / 2, step125((b - a) / most) / 2.5]
          .filter((s) => /^[125]/.test(s.toExponential()))
          .filter((s) => (b - a) / s <= most + 1)
          .reduce((best, s) =>
                      (Math.abs((b - a) / s - most) < Math.abs((b - a) / best - most) ? s : best),
              step125((b - a) / most));
  return multiples(by, a, b);
}

/**
 * 1, 2, 5 of each power within [a, b]; powers alone where there are many; linear ones where hardly
 * any fit.
 * @param {number} a
 * @param {number} b
 */
export function logTicks(a, b) {
  const all = [];
  for (let p = Math.floor(Math.log10(a)); p <= Math.ceil(Math.log10(b)); p++) {
    for (const lead of [1, 2, 5]) {
      const v = +(lead * 10 ** p).toPrecision(6);
      if (v >= a * 0.999 && v <= b * 1.001) {
        all.push(v);
      }
    }
  }
  if (all.length > 7) {
    const powers = all.filter((v) => Math.abs(Math.log10(v) - Math.round(Math.log10(v))) < 1e-9);
    if (powers.length > 7) {
      return powers.filter((v, i) => i % Math.ceil(powers.length / 6) === 0);
    }
    return powers.length >= 3 ? powers : all.filter((v, i) => i % 2 === 0);
  }
  return all.length >= 3 || (all.length === 2 && b / a > 8) ? all : linearTicks(a, b, 4);
}

const TIMES = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600,
  1200, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800
];

/**
 * @param {number} a seconds
 * @param {number} b seconds
 * @param {number} [most]
 */
export function timeTicks(a, b, most = 6) {
  const coarse = b - a < 7200 ? 30 : 1800;
  const unit = b - a < 120 ? 0 : coarse; /* the labels keep one unit: seconds, minutes, hours */
  const by = TIMES.find((t) => t >= unit && (b - a) / t <= most) || TIMES[TIMES.length - 1];
  return multiples(by, a, b);
}

/**
 * @param {Page.Axis} axis
 * @param {number} a
 * @param {number} b
 * @param {number} most
 */
export function xTicks(axis, a, b, most) {
  if (axis === 'time') {
    return timeTicks(a, b, most);
  }
  const all = linearTicks(a, b, most);
  const whole = all.filter(Number.isInteger);
  return whole.length > 1 ? whole : all; /* there is no half a step, unless that is all one sees */
}

/**
 * @param {Page.Axis} axis
 * @param {number} v
 * @param {number} range
 */
export function xLabel(axis, v, range) {
  return axis === 'time' ? timeTick(v, range) : tick(v);
}

/* The share of the values that may lie below a log axis. */
const FEW = 0.05;

/**
 * The range of a value axis around the values. log: not below 1e-5 of the greatest, unless more
 * than a twentieth of the values would then lie below the axis.
 * @param {number[]} values
 * @param {{zero?: boolean, log?: boolean, pad?: number, least?: number}} [options]
 */
export function niceRange(values, options = {}) {
  const {zero = false, log = false, pad = 0.06, least = 0} = options;
  let low = Infinity;
  let high = -Infinity;
  for (const v of values) {
    if (Number.isFinite(v) && (!log || v > 0)) {
      low = v < low ? v : low;
      high = v > high ? v : high;
    }
  }
  if (!(high >= low)) {
    return log ? [0.1, 10] : [0, 1];
  }
  if (log) {
    const sorted = values.filter((v) => v > 0).sort((a, b) => a - b);
    const most = sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * FEW) + 1)];
    low = Math.max(low, Math.min(high / 1e5, most));
    const grow = Math.max(0.04, Math.log10(high / low) * pad);
    return [low / 10 ** grow, high * 10 ** grow];
  }
  if (zero) {
    return [0, Math.max(high * (1 + pad), least) || 1];
  }
  const span = Math.max(high - low, least, Math.abs(high) * 1e-6) || 1;
  return [low - span * pad, high + span * pad];
}

/**
 * The title of a log axis over these values, some of which may have no place on it.
 * @param {(number | null)[]} values
 */
export function logTitle(values) {
  const without = values.filter((v) => Number.isFinite(v) && Number(v) <= 0).length;
  return 'log axis' +
      (without > 0 ? ', without ' + plural(without, 'value') + ' of 0 or less' : '');
}

/**
 * Positions of labels as near to `wanted` as possible, at least `gap` apart, within [low, high], in
 * the same order.
 * @param {number[]} wanted
 * @param {number} gap
 * @param {number} low
 * @param {number} high
 */
export function spread(wanted, gap, low, high) {
  const order = wanted.map((y, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const out = wanted.slice();
  let last = -Infinity;
  for (const i of order) {
    out[i] = last = Math.max(wanted[i], last + gap, low);
  }
  let next = high + gap;
  for (const i of order.reverse()) {
    out[i] = next = Math.min(out[i], next - gap);
  }
  return out;
}
