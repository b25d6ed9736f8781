/* Settings, figures and states of a sweep as people read them, and where a value stands on its
   axis. Pure. */
import {linearTicks, logTicks, niceRange} from '../../chart/scale.js';
import {likeChance} from '../../sentences/learning.js';
import {classesOf} from '../../spec/spec.js';
import {known, list, loss, percent, plain, plural, three} from '../../text/format.js';

/**
 * One axis of the settings: `at` gives 0 (bottom) to 1 (top), NaN where there is nothing.
 * @typedef {{title: string, at: (value: unknown) => number, ticks: [number, string][]}} Scale
 */

const LONGEST = 18;
/** Before the name of a metric that a program logs. */
const LOGGED = 'logged.';

/**
 * /optimizer/learning_rate is titled learning_rate; the value of a program's option as the option.
 * @param {string} pointer
 * @param {Api.Spec} [spec] where it is known
 */
export function titleOf(pointer, spec) {
  const [, place] = pointer.match(/^\/program\/args\/(\d+)$/) || [];
  if (place) {
    const option = spec?.program?.args?.[Number(place) - 1] || '';
    return option.startsWith('-') ? option : 'argument ' + (Number(place) + 1);
  }
  return pointer.slice(pointer.lastIndexOf('/') + 1).replace(/~1/g, '/').replace(/~0/g, '~');
}

/**
 * A value of a setting; of an object its type, if it has one.
 * @param {any} value
 */
export function settingText(value) {
  if (typeof value === 'number') {
    return plain(value);
  }
  const text = typeof value === 'string' ? value
      : value?.type                      ? String(value.type)
                                         : JSON.stringify(value);
  return text.length > LONGEST ? text.slice(0, LONGEST - 1) + '…' : text;
}

/**
 * @param {string} name
 * @param {number | null | undefined} value
 */
export function metricText(name, value) {
  if (name.startsWith(LOGGED)) { /* its unit is the program's */
    return three(value);
  }
  return name.includes('accuracy') ? percent(value)
      : name.includes('loss')      ? loss(value)
                                   : three(value);
}

/** @param {string} name */
export const metricTitle = (name) =>
    name.startsWith(LOGGED) ? name.slice(LOGGED.length) : name.replace(/_/g, ' ');

/**
 * @param {Api.Trial} trial
 * @param {Api.SweepRow & {spec?: Api.Spec}} sweep
 */
export function trialText(trial, sweep) {
  const settings = Object.entries(trial.settings).map(([pointer,
    value]) => titleOf(pointer, sweep.spec) + ' ' + settingText(value));
  const result = known(trial.metric)
      ? ': ' + metricTitle(sweep.metric.name) + ' ' + metricText(sweep.metric.name, trial.metric)
      : ': ' + trial.state;
  return 'Trial ' + trial.number + ', ' + list(settings) + result;
}

/**
 * ' ± 2.8 % over its seeds. 3 other trials are within that.': what a best figure of several seeds
 * is worth; of one seed, which trials are as good.
 * @param {Api.SweepRow} sweep
 * @param {Api.Trial[]} trials
 */
function spreadText({best, metric}, trials) {
  const first = trials.find((t) => t.number === best?.trial);
  if (!first || !known(first.metric)) {
    return '.';
  }
  const middle = first.metric;
  const spread = known(first.spread) ? first.spread : 0;
  const near = trials.filter((t) => t !== first && t.rung === first.rung && known(t.metric) &&
          Math.abs(t.metric - middle) <= spread);
  return (known(first.spread) ? ' ± ' + metricText(metric.name, spread) + ' over its seeds.'
                              : '.') +
      (near.length
              ? ' ' + plural(near.length, 'other trial') + (near.length === 1 ? ' is ' : ' are ') +
                  (known(first.spread) ? 'within that.' : 'as good.')
              : '');
}

/**
 * Whether guessing would reach the best accuracy.
 * @param {Api.SweepRow & {spec?: Api.Spec}} sweep
 */
const guesses = ({best, metric, spec}) => Boolean(best) && /^[a-z_]*accuracy$/.test(metric.name) &&
    Number(best?.metric) <= likeChance(classesOf(spec));

