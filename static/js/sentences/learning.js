/* Sentences about a run that does not learn as it should. Losses are compared by medians, because
   one noisy step says nothing. Pure. */
import {fell, globalSteps, last, median, rose} from '../measures/measures.js';
import {cloneWith} from '../spec/clone.js';
import {classesOf} from '../spec/spec.js';
import {known, loss, percent, plural} from '../text/format.js';

import {anotherRate, calmer, rateNote} from './nextrun.js';
import {tense} from './words.js';

/** @typedef {import('./health.js').Run} Run */

export const LEAST_LOSSES = 20;
const DIVERGED = 2;         /* times the loss of guessing */
const LIKE_CHANCE = 1.3;    /* times the accuracy of guessing */
const CHANCE_NOISE = 0.1;   /* in deviations: three standard errors of 900 tests */
const OVERFIT = 0.1;        /* share of the least test loss */
export const MEANT = 0.005; /* in accuracy: less is noise */
export const FALLS = 0.01;  /* share of the loss at the start */
const FEW_STEPS = 100;      /* a loss need not fall within so many steps */
const MEANS_APART = 0.05;   /* share of the median: a smaller difference is not visible */

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
 * The least difference of accuracies that means something: a standard error with so many samples.
 * @param {Api.Evaluation} test
 */
export function meant({accuracy: a, test_samples: n}) {
  return Math.max(MEANT, n && known(a) ? Math.sqrt(Math.max(0, a * (1 - a)) / n) : 0);
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

/** @param {Run} run */
function accuracyOf({job, tests}) {
  return tests.length ? last(tests.map((t) => t.accuracy)) : job.metrics?.test_accuracy;
}

/**
 * If the mean differs from the median of the last steps, as after a spike, tells both, so that the
 * tile next to the sentence does not contradict it.
 * @param {Run} run
 * @param {number} end the median
 */
function otherMean({job}, end) {
  const all = job.metrics?.train_loss;
  return known(all) && Math.abs(all - end) > MEANS_APART * Math.abs(end)
      ? 'That is the median of the last steps; the mean of 100 updates is ' + loss(all) + '. '
      : '';
}

/**
 * The loss is far above that of guessing, which is not known for a user's program (trend.js).
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
    evidence: otherMean(run, path.end) +
        (known(accuracy) ? percent(accuracy) + ' of the test set ' + tense(past)('are', 'were') +
                    ' classified correctly. '
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
  const rises = path && rose(path.start, path.end, FALLS);
  const steps = globalSteps(job); /* under a server each gradient is an update */
  const few = (known(steps) ? steps : job.progress?.step || 0) < FEW_STEPS && !rises;
  const longer = few || Boolean(path && fell(path.start, path.end, FALLS));
  const went =
      path ? 'The train loss went from ' + loss(path.start) + ' to ' + loss(path.end) + '. ' : '';
  return {
    parts: ['The network ' + tense(past)('is', 'was') +
      ' no better than guessing: ' + percent(accuracy) + ' of the test set ' +
      tense(past)('are', 'were') + ' classified correctly, and guessing among ' + classes +
      ' classes gets ' + percent(1 / classes, 0) + '.'],
    evidence: went + rateNote(job, 'One', 'A learning rate') +
        ' that is far too high or far too low does this' +
        (longer ? ', and so do too few steps.' : '.'),
    key: 'chance',
    chart: 'accuracy',
    action: anotherRate(job, longer)
  };
}

/**
 * Where a run could have ended: at its least test loss, or later if the accuracy still rose.
 * @param {Api.Evaluation[]} tests
 */
function turningPoint(tests) {
  const least = Math.min(...tests.map((t) => t.loss));
  const at = tests.findIndex((t) => t.loss === least);
  const most = Math.max(...tests.slice(at).map((t) => t.accuracy).filter(known));
  const there = !known(tests[at]?.accuracy) || most - tests[at].accuracy <= meant(tests[at]);
  return there ? at : tests.findIndex((t, i) => i >= at && t.accuracy >= most - meant(t));
}

/**
 * The gain of stopping at an evaluation.
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
  const same = both && best.accuracy - now.accuracy <= meant(best);
  return how + 'Stopping there ' +
      (same ? say('loses', 'would have lost') + ' nothing.'
            : say('is', 'would have been') + ' better.');
}

/**
 * @param {Api.Job} job
 * @param {number} epoch after which nothing is gained
 * @returns {Page.Action}
 */
export const endingAt = (job, epoch) =>
    ({text: 'Clone with ' + plural(epoch, 'epoch'), href: cloneWith(job.id, {'/epochs': epoch})});

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
    action: endingAt(job, epoch)
  };
}
