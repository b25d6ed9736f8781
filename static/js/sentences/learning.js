/* Sentences about a run that does not learn as it should. Losses are compared by medians, because
   one noisy step says nothing. Pure. */
import {cloneWith} from '../clone.js';
import {known, loss, percent, plain, plural} from '../format.js';
import {bestEvaluation, last, median} from '../measures.js';
import {classesOf} from '../spec.js';

import {tense} from './words.js';

/** @typedef {import('./health.js').Run} Run */

const LEAST_LOSSES = 20;
const DIVERGED = 2;             /* times the loss of guessing */
export const LIKE_CHANCE = 1.3; /* times the accuracy of guessing */
const OVERFIT = 1.1;            /* times the least test loss */
const MEANT = 0.005;            /* of accuracy: less is noise */
const GOOD = 0.97;              /* of accuracy: what stands still here has arrived */
const FALLS = 0.99;             /* of the loss at the start */
const LONGER = 4;               /* times the epochs */
const FLAT = 0.95;              /* of the loss in the middle of the run */
const WORSE = 0.1;              /* of accuracy, below the best */
const RISES = 1.1;              /* of the loss when the accuracy was best */
const LOWERED = 0.1;            /* of the rate: what its schedule has left of it is little */

/**
 * Train losses at the start, in the middle and at the end; null with too few.
 * @param {number[]} losses
 */
function course(losses) {
  const n = losses.length;
  if (n < LEAST_LOSSES) {
    return null;
  }
  const some = Math.max(3, Math.round(n / 20));
  const half = Math.round(n / 2);
  return {
    start: median(losses.slice(0, some)),
    middle: median(losses.slice(half - some, half + some)),
    end: median(losses.slice(-2 * some))
  };
}

/**
 * A clone whose learning rate is so many times the present one.
 * @param {Api.Job} job
 * @param {number} factor
 * @returns {Page.Action | undefined}
 */
export function atRate(job, factor) {
  const rate = job.spec?.optimizer?.learning_rate;
  const words = factor < 1 ? {0.1: 'a tenth of', 0.5: 'half'}[factor] : 'ten times';
  return known(rate) && rate > 0 ? {
    text: 'Clone with ' + words + ' the rate',
    href: cloneWith(job.id, {'/optimizer/learning_rate': Number((rate * factor).toPrecision(6))})
  }
                                 : undefined;
}

/**
 * A clone with a rate at which optimizers of this kind usually learn.
 * @param {Api.Job} job
 * @param {number} rate
 * @returns {Page.Action}
 */
const atUsual = (job, rate) => ({
  text: 'Clone with a rate of ' + plain(rate),
  href: cloneWith(job.id, {'/optimizer/learning_rate': rate})
});

/**
 * Of a run that learned nothing: less where the rate is large, more where it is small, and the
 * usual one where ten times as much would still be far from it. At a usual rate a loss that falls
 * asks for more epochs.
 * @param {Api.Job} job
 * @param {boolean} falls whether the train loss does
 */
function anotherRate(job, falls) {
  const {learning_rate: rate = 0, type = 'sgd'} = job.spec?.optimizer || {};
  const usual = type === 'sgd' ? 0.01 : 0.001;
  const epochs = LONGER * (job.spec?.epochs || 0);
  if (falls && epochs > 0 && rate >= usual && rate <= 10 * usual) {
    return {
      text: 'Clone with ' + plural(epochs, 'epoch'),
      href: cloneWith(job.id, {'/epochs': epochs})
    };
  }
  return rate > 0 && 10 * rate < usual ? atUsual(job, usual) : atRate(job, rate > 0.001 ? 0.1 : 10);
}

/**
 * What the learning rate is, and what is to be done with it; that of a user's program is not known.
 * @param {Api.Job} job
 * @param {string} after what follows where it is told
 * @param {string} instead where it is not
 */
function rateNote(job, after, instead) {
  const rate = job.spec?.optimizer?.learning_rate;
  const {type = 'constant'} = job.spec?.optimizer?.schedule || {};
  return known(rate) ? 'The learning rate ' + (type === 'constant' ? 'is ' : 'began at ') +
          plain(rate) + '. ' + after
                     : instead;
}

