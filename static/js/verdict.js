/* The page's one sentence: who, how much, against whom, what was done, what it gained. Pure, tested
   in tests/browser/test_pure.py.

   verdict(job, assignments) gives {parts, evidence, straggler, key}: parts is a list of texts and
   {node: name}; key names the cause, and the page changes its sentence only when the key changes or
   some seconds have passed. Here are jobs that do not train; those that do are in sentences/. */
import {bytes, capital, duration, known, percent, plural, three} from './format.js';
import {tookSeconds} from './measures.js';
import {running} from './sentences/running.js';
import {counted} from './sentences/words.js';

/** @param {Api.Job} job */
function result(job) {
  const m = job.metrics || {};
  if (known(m.test_accuracy)) {
    return percent(m.test_accuracy) + ' test accuracy';
  }
  return known(m.train_loss) ? 'a train loss of ' + three(m.train_loss) : 'its end';
}

/** @param {Api.Job} job */
function settled(job) {
  if (job.state === 'succeeded') {
    return 'The job reached ' + result(job) + ' in ' + duration(tookSeconds(job)) + '.';
  }
  const p = job.progress;
  return 'The job was cancelled' +
      (p?.step
              ? ' in epoch ' + Math.min(p.epochs, Math.floor(p.epoch) + 1) + ' of ' + p.epochs + '.'
              : ' before its first step.');
}

/**
 * @param {Api.Job} job
 * @returns {Page.Verdict}
 */
function failure(job) {
  const e = job.error || {};
  const message = e.message || '';
  const step = job.progress?.step;
  const about = step ? ' about step ' + Math.round(step).toLocaleString('en-US') : '';
  const lost = /^rank \d+ on node '.*?' is lost: (.*?)\.?$/.exec(message);
  if (e.node && lost) {
    return {parts: [{node: e.node}, ' was lost' + about + ': ' + lost[1] + '.'], key: 'failed'};
  }
  const text = (message || 'no cause was reported').replace(/\.$/, '') + '.';
  return e.node ? {parts: [{node: e.node}, ' failed' + about + ': ', text], key: 'failed'}
                : {parts: ['The job failed: ', text], key: 'failed'};
}

/**
 * Nodes to which the keeper sends the data set, the one that has least of it first; or null.
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
                         : 'The job waits for ' + plural(job.spec?.workers || 1, 'free node') + '.';
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
 * The same in the past tense, after the result.
 * @param {Page.Verdict} live
 * @returns {Page.Word[]}
 */
function lastly(live) {
  const past = (/** @type {string} */ text) => text.replace(' computes ', ' computed ')
                                                   .replace(' now finish', ' then finished')
                                                   .replace('. Nothing needs doing.', '');
  return [' ', ...live.parts.map((p) => (typeof p === 'string' ? past(p) : p))];
}

/**
 * @param {Api.Job} job
 * @param {Api.Assignment[]} [assignments]
 * @returns {Page.Verdict}
 */
export function verdict(job, assignments = []) {
  if (job.state === 'failed') {
    return failure(job);
  }
  const live = running(job, assignments) || {parts: [before(job)], key: job.state};
  if (job.state === 'succeeded' || job.state === 'cancelled') {
    return {
      ...live,
      parts: [settled(job), ...(live.straggler ? lastly(live) : [])],
      key: job.state
    };
  }
  if (job.state === 'queued' || job.state === 'launching' || job.state === 'paused') {
    const evidence = job.error && job.state === 'queued'
        ? 'The last attempt was lost: ' + job.error.message + '.'
        : '';
    return {...(receiving(job) || {parts: [before(job)], key: job.state}), evidence};
  }
  return live;
}

/** @param {Page.Word[]} parts */
export function plain(parts) {
  return parts.map((p) => (typeof p === 'string' ? p : p.node)).join('');
}