/**
 * The sentence at the top. A sweep whose trials all guess has no best settings.
 * @param {Api.SweepRow & {spec?: Api.Spec}} sweep
 * @param {Api.Trial[]} [trials] where they are known
 */
export function sentenceOf(sweep, trials = []) {
  const {state, counts, best, metric} = sweep;
  const done = plural(counts.ended, 'job') + ' of ' + plural(counts.trials, 'trial') +
      (counts.ended === 1 ? ' has' : ' have') + ' ended' +
      (counts.failed ? ', ' + counts.failed + ' failed' : '') + '.';
  if (!best) {
    return done + (state === 'running' ? '' : ' No trial has a result.');
  }
  if (guesses(sweep)) {
    return done + ' No trial is better than guessing' + (state === 'running' ? ' yet' : '') +
        ': the most is a ' + metricTitle(metric.name) + ' of ' +
        metricText(metric.name, best.metric) + '.';
  }
  const settings = Object.entries(best.settings).map(([p,
    value]) => titleOf(p, sweep.spec) + ' ' + settingText(value));
  return done + ' Trial ' + best.trial + ' is the best' + (state === 'running' ? ' so far' : '') +
      ', with ' + list(settings) + ': ' + metricTitle(metric.name) + ' ' +
      metricText(metric.name, best.metric) + spreadText(sweep, trials);
}

/**
 * The jobs of the best trials, all seeds of each, the best first: those that went furthest, and so
 * many trials as fit.
 * @param {Api.Sweep} sweep
 * @param {number} most jobs
 */
export function bestJobs({trials, metric}, most) {
  const measured = trials.filter((t) => known(t.metric));
  const furthest = Math.max(...measured.map((t) => t.rung));
  const better = metric.direction === 'max' ? -1 : 1;
  /** @type {string[]} */
  const ids = [];
  const last = measured.filter((t) => t.rung === furthest)
                   .sort((a, b) => better * (Number(a.metric) - Number(b.metric)));
  for (const {jobs, rung} of last) {
    const own = jobs.flatMap((job) => (job.id && job.rung === rung ? [job.id] : []));
    if (ids.length + own.length > most) {
      break;
    }
    ids.push(...own);
  }
  return ids;
}

/* ---- axes ------------------------------------------------------------------------------------ */

/**
 * @param {string} title
 * @param {number[]} values
 * @param {boolean} log
 * @param {(value: number) => string} text
 * @returns {Scale}
 */
function numbers(title, values, log, text) {
  const positive = log && values.every((v) => v > 0);
  const [low, high] = niceRange(values, {log: positive, pad: 0.03});
  const place = positive ? Math.log : (/** @type {number} */ v) => v;
  const at = (/** @type {unknown} */ v) =>
      (known(v) ? (place(v) - place(low)) / (place(high) - place(low)) : NaN);
  const ticks = positive ? logTicks(low, high) : linearTicks(low, high, 5);
  return {title, at, ticks: ticks.map((v) => [at(v), text(v)])};
}

/**
 * @param {string} title
 * @param {unknown[]} values
 * @returns {Scale}
 */
function choices(title, values) {
  const keys = [...new Set(values.map((v) => JSON.stringify(v)))];
  if (values.every(known)) {
    keys.sort((a, b) => Number(a) - Number(b));
  }
  const place = (/** @type {number} */ i) => (i + 0.5) / keys.length;
  return {
    title,
    at: (v) => {
      const i = keys.indexOf(JSON.stringify(v));
      return i < 0 ? NaN : place(i);
    },
    ticks: keys.map((key, i) => [place(i), settingText(JSON.parse(key))])
  };
}

/**
 * An axis for each parameter, and the metric's.
 * @param {Api.Sweep} sweep
 * @returns {Scale[]}
 */
export function scalesOf({parameters, trials, metric, spec}) {
  const settings = parameters.map(({pointer, scale}) => {
    const values = trials.map((t) => t.settings[pointer]);
    const figures = values.filter(known);
    return scale !== 'choice' && figures.length === values.length
        ? numbers(titleOf(pointer, spec), figures, scale === 'log', plain)
        : choices(titleOf(pointer, spec), values);
  });
  const reached = trials.map((t) => t.metric).filter(known);
  return [
    ...settings,
    numbers(metricTitle(metric.name), reached, false, (v) => metricText(metric.name, v))
  ];
}