/**
 * Of a run that diverged: with a rate that its schedule does not raise, or with less.
 * @param {Api.Job} job
 */
const calmer = (job) => (job.spec?.optimizer?.schedule?.factor ?? 0) > 1 ? {
  text: 'Clone with a rate that does not rise',
  href: cloneWith(job.id, {'/optimizer/schedule': {type: 'constant'}})
}
                                                                         : atRate(job, 0.1);

/** @param {Run} run */
function accuracyOf({job, tests}) {
  return tests.length ? last(tests.map((t) => t.accuracy)) : job.metrics?.test_accuracy;
}

/**
 * The loss is far above what guessing would give.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function diverged(run) {
  const {job, losses, past} = run;
  const path = course(losses);
  const classes = classesOf(job.spec);
  const guessing = classes ? Math.log(classes) : path?.start;
  if (!path || !known(guessing) || !(path.end > DIVERGED * guessing)) {
    return null;
  }
  const against = classes ? 'guessing among ' + classes + ' classes gives ' : 'it began with ';
  const accuracy = accuracyOf(run);
  return {
    parts: ['Training ' + tense(past)('diverges', 'diverged') + ': the train loss ' +
      tense(past)('is ', 'ended at ') + loss(path.end) + '; ' + against + loss(guessing) + '.'],
    evidence: (known(accuracy) ? percent(accuracy) + ' of the test set ' +
                          tense(past)('are', 'were') + ' classified correctly. '
                               : '') +
        rateNote(job, 'A smaller one', 'A smaller learning rate') + ' is the first thing to try.',
    key: 'diverged',
    chart: 'loss',
    action: calmer(job)
  };
}

/**
 * Too few steps were made to tell whether the network learns.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function tooShort(run) {
  const {job, losses, past} = run;
  const steps = Math.max(losses.length, job.progress?.step || 0);
  const accuracy = accuracyOf(run);
  const classes = classesOf(job.spec);
  if (!past || steps >= LEAST_LOSSES || !known(accuracy) || !(accuracy <= LIKE_CHANCE / classes)) {
    return null;
  }
  return {
    parts: ['It made ' + plural(steps, 'step') + ', too few to tell whether the network learns.'],
    evidence: 'Guessing among ' + classes + ' classes gets ' + percent(1 / classes, 0) + '.',
    key: 'short'
  };
}

/**
 * The network classifies as well as guessing would, after a whole epoch or more.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function atChance(run) {
  const {job, losses, past} = run;
  const accuracy = accuracyOf(run);
  const classes = classesOf(job.spec);
  const early = (job.progress?.epoch || 0) < (past ? 1 : 2);
  if (!classes || early || !known(accuracy) || accuracy > LIKE_CHANCE / classes) {
    return null;
  }
  const path = course(losses);
  const falls = Boolean(path && path.end < FALLS * path.start);
  const fell =
      path ? 'The train loss went from ' + loss(path.start) + ' to ' + loss(path.end) + '. ' : '';
  return {
    parts: ['The network ' + tense(past)('is', 'was') +
      ' no better than guessing: ' + percent(accuracy) + ' of the test set ' +
      tense(past)('are', 'were') + ' classified correctly, and guessing among ' + classes +
      ' classes gets ' + percent(1 / classes, 0) + '.'],
    evidence: fell + rateNote(job, 'One', 'A learning rate') +
        ' that is far too high or far too low does this' +
        (falls ? ', and so do too few steps.' : '.'),
    key: 'chance',
    chart: 'accuracy',
    action: anotherRate(job, falls)
  };
}

/**
 * Where a run might as well have ended: at its least test loss, or later where the accuracy still
 * gained by going on.
 * @param {Api.Evaluation[]} tests
 */
function turningPoint(tests) {
  const least = Math.min(...tests.map((t) => t.loss));
  const at = tests.findIndex((t) => t.loss === least);
  const most = Math.max(...tests.slice(at).map((t) => t.accuracy).filter(known));
  const there = !known(tests[at]?.accuracy) || most - tests[at].accuracy <= MEANT;
  return there ? at : tests.findIndex((t, i) => i >= at && t.accuracy >= most - MEANT);
}

