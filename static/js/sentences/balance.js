/* Sentences about unequal nodes: who is slow, by how much, what was done, what it gained. Speeds
   are compared per sample (computing time by minibatch), measured before the exchange. Pure. */
import {median, ownSeconds, perSample, stepTimes} from '../measures/measures.js';
import {cloneWith} from '../spec/clone.js';
import {globalBatch, hasServers, policyOf} from '../spec/spec.js';
import {alike, capital, known, percent, plural, seconds, times, whole} from '../text/format.js';

import {withBatch} from './nextrun.js';
import {counted, everyone, tense} from './words.js';

/** @typedef {import('./health.js').Run} Run */

const SLOWER = 1.15;
const TOGETHER = 0.2;
const CHART = 'minibatch-per-node';
const LEAST_MINIBATCHES = [4, 8]; /* for a CPU, and for a GPU */

/**
 * The figures for the sentences.
 * @param {Run} run
 */
function compare(run) {
  const {workers, past} = run;
  const say = tense(past);
  const steps = stepTimes(workers);
  const compute = steps.map((x) => x.own);
  const [shortest, longest] = [Math.min(...compute), Math.max(...compute)];
  const each = speeds(run);
  const slow = workers.reduce((a, b) => (each(b) > each(a) ? b : a));
  const others = workers.filter((w) => w !== slow);
  /* with two nodes neither is the median */
  const other = others.length === 1 ? others[0] : null;
  const mid = other ? each(other) : median(workers.map(each));
  const ratio = each(slow) / mid;
  const [own, middle] = alike(each(slow), mid);
  return {
    ...run,
    say,
    steps,
    shortest,
    longest,
    slow,
    two: Boolean(other),
    ratio,
    own,
    middle,
    spread: longest > 0 ? (longest - shortest) / longest : 0,
    who: [
      {node: slow.node}, say(' computes ', ' computed ') + times(ratio) + ' slower than ',
      other ? {node: other.node} : 'the median node'
    ],
    evidence: 'Measured before the exchange' + say('', ', averaged over the run') + ': ' + own +
        ' per sample; ' + (other ? other.node + say(' needs ', ' needed ') : 'the median is ') +
        middle + '. '
  };
}

/**
 * Seconds of computing for one sample, as measured. Where every node's line is known, those of an
 * equal split: a small minibatch bears more of a step's fixed part, which does not make its node
 * slower. Of a line only the form counts, the share of that part in a step: how long a step takes
 * was measured, and the line of a run that is short, or whose node has just changed its speed, is
 * far from it.
 * @param {Run} run
 * @returns {(worker: Api.Worker) => number}
 */
function speeds({job, workers}) {
  const share = globalBatch(job) / workers.length;
  const fitted = share > 0 && workers.every((w) => (w.fit?.seconds_per_sample ?? 0) > 0);
  return ({fit, ...worker}) => {
    const line = (/** @type {number} */ batch) =>
        Math.max(0, fit?.fixed_seconds ?? 0) + (fit?.seconds_per_sample ?? 0) * batch;
    return fitted ? ownSeconds(worker) * line(share) / line(worker.batch) / share
                  : perSample(worker);
  };
}

/** @typedef {ReturnType<typeof compare>} Compared */

/**
 * The first and the present minibatch of a node, where it has become smaller.
 * @param {Api.Assignment[]} assignments
 * @param {string} node
 */
function moved(assignments, node) {
  const sizes = assignments.map((a) => a.batches?.[node] ?? 0).filter((size) => size > 0);
  const [first, now] = [sizes[0], sizes[sizes.length - 1]];
  return sizes.length > 1 && now < first ? [first, now] : null;
}

/**
 * A step before the first change of minibatches, where it was clearly longer; else NaN.
 * @param {Api.Assignment[]} assignments
 * @param {number} longest
 */
function before(assignments, longest) {
  const change = assignments.find((a, i) => i > 0 && a.version > 1 && a.measured_step_seconds > 0 &&
          a.predicted_step_seconds > 0);
  const measured = change?.measured_step_seconds ?? NaN;
  return measured > longest * 1.05 ? measured : NaN;
}

