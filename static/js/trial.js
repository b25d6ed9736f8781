/* Short runs that replace a prediction: the spec of one, and what it measured. Pure. */

export const TAG = 'trial';
/* Of its curve, the share in which minibatches settle and caches fill. */
const SETTLING = 1 / 3;
/* A trial is stopped by the page; the service stops one that the page forgot. */
const PATIENCE = 3;

/**
 * The job with another strategy. Its optimizer is one that every strategy takes, unless the strategy
 * is the job's own.
 * @param {Api.Spec} spec
 * @param {string} strategy
 * @param {number} seconds
 * @returns {Api.Spec}
 */
export function trialSpec(spec, strategy, seconds) {
  const {target: ignored, max_restarts: too, ...rest} = spec;
  const own = (spec.strategy?.type || 'sync') === strategy;
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

/**
 * What a trial measured, as a row of the prediction; null where it did not train long enough.
 * @param {Api.Job} job
 * @param {{mean: (number | null)[], min: (number | null)[], max: (number | null)[]} | undefined}
 *     curve of its samples per second
 * @param {Partial<Api.StrategyPrediction>} before what was predicted
 * @param {string} strategy
 * @returns {Api.StrategyPrediction | null}
 */
export function measuredRow(job, curve, before, strategy) {
  const all = (curve?.mean || []).filter((v) => v !== null && v > 0);
  const speeds = /** @type {number[]} */ (all.slice(Math.floor(all.length * SETTLING)));
  const batch = job.assignment?.global_batch || job.spec.batching?.global_batch;
  if (!speeds.length || !batch) {
    return null;
  }
  const speed = speeds.reduce((a, b) => a + b, 0) / speeds.length;
  const worked = before.epoch_seconds && before.samples_per_second;
  return {
    ...before,
    strategy,
    measured: true,
    samples_per_second: speed,
    step_seconds: batch / speed,
    step_seconds_least: batch / Math.max(...speeds),
    step_seconds_most: batch / Math.min(...speeds),
    epoch_seconds: worked ? Number(before.epoch_seconds) * Number(before.samples_per_second) / speed
                          : undefined,
    staleness: {update_mean: job.staleness?.update_mean, max: job.staleness?.max}
  };
}
