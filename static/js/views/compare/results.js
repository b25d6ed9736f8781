/* The results of all runs; the best value of each line is ticked. */
import {fill, h} from '../../elements/dom.js';
import {icon} from '../../elements/icons.js';
import {ended} from '../../elements/states.js';
import {isVirtual, meanRate, stepTimes, tookSeconds} from '../../measures/measures.js';
import {known, loss, mean, percent, span, spans, three, whole} from '../../text/format.js';

import {runKey} from './letters.js';
import {bestAccuracy, leastLoss, timeTo, waitShare} from './model.js';

/** @typedef {import('./model.js').CompareModel} CompareModel */
/** @typedef {import('./model.js').Run} Run */
/**
 * One line: `best` is which value wins.
 * @typedef {{name: string, value: (run: Run) => number | null | undefined,
 *            format: (value: number) => string, best: (...values: number[]) => number,
 *            timed?: boolean}} Line  timed: by the run's own clock
 */

/** @param {Run} run */
function longestStep(run) {
  return Math.max(...stepTimes(run.job.workers || []).map((s) => s.all).filter((v) => v > 0));
}

/** @type {Line[]} */
const LINES = [
  {name: 'Best test accuracy', value: bestAccuracy, format: (v) => percent(v), best: Math.max},
  {name: 'Least test loss', value: leastLoss, format: loss, best: Math.min}, {
    name: 'Train loss, mean of the last updates',
    value: (r) => r.job.metrics?.train_loss,
    format: loss,
    best: Math.min
  },
  {
    name: 'Samples per second, over the run',
    value: (r) => meanRate(r.job),
    format: three,
    best: Math.max,
    timed: true
  },
  {
    name: 'One step of the slowest node, mean of the last',
    value: longestStep,
    format: span,
    best: Math.min,
    timed: true
  },
  {
    name: 'Waiting, share of the last steps',
    value: waitShare,
    format: (v) => percent(v),
    best: Math.min
  },
  {
    name: 'Staleness, mean over nodes',
    value: (r) => r.job.staleness?.node_mean,
    format: mean,
    best: Math.min
  },
  {name: 'Staleness, max', value: (r) => r.job.staleness?.max, format: whole, best: Math.min}, {
    name: 'Training, pauses left out',
    value: (r) => (ended(r.job.state) ? r.job.seconds : NaN),
    format: span,
    best: Math.min,
    timed: true
  },
  {
    name: 'Whole run, by the clock',
    value: (r) => (ended(r.job.state) ? tookSeconds(r.job) : NaN),
    format: span,
    best: Math.min,
    timed: true
  },
  {name: 'Restarts', value: (r) => r.job.restarts ?? 0, format: whole, best: Math.min}
];

/**
 * @param {Line} line
 * @param {Run[]} runs
 */
function row({name, value, format, best, timed}, runs) {
  const values = runs.map(value).map((v) => (known(v) ? v : NaN));
  const good = values.filter(known);
  /* times of a virtual run and of a real one are not better or worse than each other */
  const clocks = new Set(runs.map((r) => isVirtual(r.job))).size;
  const winner = new Set(good).size > 1 && !(timed && clocks > 1) ? best(...good) : NaN;
  const texts = format === span ? spans(...values) : values.map((v) => format(v));
  const cell = (/** @type {number} */ v, /** @type {string} */ text) => {
    const ticked = h('span', {class: 'best'}, icon('check', 12), text);
    return h('td', {class: 'num'}, v === winner ? ticked : text);
  };
  return h('tr', null, h('td', {text: name}),
      values.map((v, i) => (known(v) ? cell(v, texts[i]) : h('td', {class: 'num quiet'}, 'none'))));
}

/** @implements {Page.Part} */
export class Results {
  /** @param {CompareModel} data */
  constructor(data) {
    this.data = data;
    this.node = h('table');
  }

  update() {
    const {runs} = this.data;
    const goal = this.data.commonGoal();
    /** @type {Line} */
    const first = {
      name: 'Time to ' + percent(goal, 0) + ' test accuracy',
      value: (r) => timeTo(r, goal),
      format: span,
      best: Math.min,
      timed: true
    };
    const lines = known(goal) ? [first, ...LINES] : LINES;
    fill(this.node, h('caption', {class: 'sr', text: 'Results'}), runHeads('Figure', runs.length),
        h('tbody', null, lines.map((line) => row(line, runs))));
  }
}

/**
 * A head that is read aloud only, and a letter for each run.
 * @param {string} name
 * @param {number} runs
 */
export function runHeads(name, runs) {
  const letters =
      Array.from({length: runs}, (_, i) => h('th', {class: 'num', scope: 'col'}, runKey(i)));
  return h('thead', null,
      h('tr', null, h('th', {scope: 'col'}, h('span', {class: 'sr', text: name})), letters));
}