/** @param {Compared} c */
function stalenessNote({job, slow, say}) {
  const all = job.workers || [];
  const mean = all.find((w) => w.node === slow.node)?.staleness?.mean;
  const others =
      median(all.filter((w) => w.node !== slow.node).map((w) => w.staleness?.mean ?? NaN));
  if (!known(mean) || !known(others) || (mean === 0 && others === 0)) {
    return '';
  }
  return 'Its gradients ' + say('are ', 'were ') + mean.toFixed(1) +
      ' versions old, averaged over the run; those of the others ' + others.toFixed(1) + '. ';
}

/**
 * @param {Compared} c
 * @returns {Page.Verdict}
 */
function even({say, workers, spread, own, middle, two}) {
  return {
    parts: ['The ' + counted(workers.length) + ' nodes ' + say('are', 'were') +
      ' about equally fast: they ' + say('finish', 'finished') + ' a step ' +
      (spread < 0.005 ? 'together' : 'within ' + percent(spread, 0) + ' of each other') + '.'],
    evidence: (two ? 'The slower ' : 'The slowest ') + say('needs ', 'needed ') + own +
        ' per sample; ' + (two ? 'the other ' : 'the median is ') + middle + '.' +
        say(' Nothing needs doing.', ''),
    key: 'even'
  };
}

/**
 * The straggler's minibatch was made smaller.
 * @param {Compared} c
 * @param {number[]} sizes
 * @returns {Page.Verdict}
 */
function changed(c, sizes) {
  const {say, longest, shortest} = c;
  const together = c.spread < TOGETHER;
  const was = before(c.assignments, longest);
  const [least, most, old] = alike(shortest, longest, was);
  const instead = known(was) ? ' instead of ' + old : '';
  const tail = together ? '. ' + capital(everyone(c.workers.length)) + ' nodes ' +
          say('now finish', 'then finished') + ' a step together: ' + most + ' of computing' +
          instead + '.'
                        : '. Computing a step ' + say('now takes', 'took') + ' between ' + least +
          ' and ' + most + instead + '.';
  return {
    parts: [...c.who, ', so its minibatch went from ' + sizes[0] + ' to ' + sizes[1] + tail],
    evidence: stalenessNote(c) + c.evidence + (together ? say('Nothing needs doing.', '') : ''),
    straggler: c.slow.node,
    key: 'moved:' + c.slow.node + (together ? ':together' : ''),
    chart: CHART
  };
}

/**
 * Every minibatch is the least that nodes are given (a quantum), so that none can become smaller.
 * @param {Compared} c
 * @returns {Page.Verdict | null}
 */
function tooSmall(c) {
  const {say, job, slow, workers} = c;
  const size = Math.round(slow.batch);
  if (!LEAST_MINIBATCHES.includes(size) || workers.some((w) => Math.round(w.batch) !== size)) {
    return null;
  }
  const more = Math.ceil(2 * c.ratio) * globalBatch(job);
  return {
    parts: [
      ...c.who,
      '. Its minibatch ' + say('cannot become', 'could not become') +
          ' smaller: sizes are multiples of ' + size + ', and the global batch of ' +
          whole(globalBatch(job)) + ' leaves each node ' + size + '.'
    ],
    evidence: c.evidence,
    straggler: slow.node,
    key: 'small:' + slow.node,
    chart: CHART,
    action: withBatch(job, more)
  };
}

/**
 * Minibatches are dynamic and the straggler's did not become smaller; it may have begun so, by what
 * an earlier job measured.
 * @param {Compared} c
 * @returns {Page.Verdict}
 */
