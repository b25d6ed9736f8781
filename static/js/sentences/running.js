/* Sentences about a job that trains: who is slow, by how much, what was done, what it gained.
   Speeds are compared per sample (computing time by minibatch), measured before the exchange. Pure.
 */
import {known, percent, plural, seconds, times} from '../format.js';
import {median, perSample, stepTimes} from '../measures.js';
import {globalBatch, hasServers, policyOf} from '../spec.js';

import {counted} from './words.js';

const SLOWER = 1.15;
const TOGETHER = 0.2;

/**
 * What the sentences about unequal nodes are made of.
 * @param {Api.Job} job
 * @param {Api.Worker[]} workers those that were measured
 */
function compare(job, workers) {
  const steps = stepTimes(workers);
  const compute = steps.map((x) => x.compute);
  const [shortest, longest] = [Math.min(...compute), Math.max(...compute)];
  const slow = workers.reduce((a, b) => (perSample(b) > perSample(a) ? b : a));
  const mid = median(workers.map(perSample));
  const ratio = perSample(slow) / mid;
  return {
    job,
    workers,
    steps,
    shortest,
    longest,
    slow,
    mid,
    ratio,
    spread: longest > 0 ? (longest - shortest) / longest : 0,
    who: [{node: slow.node}, ' computes ' + times(ratio) + ' slower than the median node'],
    evidence: 'Measured before the exchange: ' + seconds(perSample(slow)) +
        ' for a sample against a median of ' + seconds(mid) + '. '
  };
}

/** @typedef {ReturnType<typeof compare>} Compared */

/**
 * The first and the present minibatch of a node, where it has changed.
 * @param {Api.Assignment[]} assignments
 * @param {string} node
 */
function moved(assignments, node) {
  const sizes = assignments.map((a) => a.batches?.[node]).filter(known);
  const [first, now] = [sizes[0], sizes[sizes.length - 1]];
  return sizes.length > 1 && first !== now ? [first, now] : null;
}

/**
 * ' instead of 3.1 s': a step before the first change of minibatches, where it was clearly longer.
 * @param {Api.Assignment[]} assignments
 * @param {number} longest
 */
function instead(assignments, longest) {
  const change = assignments.find((a, i) => i > 0 && a.version > 1 && a.measured_step_seconds > 0 &&
          a.predicted_step_seconds > 0);
  return change && change.measured_step_seconds > longest * 1.05
      ? ' instead of ' + seconds(change.measured_step_seconds)
      : '';
}

/** @param {Compared} c */
function stalenessNote({job, slow}) {
  const all = job.workers || [];
  const mean = all.find((w) => w.node === slow.node)?.staleness?.mean;
  const others =
      median(all.filter((w) => w.node !== slow.node).map((w) => w.staleness?.mean ?? NaN));
  if (!known(mean) || !known(others) || (mean === 0 && others === 0)) {
    return '';
  }
  return 'Its gradients are ' + mean.toFixed(1) +
      ' versions old on the average of the whole run, those of the others ' + others.toFixed(1) +
      '. ';
}

/**
 * @param {Compared} c
 * @returns {Page.Verdict}
 */
function even(c) {
  return {
    parts: ['The ' + counted(c.workers.length) +
      ' nodes are about equally fast: they finish a step within ' + percent(c.spread, 0) +
      ' of each other.'],
    evidence: 'The slowest needs ' + seconds(perSample(c.slow)) + ' for a sample, the median ' +
        seconds(c.mid) + '. Nothing needs doing.',
    key: 'even'
  };
}

/**
 * The straggler's minibatch was changed.
 * @param {Compared} c
 * @param {number[]} sizes
 * @param {Api.Assignment[]} assignments
 * @returns {Page.Verdict}
 */
function changed(c, sizes, assignments) {
  const together = c.spread < TOGETHER;
  const was = instead(assignments, c.longest);
  const tail = together ? '. All ' + counted(c.workers.length) +
          ' nodes now finish a step together: ' + seconds(c.longest) + ' of computing' + was + '.'
                        : '. Computing a step now takes between ' + seconds(c.shortest) + ' and ' +
          seconds(c.longest) + was + '.';
  return {
    parts: [...c.who, ', so its minibatch went from ' + sizes[0] + ' to ' + sizes[1] + tail],
    evidence: stalenessNote(c) + c.evidence + (together ? 'Nothing needs doing.' : ''),
    straggler: c.slow.node,
    key: 'moved:' + c.slow.node + (together ? ':together' : '')
  };
}

/**
 * Minibatches are dynamic and the straggler's is still the first one.
 * @param {Compared} c
 * @returns {Page.Verdict}
 */
function unchanged(c) {
  const fits = c.spread < TOGETHER;
  const text = fits
      ? '; its minibatch of ' + c.slow.batch + ' lets all ' + counted(c.workers.length) +
          ' finish a step together: ' + seconds(c.longest) + ' of computing.'
      : '. Its minibatch is still ' + c.slow.batch +
          '; it changes as soon as enough steps are measured.';
  return {
    parts: [...c.who, text],
    evidence: stalenessNote(c) + c.evidence,
    straggler: c.slow.node,
    key: (fits ? 'fits:' : 'measuring:') + c.slow.node
  };
}

/**
 * Minibatches stay as they are: what that costs.
 * @param {Compared} c
 * @returns {Page.Verdict}
 */
function fixed(c) {
  const policy = policyOf(c.job.spec);
  const rate = c.workers.reduce((sum, w) => sum + 1 / perSample(w), 0);
  const shorter = 1 - globalBatch(c.job) / rate / c.longest;
  const advice = policy === 'equal' && shorter > 0.05
      ? ' Dynamic minibatches would make a step about ' + percent(shorter, 0) + ' shorter.'
      : '';
  if (hasServers(c.job)) {
    return {
      parts: [
        ...c.who, ', and the minibatches are ' + policy + ', so its gradients arrive late.' + advice
      ],
      evidence: stalenessNote(c) + c.evidence,
      straggler: c.slow.node,
      key: 'late:' + c.slow.node
    };
  }
  const waits = c.steps.filter((x) => x.node !== c.slow.node)
                    .map((x) => (c.longest > 0 ? 1 - x.compute / c.longest : 0));
  return {
    parts: [
      ...c.who, ': the others wait ' + percent(median(waits), 0) + ' of each step for it.' + advice
    ],
    evidence: c.evidence,
    straggler: c.slow.node,
    key: 'waits:' + c.slow.node
  };
}

/**
 * @param {Api.Job} job
 * @param {Api.Assignment[]} assignments
 * @returns {Page.Verdict | null} null: nothing was measured yet
 */
export function running(job, assignments) {
  const workers = (job.workers || []).filter((w) => known(perSample(w)));
  if (workers.length === 0) {
    return null;
  }
  const c = compare(job, workers);
  if (workers.length === 1) {
    return {
      parts: ['One node trains: a step of ' + plural(workers[0].batch, 'sample') + ' takes it ' +
        seconds(c.steps[0].all) + '.'],
      key: 'single'
    };
  }
  if (c.ratio < SLOWER) {
    return even(c);
  }
  const sizes = moved(assignments, c.slow.node);
  if (sizes) {
    return changed(c, sizes, assignments);
  }
  return policyOf(job.spec) === 'dynamic' ? unchanged(c) : fixed(c);
}
