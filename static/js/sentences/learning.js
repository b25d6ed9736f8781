/* Sentences about a run that does not learn as it should. Losses are compared by medians, because
   one noisy step says nothing. Pure. */
import {fell, last, median, rose} from '../measures/measures.js';
import {cloneWith} from '../spec/clone.js';
import {classesOf, globalBatch, hasServers} from '../spec/spec.js';
import {known, loss, percent, plain, plural, whole} from '../text/format.js';

import {tense} from './words.js';

/** @typedef {import('./health.js').Run} Run */

export const LEAST_LOSSES = 20;
const DIVERGED = 2;         /* times the loss of guessing */
const LIKE_CHANCE = 1.3;    /* times the accuracy of guessing */
const CHANCE_NOISE = 0.1;   /* of its deviation: three standard errors of 900 tests */
const OVERFIT = 0.1;        /* of the least test loss */
export const MEANT = 0.005; /* of accuracy: less is noise */
export const FALLS = 0.01;  /* of the loss at the start */
const LONGER = 4;           /* times the epochs */
const FAR_TOO_HIGH = 100;   /* times the usual rate: a tenth diverges, too */

/**
 * The greatest accuracy that is no better than guessing, within what a test tells; NaN where the
 * number of classes is not known. Of two classes, 60 % are better.
 * @param {number} classes
 */
export function likeChance(classes) {
  const guessing = 1 / classes;
  const noise = CHANCE_NOISE * Math.sqrt(guessing * (1 - guessing));
  return Math.min(LIKE_CHANCE * guessing, guessing + noise);
}

/**
 * Train losses at the start, in the middle and at the end, and where they were least; null with too
 * few.
 * @param {number[]} losses
 */
export function course(losses) {
  const n = losses.length;
  if (n < LEAST_LOSSES) {
    return null;
  }
  const some = Math.max(3, Math.round(n / 20));
  const half = Math.round(n / 2);
  const all = losses.slice(some - 1).map((_, i) => median(losses.slice(i, i + some)));
  return {
    least: Math.min(...all),
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
 * A clone with a larger global batch. It makes fewer steps in an epoch, and so learns less in it at
 * the same rate: that of sgd grows with the batch (Goyal et al. 2017), unless stale gradients are
 * applied, which want a small one.
 * @param {Api.Job} job
 * @param {number} wanted
 * @returns {Page.Action}
 */
export function withBatch(job, wanted) {
  const {type, learning_rate: rate} = job.spec?.optimizer || {};
  const text = 'Clone with a global batch of ' + whole(wanted);
  if (type !== 'sgd' || !known(rate) || hasServers(job)) {
    return {text, href: cloneWith(job.id, {'/batching/global_batch': wanted})};
  }
  const scaled = Number((rate * wanted / globalBatch(job)).toPrecision(6));
  const changes = {'/batching/global_batch': wanted, '/optimizer/learning_rate': scaled};
  return {text: text + ' and a rate of ' + plain(scaled), href: cloneWith(job.id, changes)};
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

/** @param {Api.Job} job */
const usualRate = (job) => ((job.spec?.optimizer?.type ?? 'sgd') === 'sgd' ? 0.01 : 0.001);

/**
 * The rate to try next where one is far too high, NaN where it is not: a usual one, which for sgd
 * is ten times as high without the momentum that adds steps up.
 * @param {Api.Job} job
 */
export function rateFromFarAbove(job) {
  const {learning_rate: rate = 0, type = 'sgd', momentum = 0} = job.spec?.optimizer || {};
  const usual = usualRate(job);
  const next = type === 'sgd' ? usual * Math.max(1, 10 * (1 - momentum)) : usual;
  return rate > FAR_TOO_HIGH * usual ? Number(next.toPrecision(3)) : NaN;
}

/**
 * A clone with a lower rate.
 * @param {Api.Job} job
 */
function atLower(job) {
  const next = rateFromFarAbove(job);
  return known(next) ? atUsual(job, next) : atRate(job, 0.1);
}

/**
 * Of a run that learned nothing: less where the rate is large, more where it is small, and the
 * usual one where ten times as much, or a tenth, would still be far from it. At a usual rate a loss
 * that falls asks for more epochs.
 * @param {Api.Job} job
 * @param {boolean} falls whether the train loss does
 */
export function anotherRate(job, falls) {
  const {learning_rate: rate = 0} = job.spec?.optimizer || {};
  const usual = usualRate(job);
  const epochs = LONGER * (job.spec?.epochs || 0);
  if (falls && epochs > 0 && rate >= usual && rate <= 10 * usual) {
    return {
      text: 'Clone with ' + plural(epochs, 'epoch'),
      href: cloneWith(job.id, {'/epochs': epochs})
    };
  }
  return rate > 0 && 10 * rate < usual ? atUsual(job, usual)
      : rate > 0.001                   ? atLower(job)
                                       : atRate(job, 10);
}

/**
 * What the learning rate is, and what is to be done with it; that of a user's program is not known.
 * @param {Api.Job} job
 * @param {string} after what follows where it is told
 * @param {string} instead where it is not
 */
export function rateNote(job, after, instead) {
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
export const calmer = (job) => (job.spec?.optimizer?.schedule?.factor ?? 0) > 1 ? {
  text: 'Clone with a rate that does not rise',
  href: cloneWith(job.id, {'/optimizer/schedule': {type: 'constant'}})
}
                                                                                : atLower(job);

/** @param {Run} run */
function accuracyOf({job, tests}) {
  return tests.length ? last(tests.map((t) => t.accuracy)) : job.metrics?.test_accuracy;
}

/**
 * The loss is far above what guessing would give, which nobody knows of a user's program
 * (trend.js).
 * @param {Run} run
 * @returns {Page.Verdict | null}
 */
export function diverged(run) {
  const {job, losses, past} = run;
  const path = course(losses);
  const classes = classesOf(job.spec);
  const guessing = classes ? Math.log(classes) : path?.start;
  if (!path || !known(guessing) || job.spec?.program || !(path.end > DIVERGED * guessing)) {
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
  if (!past || steps >= LEAST_LOSSES || !known(accuracy) || !(accuracy <= likeChance(classes))) {
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
  if (!classes || early || !known(accuracy) || accuracy > likeChance(classes)) {
    return null;
  }
  const path = course(losses);
  const falls = Boolean(path && fell(path.start, path.end, FALLS));
  const went =
      path ? 'The train loss went from ' + loss(path.start) + ' to ' + loss(path.end) + '. ' : '';
  return {
    parts: ['The network ' + tense(past)('is', 'was') +
      ' no better than guessing: ' + percent(accuracy) + ' of the test set ' +
      tense(past)('are', 'were') + ' classified correctly, and guessing among ' + classes +
      ' classes gets ' + percent(1 / classes, 0) + '.'],
    evidence: went + rateNote(job, 'One', 'A learning rate') +
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
  if (good.length < 4 || at > good.length - 3 || !path || !rose(best.loss, now.loss, OVERFIT) ||
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
