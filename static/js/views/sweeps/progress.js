/* Best so far: a dot for each trial that has a result, in order, and the best result so far as a
   line of steps. */
import {linearTicks, niceRange, step125} from '../../chart/scale.js';
import {s} from '../../elements/dom.js';
import {known} from '../../text/format.js';

import {drawing, Plot, text} from './plot.js';
import {metricText, metricTitle} from './words.js';

/** @typedef {import('./model.js').SweepModel} SweepModel */

const [HEIGHT, TOP, BOTTOM, LEFT, RIGHT] = [200, 12, 34, 64, 16];
const GROUND = HEIGHT - BOTTOM;
const TICK_ROOM = 40; /* pixels */

/**
 * The best of each beginning of the list. Pure.
 * @param {number[]} values
 * @param {'max' | 'min'} direction
 */
export function bestSoFar(values, direction) {
  const better = direction === 'max' ? Math.max : Math.min;
  let best = values[0];
  return values.map((v) => (best = better(best, v)));
}

/**
 * Which trials are numbered on an axis that has room for so many numbers: the first, and round
 * ones. Pure.
 * @param {number[]} numbers of trials
 * @param {number} room
 * @returns {Set<number>}
 */
export function trialTicks(numbers, room) {
  const [first, most] = [Math.min(...numbers), Math.max(...numbers)];
  const by = Math.max(1, step125(most / Math.max(1, Math.floor(room) - 1)));
  const round = numbers.filter((n) => n % by === 0 && n - first >= by / 2);
  return new Set([first, ...round]);
}

export class Progress {
  /** @param {SweepModel} data */
  constructor(data) {
    this.data = data;
    this.plot = new Plot('Best so far', '', () => this.draw());
    this.node = this.plot.node;
    data.addEventListener('highlight', () => this.highlight());
  }

  update() {
    this.plot.update();
    this.highlight();
  }

  highlight() {
    for (const dot of this.plot.stage.querySelectorAll('[data-trial]')) {
      const {trial} = /** @type {SVGElement} */ (dot).dataset;
      dot.classList.toggle('highlighted', Number(trial) === this.data.highlighted);
    }
  }

  draw() {
    const {metric, trials} = this.data.sweep;
    const done = trials.filter((t) => known(t.metric));
    const values = done.map((t) => Number(t.metric));
    const width = Math.max(260, this.plot.stage.clientWidth);
    const label = 'Best ' + metricTitle(metric.name) + ' so far, by trial';
    if (!done.length) {
      return drawing(width, HEIGHT, label,
          text(width / 2, HEIGHT / 2, 'No trial has a figure yet.', 'middle', 'fit-name'));
    }
    const [low, high] = niceRange(values);
    const x = (/** @type {number} */ i) =>
        LEFT + (width - LEFT - RIGHT) * (i + 0.5) / Math.max(1, done.length);
    const y = (/** @type {number} */ v) => GROUND - (GROUND - TOP) * (v - low) / (high - low);
    const best = bestSoFar(values, metric.direction);
    const steps = best.map((v, i) => (i ? 'H' + x(i) + 'V' + y(v) : 'M' + x(0) + ' ' + y(v)));
    const across =
        linearTicks(low, high, 4)
            .map((v) => [s('line',
                             {x1: LEFT, x2: width - RIGHT, y1: y(v), y2: y(v), class: 'fit-grid'}),
                     text(LEFT - 8, y(v) + 4, metricText(metric.name, v), 'end')]);
    const told = trialTicks(done.map((t) => t.number), (width - LEFT - RIGHT) / TICK_ROOM);
    const numbers = done.map(
        (t, i) => told.has(t.number) && text(x(i), GROUND + 16, String(t.number), 'middle'));
    const dots = done.map((t, i) => s('circle', {
      cx: x(i),
      cy: y(values[i]),
      r: 4,
      class: 'trial-dot',
      data: {trial: String(t.number)}
    }));
    return drawing(width, HEIGHT, label, across, numbers,
        text((LEFT + width - RIGHT) / 2, HEIGHT - 4, 'trial', 'middle'),
        s('path', {d: steps.join(''), class: 'best-steps'}), dots);
  }
}
