/* Step time by minibatch for the nodes of one job: the figure (fitplot.js) and the fitted lines
   a + k·b as numbers. Where a node was only seen at one size its line goes through the origin and
   that point, and is drawn dashed. */
import {fill, h, keyed, say, sayAll} from '../../elements/dom.js';
import {NodeKey} from '../../elements/nodekey.js';
import {numeric, table} from '../../elements/widgets.js';
import {ownSeconds, perSample} from '../../measures/measures.js';
import {distance, fitStep} from '../../measures/steptime.js';
import {get, job as path} from '../../service/api.js';
import {globalBatch} from '../../spec/spec.js';
import {known, NARROW, three, whole} from '../../text/format.js';

import {fitPlot} from './fitplot.js';

/** @typedef {import('./model.js').NodesModel} NodesModel */
/**
 * @typedef {import('../../measures/steptime.js').StepFit &
 *           {node: string, batch: number, points: number[][], guessed: boolean}} FittedLine
 */

const LEAST_POINTS = 5;

/**
 * [minibatch, loading and computing time] of each bucket in which the minibatch did not change;
 * without the first one, in which the node warmed up.
 * @param {Api.Series[]} series
 * @param {string} node
 * @returns {number[][]}
 */
function pointsOf(series, node) {
  const of = (/** @type {string} */ name) => series.find((c) => c.name === name && c.node === node);
  const [b, t, load] = [of('batch'), of('compute_seconds'), of('load_seconds')];
  if (!b || !t) {
    return [];
  }
  const first = Math.min(1, b.x.length - 1);
  return b.x.map((x, i) => i)
      .filter((i) => i >= first && i < t.x.length && b.min[i] === b.max[i] && Number(t.mean[i]) > 0)
      .map((i) => [Number(b.mean[i]), Number(t.mean[i]) + Number(load?.mean[i] || 0)]);
}

/**
 * The line to draw: the one from which minibatches are made, if the service gives it, with the
 * intervals of the measured points; else the one through these points; else the one through the
 * origin and the current point. A short job's line comes from earlier jobs, so its error is the
 * distance of this job's points.
 * @param {number[][]} points
 * @param {Api.Worker} w
 * @returns {Omit<FittedLine, 'node' | 'batch' | 'points'>}
 */
export function fitOf(points, w) {
  const own = points.length >= LEAST_POINTS ? fitStep(points) : null;
  const within = {aWithin: own?.aWithin ?? NaN, kWithin: own?.kWithin ?? NaN, guessed: !own};
  if (w.fit) {
    const {fixed_seconds: a, seconds_per_sample: k} = w.fit;
    return {...within, a, k, error: points.length ? distance(points, a, k) : w.fit.error};
  }
  const k = perSample(w);
  return own ? {...own, guessed: false} : {...within, a: 0, k, error: NaN};
}

/**
 * An interval in milliseconds, not below 0: "12 to 18"; only the value if no interval is known.
 * @param {number} value
 * @param {number} within
 */
function between(value, within) {
  const [low, high] = [Math.max(0, value - within), value + within].map((v) => three(v * 1000));
  return known(within) && low !== high ? low + ' to ' + high : three(value * 1000);
}

export class FitFigure {
  /** @param {NodesModel} data */
  constructor(data) {
    this.data = data;
    this.sub = h('span', {class: 'note'});
    this.stage = h('div',
        {class: 'fit-stage', tabindex: '0', role: 'region', 'aria-label': 'Figure of step times'});
    /** @type {(width: number) => void} */
    this.plot = () => {};
    this.watch = new ResizeObserver(() => this.plot(this.stage.clientWidth));
    this.watch.observe(this.stage);
    this.body = h('tbody');
    this.text = h('p', {class: 'sub'});
    const lines = table(
        'Fitted lines', ['Node', ...numeric('a, ms', 'k, ms', 'Fit', 'b')], this.body, 'dense');
    this.node = h('section', {class: 'row', hidden: true, 'aria-label': 'Step time by minibatch'},
        h('div', null,
            h('div', {class: 'row-title'}, h('h2', {text: 'Step time by minibatch'}), this.sub),
            this.stage),
        h('div', {class: 'rail-side'}, h('h3', {class: 'rail-head', text: 'Fitted lines'}), lines,
            this.text));
  }

  /**
   * Reads what was measured of a job; without one there is nothing to show.
   * @param {string | null} chosen
   */
  async read(chosen) {
    const job = this.data.measured(chosen);
    if (!job) {
      this.node.hidden = true;
      return;
    }
    const params = {names: 'batch,load_seconds,compute_seconds', x: 'step', points: 200};
    const answer = await get(path(job.id, 'series'), params).catch(() => null);
    if (answer) {
      this.draw(job, answer.series);
    }
  }

  /**
   * @param {Api.Job} job
   * @param {Api.Series[]} series
   */
  draw(job, series) {
    const all = job.workers || [];
    const workers = all.filter((w) => w.batch > 0 && w.compute_seconds > 0);
    this.node.hidden = workers.length === 0;
    if (!workers.length) {
      return;
    }
    const key = new NodeKey(all.map((w) => w.node));
    /** @type {FittedLine[]} */
    const lines = workers.map((w) => {
      const points = pointsOf(series, w.node);
      return {node: w.node, batch: w.batch, points, ...fitOf(points, w)};
    });
    const global = globalBatch(job);
    const step = Math.max(...workers.map(ownSeconds));
    this.plot = (width) =>
        width > 0 && fill(this.stage, fitPlot(lines, key, global / workers.length, step, width));
    this.plot(this.stage.clientWidth);
    say(this.sub,
        'loading data and computing, in “' + job.name +
            '”: measured points and the fitted line a + k·b');
    this.drawTable(lines, key);
    say(this.text,
        'The thick line is one step. Where it crosses a node’s line is the minibatch ' +
            'that lets the node finish with the others; the sizes sum to ' + whole(global) + '.' +
            (workers.some((w) => w.fit) ? ' The lines are those that minibatches are made from.'
                                        : '') +
            ' a and k are given as intervals of 95' + NARROW + '%; a is never below 0.' +
            (lines.some((l) => l.guessed)
                    ? ' Dashed: this job’s minibatches are too much alike to measure a by them. ' +
                        'Fit is how far its points are from the line.'
                    : ''));
  }

  close() {
    this.watch.disconnect();
  }

  /**
   * @param {FittedLine[]} lines
   * @param {NodeKey} key
   */
  drawTable(lines, key) {
    const make = (/** @type {FittedLine} */ l) => {
      const cells = [0, 1, 2, 3].map((i) => h('td', {class: 'num' + (i === 3 ? ' strong' : '')}));
      return {node: h('tr', null, h('td', null, key.label(l.node)), cells), cells};
    };
    keyed(this.body, lines, (l) => l.node, make, (row, l) => {
      const taken = l.a > 0 ? 'about ' + three(l.a * 1000) : 'not known';
      const fixed = l.guessed ? taken : between(l.a, l.aWithin);
      const error = known(l.error) ? '±' + (100 * l.error).toFixed(1) + NARROW + '%' : '';
      sayAll(row.cells, [fixed, between(l.k, l.kWithin), error, whole(l.batch)]);
    });
  }
}
