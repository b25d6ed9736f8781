/* Sentences about a run that does not go on learning: what it had learned is being lost, or nothing
   more is learned, which may be its schedule's doing. Pure. */
import {bestEvaluation, fell, median, rose} from '../measures/measures.js';
import {cloneWith} from '../spec/clone.js';
import {known, loss, percent, plain} from '../text/format.js';

import {course, endingAt, LEAST_LOSSES, MEANT, meant} from './learning.js';
import {anotherRate, calmer, rateNote} from './nextrun.js';
import {tense} from './words.js';

/** @typedef {import('./health.js').Run} Run */

const GOOD = 0.97;   /* accuracy: a run that stands still above it has arrived */
const FLAT = 0.05;   /* share of the loss in the middle of the run */
const WORSE = 0.1;   /* accuracy below the best: a larger drop is no standstill */
const RISES = 0.1;   /* share of the loss when the accuracy was best */
const LOWERED = 0.1; /* share of the rate: if its schedule has left less, the rate is low */

/**
 * The run loses what it had learned: the accuracy falls and the train loss rises, but not beyond
 * that of guessing.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function worsening({job, losses, tests, past}) {
  const path = course(losses);
  const good = tests.filter((t) => known(t.accuracy));
  const best = bestEvaluation(good);
  const after = best ? good.slice(good.indexOf(best) + 1).map((t) => t.accuracy) : [];
  const now = Math.max(median(after.slice(-3)), after[after.length - 1] ?? NaN);
  if (!path || !best || good.length < 4 || !(best.accuracy - now > WORSE)) {
    return null;
  }
  const at = Math.round(losses.length * best.epoch / good[good.length - 1].epoch);
  const then = median(losses.slice(Math.max(0, at - LEAST_LOSSES / 4), at + LEAST_LOSSES / 4));
  if (!rose(then, path.end, RISES)) {
    return null;
  }
  const say = tense(past);
  return {
    parts: ['Training ' + say('worsens since', 'worsened from') + ' epoch ' +
      Math.max(1, Math.round(best.epoch)) + say('', ' on') + ': the test accuracy fell from ' +
      percent(best.accuracy) + ' to ' + percent(now) + ', and the train loss rose from ' +
      loss(then) + ' to ' + loss(path.end) + '.'],
    evidence:
        rateNote(job, 'A smaller one', 'A smaller learning rate') + ' is the first thing to try.',
    key: 'worsens',
    chart: 'accuracy',
    action: calmer(job)
  };
}

/**
 * What to try when learning stands still: a rate that falls there. If its schedule has lowered it
 * much by then, that may have stopped the learning.
 * @param {Run} run
 * @param {number} since epoch from which it stands still
 * @returns {Partial<Page.Verdict>}
 */
function otherSchedule({job, past}, since) {
  const {learning_rate: rate, schedule} = job.spec?.optimizer || {};
  const {type, factor = 0.1, at_epochs: at, warmup_epochs: warmup} = schedule || {};
  const steps = (type === 'step' && at) || [];
  const left = factor ** steps.filter((e) => e <= since).length;
  const clone = (/** @type {string} */ text, /** @type {Api.Schedule} */ wanted) => ({
    text,
    href: cloneWith(
        job.id, {'/optimizer/schedule': {...wanted, ...(warmup && {warmup_epochs: warmup})}})
  });
  if (!known(rate) || left > LOWERED) {
    const later = factor < 1 ? steps.filter((e) => e > since) : [];
    const wanted = {type: 'step', factor: 0.1, at_epochs: [since, ...later]};
    return {
      evidence: rateNote(job, 'Lowering it', 'Lowering the learning rate') +
          ' where learning stops is the first thing to try.',
      action: known(rate)
          ? clone('Clone with a tenth of the rate from epoch ' + since + ' on', wanted)
          : undefined
    };
  }
  return {
    evidence: 'The learning rate began at ' + plain(rate) + '; its schedule ' +
        tense(past)('has lowered', 'had lowered') + ' it to ' + plain(rate * left) +
        ' by then. One that stays higher for longer is the first thing to try.',
    action: clone('Clone with a rate that does not fall', {type: 'constant'})
  };
}

/**
 * For a run whose tests all had the same accuracy, which may be the share of one class.
 * @param {Run} run
 * @returns {Partial<Page.Verdict>}
 */
const oneAnswer = ({job}) => ({
  evidence: 'Every test had the same accuracy, as that of a network that always gives one answer' +
      (job.spec?.program ? '. ' : '; Confusion, below, shows which. ') +
      rateNote(job, 'Another one', 'Another learning rate') + ' is the first thing to try.',
  action: anotherRate(job, false)
});

/**
 * The course of a test accuracy that gained nothing in the last half of the run; null if it did
 * gain, or is high enough.
 * @param {Run} run
 */
function standstill({losses, tests, past}) {
  const path = course(losses);
  const good = tests.filter((t) => known(t.accuracy));
  const half = good.slice(0, Math.ceil(good.length / 2)), rest = good.slice(half.length);
  const best = Math.max(...half.map((t) => t.accuracy));
  const from = Math.max(0, half.findIndex((t) => t.accuracy === best));
  if (!path || good.length < 6 || best > GOOD ||
      Math.max(...rest.map((t) => t.accuracy)) > best + meant(half[from])) {
    return null;
  }
  const since = good.slice(from).map((t) => t.accuracy);
  const least = Math.min(...since), most = Math.max(...since);
  const leastLoss = (/** @type {Api.Evaluation[]} */ some) => Math.min(...some.map((t) => t.loss));
  return {
    path,
    since: Math.max(1, Math.round(good[from].epoch)),
    stays: tense(past)('stays', 'stayed') +
        (most - least > MEANT ? ' between ' + percent(least) + ' and ' + percent(most)
                              : ' at ' + percent(best)),
    wanders: best - least > WORSE,
    same: good.every((t) => t.accuracy === best),
    learns: fell(path.middle, path.end, FLAT),
    tests: fell(leastLoss(half), leastLoss(rest), FLAT)
  };
}

/**
 * Neither loss nor accuracy moved in the last half of the run.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function plateau(run) {
  const found = standstill(run);
  if (!found || found.learns) {
    return null;
  }
  const {since, stays, path, same} = found, say = tense(run.past);
  return {
    parts: ['Learning ' + say('stands still since', 'stood still from') + ' epoch ' + since +
      say('', ' on') + ': the test accuracy ' + stays + ', and the train loss at ' +
      loss(path.end) + '.'],
    ...(same ? oneAnswer(run) : otherSchedule(run, since)),
    key: 'plateau',
    chart: 'accuracy'
  };
}

/**
 * The train loss fell on in the last half of the run, from which neither test loss nor accuracy
 * gained anything. Where the test loss rises, the run overfits (learning.js).
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function learnsByHeart(run) {
  const found = standstill(run);
  if (!found || !found.learns || found.tests || found.wanders) {
    return null;
  }
  const {since, stays, path} = found, say = tense(run.past);
  return {
    parts: ['The test accuracy ' + say('stands still since', 'stood still from') + ' epoch ' +
      since + say('', ' on') + ': it ' + stays + ', while the train loss fell from ' +
      loss(path.middle) + ' to ' + loss(path.end) + '.'],
    evidence: 'What it ' + say('learns', 'learned') + ' there helps with the training samples ' +
        'alone: more of them, or samples that are altered each time, are the first thing to try. ' +
        'Stopping there ' + say('loses', 'would have lost') + ' nothing.',
    key: 'byheart',
    chart: 'accuracy',
    action: endingAt(run.job, since)
  };
}
