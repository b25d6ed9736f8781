/* What the map of layers shows of a run's norms: which tensors, which values, on what scale. Pure,
   tested in tests/browser/test_pure.py. */

/** @typedef {'weights' | 'gradients' | 'ratio'} Measure */
/** @typedef {{name: string, elements: number, values: (number | null)[]}} NormRow */

/** Tensors above which those of one dimension (biases, norms) are left out at first. */
const MANY = 24;
const SMALL = /\.(bias|gamma|beta)$/;

/**
 * The gradient by the weight that it changes; null where one is not finite, or the weight is 0.
 * @param {number | null} gradient
 * @param {number | null} weight
 */
const ratio = (gradient, weight) => (gradient === null || !weight ? null : gradient / weight);

/**
 * A row for each tensor, in the network's order. `all`: biases too, of a network that has many
 * tensors.
 * @param {Api.Norms} norms
 * @param {Measure} measure
 * @param {boolean} all
 * @returns {NormRow[]}
 */
export function normRows(norms, measure, all) {
  const rows = norms.tensors.map(({name, elements}, i) => {
    const [weights, gradients] = [norms.weights[i], norms.gradients[i]];
    const values = {weights, gradients, ratio: gradients.map((g, k) => ratio(g, weights[k]))};
    return {name, elements, values: values[measure]};
  });
  const large = rows.filter((r) => !SMALL.test(r.name));
  return all || rows.length <= MANY || !large.length ? rows : large;
}

/** @param {Api.Norms} norms */
export const hidesSmall = (norms) => norms.tensors.length > MANY &&
    norms.tensors.some((t) => SMALL.test(t.name)) && norms.tensors.some((t) => !SMALL.test(t.name));

const WIDEST = 1e8;

/**
 * The least and greatest positive value, in which colours go by the logarithm; no wider than eight
 * powers of ten below the greatest.
 * @param {NormRow[]} rows
 * @returns {[number, number] | null} null: there is no positive value
 */
export function normRange(rows) {
  let low = Infinity;
  let high = 0;
  for (const {values} of rows) {
    for (const v of values) {
      if (v !== null && v > 0) {
        low = v < low ? v : low;
        high = v > high ? v : high;
      }
    }
  }
  if (!(high > 0)) {
    return null;
  }
  low = Math.max(low, high / WIDEST);
  return high > low ? [low, high] : [low / 2, high * 2];
}

/**
 * The place of a value in the range, from 0 to 1; NaN: it is not finite.
 * @param {number | null} v
 * @param {[number, number]} range
 */
export function shade(v, [low, high]) {
  if (v === null || !Number.isFinite(v)) {
    return NaN;
  }
  const at = v > 0 ? Math.log(v / low) / Math.log(high / low) : 0;
  return Math.max(0, Math.min(1, at));
}

/**
 * A colour between those of a scale, by "#rrggbb".
 * @param {string[]} scale
 * @param {number} share 0 to 1
 */
export function between(scale, share) {
  const at = share * (scale.length - 1);
  const i = Math.min(scale.length - 2, Math.floor(at));
  const part = (/** @type {string} */ text, /** @type {number} */ k) =>
      parseInt(text.slice(1 + 2 * k, 3 + 2 * k), 16);
  const mix = [0, 1, 2].map((k) => {
    const [p, q] = [part(scale[i], k), part(scale[i + 1], k)];
    return Math.round(p + (q - p) * (at - i));
  });
  return 'rgb(' + mix.join(',') + ')';
}

/**
 * Places of the norms on an axis of the page.
 * @param {Api.Norms} norms
 * @param {Page.Axis} axis
 * @param {number} samples of an epoch
 */
export function normPlaces(norms, axis, samples) {
  return axis === 'step' ? norms.x
      : axis === 'time'  ? norms.time
                         : norms.epoch.map((e) => e * samples);
}

/**
 * The index of the norms for a place: the first at or after it; -1: none.
 * @param {number[]} places
 * @param {number} x
 */
export function normAt(places, x) {
  const i = places.findIndex((p) => p >= x);
  return i >= 0 ? i : places.length - 1;
}
