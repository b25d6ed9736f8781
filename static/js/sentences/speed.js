/* Sentences about a run whose steps are not spent computing. Pure. */
import {mean, stepTimes} from '../measures/measures.js';
import {cloneWith} from '../spec/clone.js';
import {entryOf, globalBatch, hasServers} from '../spec/spec.js';
import {alike, percent} from '../text/format.js';

import {withBatch} from './nextrun.js';
import {tense} from './words.js';

/** @typedef {import('./health.js').Run} Run */

const EXCHANGING = 0.4;
const LOADING = 0.3;
const TOLD = 0.1; /* share of a step: a second part that is worth a word */
/* Beyond this many steps' computing, a larger batch alone does not help. */
const BATCH_MOST = 4;
const ROUND_MOST = 16;
const IMAGES = 'images';
/* Threads of a rank that decode pictures, as the catalogue has them: by default, and at most. */
const DECODERS = 2;
const DECODERS_MOST = 64;

/**
 * What helps if the exchange takes `ratio` times the computing: a batch that computes as long, or,
 * if that would be too large, a strategy with several steps between two exchanges.
 * @param {Run} run
 * @param {number} ratio
 * @returns {Page.Action | undefined}
 */
function lessExchange({job, strategies}, ratio) {
  const batch = job.spec?.batching?.global_batch;
  const times = 2 ** Math.round(Math.log2(Math.min(Math.max(ratio, 2), ROUND_MOST)));
  const other = strategies.find((s) => s.exchanges_every);
  if (times > BATCH_MOST && other && entryOf(strategies, job.spec)?.replicas === 'alike') {
    const strategy = {type: other.name, [/** @type {string} */ (other.exchanges_every)]: times};
    return {
      text: 'Clone with ' + other.name + ', an exchange every ' + times + ' steps',
      href: cloneWith(job.id, {'/strategy': strategy})
    };
  }
  const wanted = (batch || 0) * Math.min(times, BATCH_MOST);
  const full = globalBatch(job) === batch; /* else it is above the training set already */
  return batch && full ? withBatch(job, wanted) : undefined;
}

/**
 * The cost of a larger batch whose rate does not grow with it (withBatch).
 * @param {Api.Job} job
 */
const fewer = (job) => (hasServers(job)
        ? ' The larger batch makes fewer updates in an epoch: more epochs make up for them.'
        : '');

/**
 * A large part of each step goes into exchanging gradients.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function exchangeBound(run) {
  const {workers, past} = run;
  const steps = stepTimes(workers).filter((s) => s.all > 0);
  const share = mean(steps.map((s) => s.exchange / s.all));
  if (workers.length < 2 || !(share >= EXCHANGING)) {
    return null;
  }
  const [all, exchange, compute, load] =
      alike(mean(steps.map((s) => s.all)), mean(steps.map((s) => s.exchange)),
          mean(steps.map((s) => s.compute)), mean(steps.map((s) => s.load)));
  const loads = mean(steps.map((s) => s.load / s.all)) >= TOLD;
  return {
    parts: ['The exchange of gradients ' + tense(past)('limits', 'limited') +
      ' this run: of a step of ' + all + ', ' + exchange + ' ' + tense(past)('are', 'were') +
      ' exchange' + (loads ? ', ' + load + ' loading data' : '') + ' and ' + compute +
      ' computing.'],
    evidence: 'Means over the ' + workers.length + ' nodes' +
        tense(past)('. ', ', averaged over the run. ') +
        'A larger global batch computes longer between two exchanges; a strategy that averages ' +
        'exchanges less often.' + fewer(run.job),
    key: 'exchange',
    chart: 'throughput',
    action:
        lessExchange(run, mean(steps.map((s) => s.exchange)) / mean(steps.map((s) => s.compute)))
  };
}

/**
 * Pictures are decoded by more threads; else the load of the node that waits most is to be seen.
 * @param {Run} run
 * @returns {Page.Action | undefined}
 */
function fasterData({job, workers}) {
  const {format, threads = DECODERS} = job.spec?.data || {};
  const more = Math.min(2 * threads, DECODERS_MOST);
  if (format === IMAGES && more > threads) {
    return {
      text: 'Clone with ' + more + ' threads that decode',
      href: cloneWith(job.id, {'/data/threads': more})
    };
  }
  const [first] = [...workers].sort((a, b) => (b.load_seconds ?? 0) - (a.load_seconds ?? 0));
  return first && {
    text: 'See the load of ' + first.node,
    href: '#/nodes?' + new URLSearchParams({node: first.node})
  };
}

/**
 * Between two steps nodes wait for their data.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function dataBound(run) {
  const {job, loading, past} = run;
  if (job.spec?.cluster || !(loading >= LOADING)) {
    return null;
  }
  return {
    parts: ['Loading data ' + tense(past)('limits', 'limited') + ' this run: it ' +
      tense(past)('takes', 'took') + ' ' + percent(loading, 0) + ' of the time.'],
    evidence: 'The median node ' + tense(past)('waits', 'waited') +
        ' that share of a step for the samples of its minibatch. ' +
        (job.spec?.program                          ? 'More workers of the program’s loader are '
                : job.spec?.data?.format === IMAGES ? 'More threads that decode pictures are '
                                                    : 'More threads of the nodes are ') +
        'the first thing to try.',
    key: 'loading',
    chart: 'throughput',
    action: fasterData(run)
  };
}
