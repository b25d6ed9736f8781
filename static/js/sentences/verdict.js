/* The page's one sentence: who, how much, against whom, what was done, what it gained. Pure, tested
   in tests/browser/test_pure.py.

   verdict(job, assignments, learned) gives a Page.Verdict: parts is a list of texts and
   {node: name}; key names the cause, and the page changes its sentence only when the key changes or
   some seconds have passed. Here are jobs that do not train; how those do that train or have
   trained is in sentences/health.js, why one failed in sentences/failure.js. */
import {earlyEnd} from '../elements/states.js';
import {awaited, tookText} from '../measures/measures.js';
import {classesOf, goesOnFrom, knowsOneClass} from '../spec/spec.js';
import {bytes, capital, known, loss, percent, plural, three, whole} from '../text/format.js';

import {becameNaN, failure} from './failure.js';
import {judge} from './health.js';
import {likeChance} from './learning.js';
import {counted} from './words.js';

/** @param {Api.Job} job */
function result(job) {
  const m = job.metrics || {};
  if (known(m.test_accuracy)) {
    return percent(m.test_accuracy) + ' test accuracy';
  }
  return known(m.test_loss) ? 'a test loss of ' + loss(m.test_loss)
      : known(m.train_loss) ? 'a train loss of ' + three(m.train_loss)
                            : 'its end';
}

/* Times as far from guessing as is like it, which says that something was learned. */
const BETTER = 3;
const NOT_REACHED = ['diverged', 'chance'];
const WENT_WRONG = [...NOT_REACHED, 'rises', 'worsens', 'overfits'];
const TOO_SHORT = 'short';

/**
 * For a run that ended no better than guessing: whether it had been better.
 * @param {Api.Job} job
 */
function whatIsLeft(job) {
  const best = job.metrics?.best_test_accuracy;
  const classes = classesOf(job.spec);
  const learned = 1 / classes + BETTER * (likeChance(classes) - 1 / classes);
  return known(best) && best > learned
      ? 'lost what it had learned: ' + percent(best) + ' of the test set at best'
      : 'learned nothing';
}

/**
 * @param {Api.Job} job
 * @param {Page.Verdict | null} was how it went
 */
function settled(job, was) {
  if (job.state === 'succeeded' && NOT_REACHED.includes(was?.key || '')) {
    return 'The job ended after ' + tookText(job) + ' and ' + whatIsLeft(job) + '.';
  }
  if (job.state === 'succeeded' && was?.key === TOO_SHORT) {
    return 'The job ended after ' + tookText(job) + '.';
  }
  if (job.state === 'succeeded' && knowsOneClass(job.spec)) {
    return 'The job ended after ' + tookText(job) +
        ' and had nothing to learn: its network has one class.';
  }
  const early = earlyEnd(job);
  const reached =
      goesOnFrom(job) ? 'The job went on from another one and reached ' : 'The job reached ';
  if (known(early)) {
    return reached + 'its target of ' + percent(job.spec.target?.test_accuracy) + ' in epoch ' +
        early + ' of ' + job.progress?.epochs + ': ' + result(job) + ' in ' + tookText(job) + '.';
  }
  if (job.state === 'succeeded') {
    const target = job.spec?.target?.test_accuracy;
    const missed = known(target) && (job.metrics?.test_accuracy ?? NaN) < target;
    return reached + result(job) + ' in ' + tookText(job) +
        (missed ? ' and missed its target of ' + percent(target) : '') + '.';
  }
  const p = job.progress;
  return 'The job was cancelled' +
      (p?.step ? ' in epoch ' + whole(Math.min(p.epochs, Math.floor(p.epoch) + 1)) + ' of ' +
                  whole(p.epochs) + '.'
               : ' before its first step' +
                  (job.attempt > 1 ? ' in attempt ' + whole(job.attempt) : '') + '.');
}

/**
 * Nodes to which the keeper is sending the data set, the one with the least of it first; or null.
 * @param {Api.Job} job
 * @returns {Page.Verdict | null}
 */
function receiving(job) {
  const all = (job.workers || [])
                  .flatMap((w) => (w.receiving && w.receiving.of_bytes > 0 ? [{
                    node: w.node,
                    share: w.receiving.bytes / w.receiving.of_bytes,
                    of: w.receiving.of_bytes
                  }]
                                                                           : []));
  if (all.length === 0) {
    return null;
  }
  const [first] = all.sort((a, b) => a.share - b.share);
  const done = percent(first.share, 0) + ' of ' + bytes(first.of) + '.';
  return {
    parts: all.length === 1
        ? [{node: first.node}, ' receives the data set: ' + done]
        : [capital(counted(all.length)) + ' nodes receive the data set: ' + done],
    key: 'receives:' + Math.floor(10 * first.share)
  };
}

/** @param {Api.Job} job */
function queued(job) {
  if (job.waiting) {
    return 'The job waits: ' + job.waiting + '.';
  }
  return job.attempt > 0 ? 'The job waits to be started again, from its last checkpoint.'
                         : 'The job waits for ' + awaited(job) + '.';
}

/** @param {Api.Job} job */
function before(job) {
  if (job.state === 'queued') {
    return queued(job);
  }
  if (job.state === 'launching') {
    const n = job.spec?.workers || (job.workers || []).length || 1;
    return 'The job is being started on ' + plural(n, 'node') + '.';
  }
  return job.state === 'paused'
      ? 'The job is paused; its checkpoint is kept and its nodes are free for others.'
      : 'The first steps are being measured.';
}

/**
 * For a job that another cause ended: says that it had gone wrong before.
 * @param {Page.Verdict} was how it went
 * @param {Page.Verdict} failed
 * @returns {Partial<Page.Verdict>}
 */
function alsoTold(was, {parts, key}) {
  return WENT_WRONG.includes(was.key) ? {...was, parts: [...parts, ' ', ...was.parts], key} : {};
}

/**
 * @param {Api.Job} job
 * @param {Api.Assignment[]} [assignments]
 * @param {Page.Learned} [learned]
 * @returns {Page.Verdict}
 */
export function verdict(job, assignments = [], learned = {}) {
  const {state} = job;
  if (state === 'failed') {
    const was = judge(job, assignments, learned, true), why = failure(job, learned.alike);
    return {...why, ...(was && !becameNaN(job) && alsoTold(was, why))};
  }
  if (state === 'succeeded' || state === 'cancelled') {
    const was = judge(job, assignments, learned, true);
    return {...was, parts: [settled(job, was), ...(was ? [' ', ...was.parts] : [])], key: state};
  }
  if (state === 'queued' || state === 'launching' || state === 'paused') {
    const evidence = !job.error || state !== 'queued' ? ''
        : job.error.program                           ? plain(failure(job).parts)
                            : 'The last attempt was lost: ' + job.error.message + '.';
    return {...(receiving(job) || {parts: [before(job)], key: state}), evidence};
  }
  return judge(job, assignments, learned, false) || {parts: [before(job)], key: state};
}

/** @param {Page.Word[]} parts */
export function plain(parts) {
  return parts.map((p) => (typeof p === 'string' ? p : p.node)).join('');
}
