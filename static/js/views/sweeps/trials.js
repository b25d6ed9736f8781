/* The trials as a table: settings, result, and a link to each job. The row that has the focus or
   the pointer is highlighted in the drawings too. */
import {around, fill, h, keyed, refill, say} from '../../elements/dom.js';
import {pill, setPill} from '../../elements/states.js';
import {numeric, scroller, table} from '../../elements/widgets.js';
import {known} from '../../text/format.js';

import {metricText, metricTitle, settingText, titleOf} from './words.js';

/** @typedef {import('./model.js').SweepModel} SweepModel */

class TrialRow {
  /**
   * @param {Api.Trial} trial
   * @param {Api.Sweep} sweep
   */
  constructor(trial, {parameters}) {
    this.pill = pill(trial.state);
    this.metric = h('td', {class: 'num'});
    this.jobs = h('td', {class: 'trial-jobs'});
    this.node = h('tr', {data: {trial: String(trial.number)}},
        h('td', {class: 'num', text: trial.number}), this.jobs, this.metric,
        h('td', null, this.pill), parameters.map(({pointer}) => h('td', {
          class: typeof trial.settings[pointer] === 'number' ? 'num' : null,
          text: settingText(trial.settings[pointer])
        })));
  }

  /**
   * @param {Api.Trial} trial
   * @param {Api.Sweep} sweep
   */
  update(trial, {best, metric, seeds, method}) {
    this.pill = setPill(this.pill, trial.state);
    const spread = known(trial.spread) ? ' ± ' + metricText(metric.name, trial.spread) : '';
    say(this.metric, metricText(metric.name, trial.metric) + spread);
    this.node.classList.toggle('best-trial', best?.trial === trial.number);
    const named = seeds > 1 || method.type === 'halving';
    refill(this.jobs, JSON.stringify(trial.jobs), () => trial.jobs.map((job) => job.id && h('a', {
      href: '#/jobs/' + job.id,
      text: named ? jobText(job, method.type === 'halving', seeds > 1) : job.id.slice(0, 8)
    })));
  }
}

/**
 * @param {Api.SweepJob} job
 * @param {boolean} rungs
 * @param {boolean} seeds
 */
function jobText({rung, seed}, rungs, seeds) {
  return [rungs && 'rung ' + rung, seeds && 'seed ' + seed].filter(Boolean).join(', ');
}

/**
 * A column's head, over numbers at their side.
 * @param {string} title
 * @param {unknown} value
 */
const head = (title, value) => (typeof value === 'number' ? numeric(title)[0] : title);

export class Trials {
  /** @param {SweepModel} data */
  constructor(data) {
    this.data = data;
    const {metric, parameters, trials, spec} = data.sweep;
    this.body = h('tbody');
    const heads = [
      ...numeric('Trial'), 'Jobs', ...numeric(metricTitle(metric.name)), 'State',
      ...parameters.map(({pointer}) => head(titleOf(pointer, spec), trials[0]?.settings[pointer]))
    ]; /* the result before the settings: of these a phone shows the first */
    this.node = h('section', {'aria-label': 'Trials'},
        h('div', {class: 'row-title'}, h('h2', {text: 'Trials'})),
        scroller('Trials, table', table('Trials', heads, this.body, 'trial-table'), 'sweep-stage'));
    for (const type of ['pointerover', 'focusin']) {
      this.body.addEventListener(type, (e) => this.point(e));
    }
    this.body.addEventListener('pointerleave', () => data.highlight(0));
    this.body.addEventListener('focusout', () => data.highlight(0));
    data.addEventListener('highlight', () => this.mark());
  }

  /** @param {Event} event */
  point(event) {
    const row = /** @type {HTMLElement | null} */ (around(event, 'tr'));
    this.data.highlight(Number(row?.dataset.trial || 0));
  }

  mark() {
    for (const row of this.body.rows) {
      row.classList.toggle('highlighted', Number(row.dataset.trial) === this.data.highlighted);
    }
  }

  update() {
    const {sweep} = this.data;
    keyed(this.body, sweep.trials, (t) => t.number, (t) => new TrialRow(t, sweep),
        (row, t) => row.update(t, sweep));
    if (!sweep.trials.length) {
      fill(this.body);
    }
  }
}
