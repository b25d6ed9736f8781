/* What a run may try next: another learning rate, a larger global batch, more epochs. Each is an
   action of a verdict: the words of a button, and the address of the form that makes the clone.
   Pure. */
import {cloneWith} from '../spec/clone.js';
import {globalBatch, hasServers} from '../spec/spec.js';
import {known, plain, plural, whole} from '../text/format.js';

const LONGER = 4;         /* times the epochs */
const FAR_TOO_HIGH = 100; /* times the usual rate: a tenth diverges, too */

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
 * The rate to try next where one is far too high, NaN where it is not.
 * @param {Api.Job} job
 */
export function rateFromFarAbove(job) {
  const {learning_rate: rate = 0} = job.spec?.optimizer || {};
  return rate > FAR_TOO_HIGH * usualRate(job) ? firstRate(job) : NaN;
}

/**
 * A usual rate to begin with, which for sgd is ten times as high without the momentum that adds
 * steps up.
 * @param {Api.Job} job
 */
function firstRate(job) {
  const {type = 'sgd', momentum = 0} = job.spec?.optimizer || {};
  const usual = usualRate(job);
  const first = type === 'sgd' ? usual * Math.max(1, 10 * (1 - momentum)) : usual;
  return Number(first.toPrecision(3));
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
 * The next rate of a run that learned nothing: smaller if the rate is large, larger if it is small,
 * and the usual one if ten times as much, or a tenth, would still be far from it. At a usual rate,
 * a loss that falls, or has had few steps to fall, needs more epochs.
 * @param {Api.Job} job
 * @param {boolean} longer whether more steps may help
 */
export function anotherRate(job, longer) {
  const {learning_rate: rate = 0} = job.spec?.optimizer || {};
  const usual = usualRate(job);
  const epochs = LONGER * (job.spec?.epochs || 0);
  if (longer && epochs > 0 && rate >= usual && rate <= 10 * usual) {
    return {
      text: 'Clone with ' + plural(epochs, 'epoch'),
      href: cloneWith(job.id, {'/epochs': epochs})
    };
  }
  return rate > 0 && 10 * rate < usual ? atUsual(job, firstRate(job))
      : rate > 0.001                   ? atLower(job)
                                       : atRate(job, 10);
}

/**
 * A note about the learning rate and how to change it. The rate of a user's program is not known.
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
 * For a run that diverged: a rate that its schedule does not raise, or a smaller one.
 * @param {Api.Job} job
 */
export const calmer = (job) => (job.spec?.optimizer?.schedule?.factor ?? 0) > 1 ? {
  text: 'Clone with a rate that does not rise',
  href: cloneWith(job.id, {'/optimizer/schedule': {type: 'constant'}})
}
                                                                                : atLower(job);
