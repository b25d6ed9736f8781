/* Short runs that replace a prediction: the spec of one, and what it measured. Pure. */
import {globalBatch, strategyOf} from './spec.js';

export const TAG = 'trial';
/* The share of the curve in which minibatches settle and caches fill. */
const SETTLING = 1 / 3;
/* A trial is stopped by the page; the service stops one that the page forgot. */
const PATIENCE = 3;
/* The share of the values at either end that the interval leaves out. */
const TAIL = 0.1;

/**
 * The job with another strategy. Its optimizer is one that every strategy takes, unless the
 * strategy is the job's own.
 * @param {Api.Spec} spec
 * @param {string} strategy
 * @param {number} seconds
 * @returns {Api.Spec}
 */
export function trialSpec(spec, strategy, seconds) {
  const {target: ignored, max_restarts: too, ...rest} = spec;
  const own = strategyOf(spec) === strategy;
  const rate = spec.optimizer?.learning_rate;
  const plain = {type: 'sgd', ...(rate === undefined ? {} : {learning_rate: rate})};
  return {
    ...rest,
    name: 'trial of ' + strategy,
    tags: [TAG],
    ...(own ? {} : {strategy: {type: strategy}}),
    ...(own || spec.program ? {} : {optimizer: plain}),
    max_restarts: 0,
    max_seconds: PATIENCE * seconds
  };
}

/**
 * Whether two specs differ in nothing that a trial measures.
 * @param {Api.Spec} spec
 */
export function keyOf(spec) {
  const {strategy: a, name: b, epochs: c, target: d, ...rest} = spec;
  return JSON.stringify(rest);
}

/** @typedef {{seconds: number, samples: number}} Point  how far a trial had come */

/**
 * Samples per second from each point to the next.
 * @param {Point[]} points
 */
const speedsOf = (points) =>
    points.slice(1)
        .map((p, i) => (p.samples - points[i].samples) / (p.seconds - points[i].seconds))
        .filter((v) => v > 0)
        .sort((a, b) => a - b);

/**
 * A trial's measurements as a row of the prediction; null if it did not train long enough.
 * @param {Point[]} points in the order of time, two at least
 * @param {Api.Job} job as it was at the last of them
 * @param {Partial<Api.StrategyPrediction>} before what was predicted
 * @param {number} samples of an epoch
 * @returns {Api.StrategyPrediction | null}
 */
export function measuredRow(points, job, before, samples) {
  const last = points[points.length - 1];
  const settled = points.filter((p) => p.seconds >= last.seconds * SETTLING);
  const from = settled.length > 1 ? settled[0] : points[0];
  const speed = (last.samples - from.samples) / (last.seconds - from.seconds);
  const batch = globalBatch(job);
  if (!(speed > 0) || !batch) {
    return null;
  }
  const speeds = speedsOf(settled);
  const at = (/** @type {number} */ share) =>
      speeds[Math.round(share * (speeds.length - 1))] ?? speed;
  return {
    ...before,
    strategy: strategyOf(job.spec),
    measured: true,
    samples_per_second: speed,
    step_seconds: batch / speed,
    step_seconds_least: batch / Math.max(at(1 - TAIL), speed),
    step_seconds_most: batch / Math.min(at(TAIL), speed),
    epoch_seconds: samples > 0 ? samples / speed : undefined,
    staleness: {update_mean: job.staleness?.update_mean, max: job.staleness?.max}
  };
}
