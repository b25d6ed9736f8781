/* A metric that a program logged as a curve over an axis. Pure. */

/** @typedef {{step: number[], time: number[], samples: number[]}} Places */

/**
 * The places of a metric's points on each axis.
 * @param {Api.LoggedMetric} metric
 * @param {number} perEpoch samples of an epoch; 0: not known
 * @returns {Places}
 */
const placesOf = ({x, time, epoch}, perEpoch) =>
    ({step: x, time, samples: epoch.map((e) => e * perEpoch)});

/** @param {(number | null)[]} values null: it became NaN or infinite */
const numbers = (values) => values.map((v) => v ?? NaN);

/**
 * @param {Api.LoggedMetric} metric
 * @param {Page.Axis} axis
 * @param {number} perEpoch
 * @returns {Page.Curve}
 */
export function curveOf(metric, axis, perEpoch) {
  const {min, max, mean, total_points: total} = metric;
  const x = placesOf(metric, perEpoch)[axis];
  return {x, min: numbers(min), max: numbers(max), mean: numbers(mean), total};
}
