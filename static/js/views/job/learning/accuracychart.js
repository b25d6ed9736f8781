/* Test and train accuracy, and how far the target is. */
import {Chart} from '../../../chart/chart.js';
import {union, visible} from '../../../chart/smooth.js';
import {ended, noneLogged, nothingYet} from '../../../elements/states.js';
import {bestEvaluation, hasAccuracy, last} from '../../../measures/measures.js';
import {known, percent, percentTick, plural} from '../../../text/format.js';

import {LearningCurve} from './learningcurve.js';
import {Rail} from './rail.js';

/** @typedef {import('../view.js').JobView} JobView */

/**
 * The range from a twentieth below the least value to a little above the greatest.
 * @param {number[]} values
 */
function rangeOf(values) {
  const shown = values.filter(known);
  if (shown.length === 0) {
    return [0, 1];
  }
  const low = Math.floor(Math.min(1, ...shown) * 20) / 20 - 0.02;
  return [Math.max(0, low), Math.min(1.02, Math.max(...shown, 0.1) + 0.03)];
}

/** @param {number} epoch */
const epochText = (epoch) => ', epoch ' + +epoch.toFixed(1);

export class AccuracyChart {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.curve = new LearningCurve(view, 'train_accuracy', 'accuracy', (v) => percent(v));
    this.chart = new Chart(view.group, {
      title: 'Accuracy',
      height: 130,
      yTicks: 4,
      format: percentTick,
      table: () => this.curve.numbers()
    });
    this.rail = new Rail(false);
  }

  get target() {
    return this.view.data.job.spec?.target?.test_accuracy;
  }

  draw() {
    this.curve.read();
    const {raw, soft, test} = this.curve;
    const {target} = this;
    const inside = visible(raw.x, this.view.group.window()).map((i) => raw.mean[i]);
    const newest = soft.filter(known).slice(-1);
    this.chart.set({
      rows: union([{x: raw.x, y: soft}, test]),
      lines: [
        {label: 'train', colour: 'var(--ink-2)', width: 1.25, dash: [5, 3]},
        {label: 'test', colour: 'var(--ink)', width: 2, shape: 'circle', shapeSize: 3}
      ],
      band: {...raw, colour: 'var(--ink)', line: false},
      range: rangeOf([...inside, ...newest, ...test.y, ...(target ? [target] : [])]),
      ends: this.ends(),
      hlines: target ? [{y: target, style: 'target', text: 'target ' + percent(target)}] : [],
      note: test.x.length ? 'test after ' + plural(test.x.length, 'evaluation') : '',
      subtitle: 'samples classified correctly',
      empty: this.emptyText()
    });
  }

  /* Predicted numbers have none, and a program may tell its loss alone. */
  emptyText() {
    const {raw, test, empty} = this.curve;
    const {job} = this.view.data;
    const told = test.x.length > 0 || raw.mean.some(known);
    const numbers = !hasAccuracy(job, this.view.data.evaluations) && !job.spec?.program;
    return told   ? ''
        : numbers ? 'A network with the loss mse predicts numbers, which have no accuracy.'
        : empty   ? nothingYet(job)
                  : noneLogged(job, 'accuracy');
  }

  /** @returns {Page.End[]} */
  ends() {
    const {soft, test} = this.curve;
    const {narrow} = this.view;
    const train = last(soft);
    const result = percent(last(test.y));
    const text = narrow ? result : 'test ' + result;
    const other = narrow ? percent(train, 0) : 'train ' + percent(train);
    return [
      ...(known(train) ? [{y: train, text: other, quiet: true}] : []),
      ...(test.y.length ? [{y: last(test.y), text, bold: true}] : [])
    ];
  }

  drawRail() {
    const now = this.curve.values();
    const {evaluations} = this.view.data;
    const best = bestEvaluation(evaluations);
    const {target} = this;
    const hit = target && evaluations.find((e) => e.accuracy >= target);
    const missed = ended(this.view.data.job.state) ? 'not reached' : 'not reached yet';
    const reached = hit ? 'reached' + epochText(hit.epoch) : missed;
    const bestText =
        best && known(best.accuracy) ? percent(best.accuracy) + epochText(best.epoch) : 'none';
    this.rail.set('', [
      {kind: 'bold', label: 'Test, each evaluation', value: now.test},
      {kind: 'dash', colour: 'var(--ink-2)', label: 'Train, smoothed', value: now.soft},
      {label: 'Best test', value: bestText},
      ...(target ? [{
        kind: 'target',
        colour: 'var(--ok)',
        label: 'Target ' + percent(target),
        value: reached
      }]
                 : [])
    ]);
  }
}
