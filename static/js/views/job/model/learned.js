/* A job's course for the verdict, from its curves: losses and tests, workers averaged over the
 * whole run, and the share of loading data. Pure. */
import {ended} from '../../../elements/states.js';
import {loadingShare, mean, median, stepTimes} from '../../../measures/measures.js';
import {known} from '../../../text/format.js';

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
    load_seconds: of('load_seconds', w.load_seconds ?? 0),
    compute_seconds: of('compute_seconds', w.compute_seconds),
    exchange_seconds: of('exchange_seconds', w.exchange_seconds),
    wait_seconds: of('wait_seconds', w.wait_seconds)
  };
}

/**
 * For a run that is over: the share of its steps that the median node spent loading data; null: not
 * known.
 * @param {Api.Worker[] | undefined} workers
 * @param {Curves} curves
 */
function loadingOf(workers, curves) {
  const told = (workers || []).filter((w) => known(mean(curves.means('load_seconds', w.node))));
  return told.length ? median(stepTimes(told).map((s) => s.load / s.all)) : null;
}

/**
 * @param {import('./model.js').JobModel} data
 * @param {Api.NodeRows[]} steps the last ones of each node
 * @returns {Page.Learned}
 */
export function learnedOf({job, curves, evaluations, strategies}, steps) {
  const workers =
      ended(job.state) ? (job.workers || []).map((w) => averaged(w, curves)) : undefined;
  return {
    strategies,
    tests: evaluations,
    losses: curves.means('train_loss'),
    loading: loadingOf(workers, curves) ?? loadingShare(steps),
    workers
  };
}
