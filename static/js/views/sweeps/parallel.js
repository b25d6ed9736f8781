/* Settings and metric as parallel coordinates: an axis for each parameter, the metric's at the
   right, a line for each trial. The line under the pointer, or of the row that has the focus, is
   drawn over the others; the table has the same numbers and the links for the keyboard. */
import {around, s, say} from '../../elements/dom.js';
import {known} from '../../text/format.js';

import {drawing, Plot, text} from './plot.js';
import {scalesOf, trialText} from './words.js';

/** @typedef {import('./model.js').SweepModel} SweepModel */
/** @typedef {import('./words.js').Scale} Scale */

const [HEIGHT, TOP, BOTTOM, LEFT, RIGHT, LEAST_GAP] = [300, 34, 16, 64, 76, 108];
const GROUND = HEIGHT - BOTTOM;
/* A pointer meets a line within so many pixels. */
const REACH = 12;

export class Parallel {
  /** @param {SweepModel} data */
  constructor(data) {
    this.data = data;
    this.plot = new Plot('Settings and result', '', () => this.draw());
    this.node = this.plot.node;
    /** @type {Map<number, Element>} */
    this.lines = new Map();
    this.plot.stage.addEventListener('pointerover', (e) => data.highlight(this.trialAt(e)));
    this.plot.stage.addEventListener('pointerleave', () => data.highlight(0));
    this.plot.stage.addEventListener('click', (e) => this.open(this.trialAt(e)));
    data.addEventListener('highlight', () => this.highlight());
  }

  update() {
    this.plot.update();
    this.highlight();
  }

  /** @param {Event} event */
  trialAt(event) {
    const line = around(event, '[data-trial]');
    return Number(/** @type {SVGElement | null} */ (line)?.dataset.trial || 0);
  }

  /** @param {number} number */
  open(number) {
    const trial = this.data.sweep.trials.find((t) => t.number === number);
    const job = trial?.jobs[trial.jobs.length - 1]?.id;
    if (job) {
      location.hash = '#/jobs/' + job;
    }
  }

  highlight() {
    const {sweep, highlighted} = this.data;
    for (const [number, line] of this.lines) {
      line.classList.toggle('highlighted', number === highlighted);
    }
    this.lines.get(highlighted)?.parentElement?.append(this.lines.get(highlighted) || '');
    const trial = sweep.trials.find((t) => t.number === highlighted);
    say(this.plot.note, trial ? trialText(trial, sweep) : 'a line is a trial');
  }

  draw() {
    const {sweep} = this.data;
    const scales = scalesOf(sweep);
    const width =
        Math.max(this.plot.stage.clientWidth, LEFT + RIGHT + LEAST_GAP * (scales.length - 1));
    const x = (/** @type {number} */ i) => LEFT + (width - LEFT - RIGHT) * i / (scales.length - 1);
    this.lines = new Map(sweep.trials.filter((t) => t.state !== 'waiting')
                             .map((t) => [t.number, this.line(t, scales, x)]));
    const best = sweep.best && this.lines.get(sweep.best.trial);
    const order = [...this.lines.values()].filter((line) => line !== best);
    return drawing(width, HEIGHT, 'Each trial’s settings and its ' + sweep.metric.name,
        s('g', null, order, best),
        scales.map((scale, i) => axis(scale, x(i), i === scales.length - 1)));
  }

  /**
   * @param {Api.Trial} trial
   * @param {Scale[]} scales
   * @param {(i: number) => number} x
   */
  line(trial, scales, x) {
    const {best, parameters} = this.data.sweep;
    const values = [...parameters.map((p) => trial.settings[p.pointer]), trial.metric];
    const points = values.map((v, i) => [x(i), yOf(scales[i].at(v))])
                       .filter(([, y]) => known(y))
                       .map(([a, y]) => a.toFixed(1) + ',' + y.toFixed(1))
                       .join(' ');
    const kind = best?.trial === trial.number ? ' best-trial' : known(trial.metric) ? '' : ' open';
    return s('g', {class: 'trial' + kind, data: {trial: String(trial.number)}},
        s('polyline', {points, class: 'trial-reach', 'stroke-width': REACH}),
        s('polyline', {points, class: 'trial-line'}));
  }
}

/** @param {number} share */
const yOf = (share) => GROUND - (GROUND - TOP) * share;

/**
 * @param {Scale} scale
 * @param {number} x
 * @param {boolean} last its labels stand at the right, where there are no lines
 */
function axis({title, ticks}, x, last) {
  const side = last ? 1 : -1;
  const mark = (/** @type {number} */ y) => s('line', {x1: x, x2: x + 4 * side, y1: y, y2: y});
  return s('g', {class: 'trial-axis'}, s('line', {x1: x, x2: x, y1: TOP, y2: GROUND}),
      text(x, TOP - 16, title, 'middle', 'fit-name'), ticks.map(([share, label]) => {
        const y = yOf(share);
        return [mark(y), text(x + 8 * side, y + 4, label, last ? 'start' : 'end')];
      }));
}
