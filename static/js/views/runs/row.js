/* One line of the table: a run, a group of runs that differ in their seeds alone or belong to one
   sweep or project, or a member of such a group. */
import {h, say} from '../../elements/dom.js';
import {Sparkline} from '../../elements/figures.js';
import {icon} from '../../elements/icons.js';
import {pill, setPill} from '../../elements/states.js';
import {sweepName, sweepOf} from '../../spec/tags.js';
import {plural} from '../../text/format.js';

import {CURVE, textOf, textOfAll} from './columns.js';

/** @typedef {import('./columns.js').Column} Column */
/** @typedef {import('./lines.js').Line} Line */
/**
 * The events of a row: runs are picked or unpicked, a group opens or closes.
 * @typedef {{pick: (ids: string[], on: boolean) => void, open: (key: string) => void}} Told
 */

const CURVE_WIDTH = 96;
const CURVE_HEIGHT = 22;
/* What the service adds to a sweep's name for a seed. */
const OF_SEED = /-s\d+$/;

export class Row {
  /**
   * @param {Line} line
   * @param {Column[]} columns
   * @param {Told} told
   */
  constructor(line, columns, told) {
    this.line = line;
    this.columns = columns;
    const ids = () => this.line.jobs.map((job) => job.id);
    const name = this.name();
    /** @type {HTMLInputElement} */
    this.box = h('input', {
      type: 'checkbox',
      'aria-label': 'Choose ' + name,
      on: {change: () => told.pick(ids(), this.box.checked)}
    });
    this.state = h('span', {class: 'run-state'});
    this.pill = pill(line.jobs[0].state);
    this.curve = new Sparkline(CURVE_WIDTH, CURVE_HEIGHT, 'train loss of ' + name);
    /** @type {Api.Series | null | undefined} */
    this.drawn = undefined;
    const {fold, more} = this.isGroup() ? this.foldButton(told) : {fold: null, more: null};
    this.fold = fold;
    /** @type {HTMLElement[]} */
    this.cells = columns.map((c) => this.cell(c));
    const kind = line.member ? 'member' : this.isGroup() ? 'group' : null;
    this.node = h('tr', {class: kind, data: {line: line.key}},
        h('td', {class: 'pick'}, h('label', null, this.box)),
        h('td', {class: 'run-name'}, this.fold || this.link(), more, this.state), this.cells);
  }

  isGroup() {
    return this.line.jobs.length > 1;
  }

  name() {
    const {jobs, project} = this.line;
    if (project) {
      return 'the runs of project ' + project;
    }
    return jobs[0].name + (this.isGroup() ? ' and ' + plural(jobs.length - 1, 'other') : '');
  }

  link() {
    const [job] = this.line.jobs;
    return h('a', {class: 'job-link', href: '#/jobs/' + job.id, text: job.name});
  }

  /** @param {Told} told */
  foldButton(told) {
    const click = () => told.open(this.line.key);
    const {jobs, sweep, project} = this.line;
    const [first] = jobs;
    const trial = sweepOf(first) ? first.name.replace(OF_SEED, '') : first.name;
    const name = project || (sweep ? sweepName(first) : trial);
    const fold = h('button',
        {type: 'button', class: 'plain fold', 'aria-expanded': 'false', on: {click}},
        icon('right', 10), h('span', {class: 'strong', text: name}),
        h('span', {class: 'tag', text: plural(jobs.length, sweep || project ? 'run' : 'seed')}));
    return {fold, more: sweep && h('a', {class: 'note', href: '#/sweeps/' + sweep, text: 'sweep'})};
  }

  /** @param {Column} column */
  cell(column) {
    const inside = column.id === CURVE && !this.isGroup()
        ? [this.curve.node, h('span', {class: 'value'})]
        : h('span', {class: 'value'});
    return h('td', {class: column.numeric ? 'num' : null, data: {label: column.title}}, inside);
  }

  /**
   * @param {Line} line
   * @param {(id: string) => boolean} picked
   * @param {boolean} open
   */
  update(line, picked, open) {
    const [job] = line.jobs;
    const all = line.jobs.map(({id}) => picked(id));
    const chosen = all.every(Boolean);
    this.box.checked = chosen;
    this.box.indeterminate = !chosen && all.some(Boolean);
    this.node.classList.toggle('chosen', chosen);
    this.fold?.setAttribute('aria-expanded', String(open));
    if (this.line === line && this.state.hasChildNodes()) {
      return;
    }
    this.line = line;
    const same = line.jobs.every(({state}) => state === job.state);
    if (!this.pill.isConnected && same) {
      this.state.replaceChildren(this.pill);
    }
    this.pill = setPill(this.pill, job.state);
    this.state.hidden = !same;
    this.columns.forEach((column, i) => this.draw(this.cells[i], column));
  }

  /**
   * @param {HTMLElement} cell
   * @param {Column} column
   */
  draw(cell, column) {
    const {jobs} = this.line;
    const text = this.isGroup() ? textOfAll(column, jobs) : textOf(column, jobs[0]);
    const value = cell.querySelector('.value');
    if (value) {
      say(value, text);
    }
    cell.classList.toggle('quiet', text === 'none');
  }

  /** @param {Api.Series | null | undefined} series */
  drawCurve(series) {
    if (series !== this.drawn && series !== undefined) {
      this.drawn = series;
      this.curve.set(series?.x || [], series?.mean || []);
    }
  }
}
