/* What the curves of a job tell of its course, for the verdict: its losses and tests, its workers
   averaged over the whole run, and what loading data takes. Pure. */
import {loadingShare, mean} from '../../measures.js';
import {ended} from '../../states.js';

/** @typedef {import('./curves.js').Curves} Curves */

/**
 * A worker with its means over the whole run, where its curves tell them.
 * @param {Api.Worker} w
 * @param {Curves} curves
 * @returns {Api.Worker}
 */
function averaged(w, curves) {
  const of = (/** @type {string} */ name, /** @type {number} */ otherwise) => {
    const over = mean(curves.means(name, w.node));
    return Number.isFinite(over) ? over : otherwise;
  };
  return {
    ...w,
    batch: of('batch', w.batch),
    compute_seconds: of('compute_seconds', w.compute_seconds),
    exchange_seconds: of('exchange_seconds', w.exchange_seconds),
    wait_seconds: of('wait_seconds', w.wait_seconds)
  };
}

/**
 * @param {import('./model.js').JobModel} data
 * @param {Api.NodeRows[]} steps the last ones of each node
 * @returns {Page.Learned}
 */
export function learnedOf({job, curves, evaluations, strategies}, steps) {
  const over = ended(job.state);
  return {
    strategies,
    tests: evaluations,
    losses: curves.means('train_loss'),
    loading: loadingShare(steps),
    workers: over ? (job.workers || []).map((w) => averaged(w, curves)) : undefined
  };
}
