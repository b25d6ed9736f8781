/* Train and test loss, and the learning rate in its rail. */
import {Chart} from '../../../chart/chart.js';
import {logTitle, niceRange} from '../../../chart/scale.js';
import {union, visible} from '../../../chart/smooth.js';
import {noneLogged, nothingYet} from '../../../elements/states.js';
import {last, rateAt} from '../../../measures/measures.js';
import {ending, known, loss, lossTick, plain, plural, whole} from '../../../text/format.js';

import {LearningCurve} from './learningcurve.js';
import {headingOf, Rail} from './rail.js';

/** @typedef {import('../view.js').JobView} JobView */

/**
 * The name of the loss; '' for a program, which chooses its own.
 * @param {Api.Spec} spec
 */
function lossName({program, model}) {
  const mse = typeof model === 'object' && model.loss === 'mse';
  return program ? '' : mse ? 'mean squared error' : 'cross-entropy';
}

/** @param {Page.Curve} curve */
function pointsNote({x, total}) {
  if (x.length === 0) {
    return '';
  }
  return x.length < total ? whole(x.length) + ' of ' + whole(total) + ' points, extremes kept'
                          : plural(total, 'point');
}

export class LossChart {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.curve = new LearningCurve(view, 'train_loss', 'loss', loss, () => view.log);
    this.chart = new Chart(view.group,
        {title: 'Loss', height: 190, format: lossTick, table: () => this.curve.numbers()});
    this.rail = new Rail();
  }

  draw() {
    this.curve.read();
    const {raw, soft, test} = this.curve;
    const {group, log, data} = this.view;
    const inside = visible(raw.x, group.window()).flatMap((i) => [raw.min[i], raw.max[i]]);
    this.chart.set({
      rows: union([{x: raw.x, y: soft}, test]),
      lines: [
        {label: 'train', colour: 'var(--ink)', width: 2},
        {label: 'test', colour: 'var(--ink-2)', width: 1.5, dash: [5, 3]}
      ],
      band: {...raw, colour: 'var(--ink)'},
      range: niceRange([...inside, ...test.y], {log, pad: 0.04}),
      log,
      ends: this.ends(),
      note: raw.mean.some(known) ? pointsNote(raw) : '',
      subtitle:
          [lossName(data.job.spec), log && logTitle([...raw.min, ...test.y])].filter(Boolean).join(
              ', '),
      empty: this.emptyText()
    });
  }

  /* A program may tell none. */
  emptyText() {
    const {raw, test} = this.curve;
    const {job} = this.view.data;
    const told = raw.mean.some(known) || test.y.some(known);
    return told                                              ? ''
        : job.spec?.program && (job.progress?.step ?? 0) > 0 ? noneLogged(job, 'loss')
                                                             : nothingYet(job);
  }

  /** @returns {Page.End[]} */
  ends() {
    const {raw, soft, test} = this.curve;
    const {group, narrow} = this.view;
    if (!raw.mean.some(known) || group.window()[1] < last(raw.x)) {
      return [];
    }
    const named = (/** @type {string} */ name, /** @type {number} */ y) =>
        ({y, text: (narrow ? '' : name) + ending(y, loss, 10000, narrow ? 0.001 : 0)});
    return [
      ...(test.y.length ? [{...named('test ', last(test.y)), quiet: true}] : []),
      {...named('train ', last(soft)), bold: true}
    ];
  }

  /* How many epochs the job had made at the reading line, or has made by now. */
  epoch() {
    const {data, group} = this.view;
    const epoch = data.job.progress?.epoch;
    if (group.hoverX === null) {
      return epoch ?? NaN;
    }
    if (group.axis === 'samples') {
      const {samplesPerEpoch} = data.curves;
      return samplesPerEpoch ? group.hoverX / samplesPerEpoch : NaN;
    }
    const full = data.extent();
    return full > 0 ? (epoch || 0) * group.hoverX / full : NaN;
  }

  drawRail() {
    const now = this.curve.values();
    this.rail.set(headingOf(this.view), [
      {kind: 'bold', label: 'Train, smoothed', value: now.soft},
      {kind: 'band', label: 'Train, each step: range', value: now.range},
      {kind: 'dash', colour: 'var(--ink-2)', label: 'Test, each evaluation', value: now.test},
      {label: 'Learning rate', value: plain(rateAt(this.view.data.job.spec, this.epoch()))}
    ]);
  }
}