function unchanged(c) {
  const {say} = c;
  const fits = c.spread < TOGETHER;
  const given = c.assignments[c.assignments.length - 1]?.batches?.[c.slow.node];
  const last = Math.round(given ?? c.slow.batch);
  const multiple = LEAST_MINIBATCHES[1];
  const equal = multiple * Math.floor(globalBatch(c.job) / c.workers.length / multiple);
  const small = last < equal; /* in an equal split some have less, by rounding */
  const [least, most] = alike(c.shortest, c.longest);
  const between =
      'computing a step ' + say('takes', 'took') + ' between ' + least + ' and ' + most + '.';
  const apart = small ? ', so its minibatch ' + say('is ', 'was ') + last + '. ' + capital(between)
      : c.past        ? '; ' + between
                      : '. Its minibatch is still ' + c.slow.batch +
          '; it changes as soon as enough steps are measured.';
  const text = fits ? '; its minibatch of ' + last + ' ' + say('lets', 'let') + ' ' +
          everyone(c.workers.length) + ' finish a step together: ' + most + ' of computing.'
                    : apart;
  return {
    parts: [...c.who, text],
    evidence: stalenessNote(c) + c.evidence,
    straggler: c.slow.node,
    key: (fits ? 'fits:' : 'measuring:') + c.slow.node,
    chart: CHART
  };
}

/**
 * The changes that make a job's minibatches dynamic, without given ones.
 * @param {Api.Job} job
 * @returns {{[pointer: string]: unknown}}
 */
function dynamic({spec}) {
  const {sizes, weights, ...rest} = spec?.batching || {};
  return sizes || weights ? {'/batching': {...rest, policy: 'dynamic'}}
                          : {'/batching/policy': 'dynamic'};
}

/**
 * Minibatches stay as they are: what that costs.
 * @param {Compared} c
 * @returns {Page.Verdict}
 */
function fixed(c) {
  const {say} = c;
  const policy = policyOf(c.job.spec);
  const rate = c.workers.reduce((sum, w) => sum + 1 / perSample(w), 0);
  const step = Math.max(...c.steps.map((x) => x.all));
  const shorter = (c.longest - globalBatch(c.job) / rate) / step;
  const gains = shorter > 0.05;
  const served = hasServers(c.job); /* with a server nobody waits for a slow node */
  const would = ' Dynamic minibatches would ' + say('make', 'have made');
  const advice = !gains ? ''
      : served          ? would + ' all gradients about equally stale.'
                        : would + ' a step about ' + percent(shorter, 0) + ' shorter.';
  const waits = c.steps.filter((x) => x.node !== c.slow.node)
                    .map((x) => (step > 0 ? (c.longest - x.own) / step : 0));
  const cost = served ? ', and the minibatches ' + say('are ', 'were ') + policy +
          ', so its gradients ' + say('arrive', 'arrived') + ' late.'
                      : ': the others ' + say('wait ', 'waited ') + percent(median(waits), 0) +
          ' of each step for it.';
  return {
    parts: [...c.who, cost + advice],
    evidence: (served ? stalenessNote(c) : '') + c.evidence,
    straggler: c.slow.node,
    key: (served ? 'late:' : 'waits:') + c.slow.node,
    chart: CHART,
    action: gains
        ? {text: 'Clone with dynamic minibatches', href: cloneWith(c.job.id, dynamic(c.job))}
        : undefined
  };
}

/**
 * @param {Run} run with at least one worker
 * @returns {Page.Verdict}
 */
export function balance(run) {
  const c = compare(run);
  const {workers, say} = c;
  if (workers.length === 1) {
    /* the average is less, since an epoch's last minibatch is smaller */
    const batch = globalBatch(run.job) || workers[0].batch;
    return {
      parts: ['One node ' + say('trains', 'trained') + ': a step of ' +
        plural(Math.round(batch), 'sample') + ' ' + say('takes', 'took') + ' it ' +
        seconds(c.steps[0].all) + '.'],
      key: 'single'
    };
  }
  if (c.ratio < SLOWER) {
    return even(c);
  }
  const sizes = moved(run.assignments, c.slow.node);
  if (sizes) {
    return changed(c, sizes);
  }
  return policyOf(run.job.spec) === 'dynamic' ? tooSmall(c) || unchanged(c) : fixed(c);
}