/**
 * What stopping at an evaluation gains.
 * @param {Api.Evaluation} best
 * @param {Api.Evaluation} now
 * @param {number} epoch of the best
 * @param {boolean} past
 */
function stopping(best, now, epoch, past) {
  const say = tense(past);
  const both = known(best.accuracy) && known(now.accuracy);
  const how = both ? percent(best.accuracy) + ' were classified correctly at epoch ' + epoch +
          ', ' + percent(now.accuracy) + ' ' + say('are now', 'in the end') + '. '
                   : '';
  return how + 'Stopping there ' +
      (both && best.accuracy - now.accuracy <= MEANT ? say('loses', 'would have lost') + ' nothing.'
                                                     : say('is', 'would have been') + ' better.');
}

/**
 * The test loss rises while the train loss falls, and the accuracy gains nothing by it.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function overfitting({job, losses, tests, past}) {
  const good = tests.filter((t) => known(t.loss));
  const at = turningPoint(good);
  const path = course(losses);
  const [best, now] = [good[at], good[good.length - 1]];
  if (good.length < 4 || at > good.length - 3 || !path || now.loss < OVERFIT * best.loss ||
      path.end >= best.loss) {
    return null;
  }
  const epoch = Math.max(1, Math.round(best.epoch));
  return {
    parts: ['The network ' +
      tense(past)('overfits since epoch ' + epoch, 'overfitted from epoch ' + epoch + ' on') +
      ': the test loss rose from ' + loss(best.loss) + ' to ' + loss(now.loss) +
      ', while the train loss fell to ' + loss(path.end) + '.'],
    evidence: stopping(best, now, epoch, past),
    key: 'overfits',
    chart: 'loss',
    action:
        {text: 'Clone with ' + plural(epoch, 'epoch'), href: cloneWith(job.id, {'/epochs': epoch})}
  };
}

/**
 * What had been learned is being lost: the accuracy falls and the train loss rises, though not
 * beyond that of guessing.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function worsening({job, losses, tests, past}) {
  const path = course(losses);
  const good = tests.filter((t) => known(t.accuracy));
  const best = bestEvaluation(good);
  const now = median(good.slice(-3).map((t) => t.accuracy));
  if (!path || !best || good.length < 4 || best.accuracy - now <= WORSE) {
    return null;
  }
  const at = Math.round(losses.length * best.epoch / good[good.length - 1].epoch);
  const then = median(losses.slice(Math.max(0, at - LEAST_LOSSES / 4), at + LEAST_LOSSES / 4));
  if (!(path.end > RISES * then)) {
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
 * What is to be tried where learning stands still: a rate that falls there. Where its schedule has
 * lowered it much by then, that may be what stopped the learning.
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
 * Neither loss nor accuracy moved in the last half of the run.
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function plateau(run) {
  const {losses, tests, past} = run;
  const path = course(losses);
  const good = tests.filter((t) => known(t.accuracy));
  const half = good.slice(0, Math.ceil(good.length / 2));
  const best = Math.max(...half.map((t) => t.accuracy));
  const later = Math.max(...good.slice(half.length).map((t) => t.accuracy));
  if (!path || good.length < 6 || later > best + MEANT || best > GOOD ||
      path.end < FLAT * path.middle) {
    return null;
  }
  const from = Math.max(0, half.findIndex((t) => t.accuracy === best));
  const since = Math.max(1, Math.round(good[from].epoch));
  const least = Math.min(...good.slice(from).map((t) => t.accuracy));
  return {
    parts: ['Learning ' + tense(past)('stands', 'stood') + ' still ' +
      tense(past)('since', 'from') + ' epoch ' + since + tense(past)('', ' on') +
      ': the test accuracy ' + tense(past)('stays', 'stayed') +
      (best - least > MEANT ? ' between ' + percent(least) + ' and ' : ' at ') + percent(best) +
      ', and the train loss at ' + loss(path.end) + '.'],
    ...otherSchedule(run, since),
    key: 'plateau',
    chart: 'accuracy'
  };
}
