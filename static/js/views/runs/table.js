/* The table itself: a head that sorts, and a row for each line. On a phone a row is a block of
   names and values. */
import {h, keyed} from '../../elements/dom.js';
import {icon} from '../../elements/icons.js';
import {scroller} from '../../elements/widgets.js';

import {nextSort} from './choice.js';
import {CURVE} from './columns.js';
import {Row} from './row.js';

/** @typedef {import('./columns.js').Column} Column */
/** @typedef {import('./lines.js').Line} Line */
/** @typedef {import('./view.js').RunsView} RunsView */

export class RunTable {
  /** @param {RunsView} view */
  constructor(view) {
    this.view = view;
    this.heads = h('tr');
    this.body = h('tbody');
    /** @type {HTMLInputElement} */
    this.all = h('input', {
      type: 'checkbox',
      'aria-label': 'Choose all runs that are shown',
      on: {change: () => view.pick(this.shown(), this.all.checked)}
    });
    /** @type {Line[]} */
    this.lines = [];
    /** @type {Map<Element, Row>} */
    this.rows = new Map();
    /** @type {Set<string>} */
    this.seen = new Set();
    this.watch = new IntersectionObserver((entries) => this.look(entries), {rootMargin: '100px'});
    const table = h('table', {class: 'run-table'}, h('caption', {class: 'sr', text: 'Runs'}),
        h('thead', null, this.heads), this.body);
    this.node = scroller('Runs, table', table);
  }

  /* Ids of all runs in the table. */
  shown() {
    return [...new Set(this.lines.flatMap((line) => line.jobs.map((job) => job.id)))];
  }

  /** @param {IntersectionObserverEntry[]} entries */
  look(entries) {
    for (const {target, isIntersecting} of entries) {
      const line = this.rows.get(target)?.line;
      if (line?.jobs.length === 1) {
        this.seen[isIntersecting ? 'add' : 'delete'](line.jobs[0].id);
      }
    }
    if (this.view.columns.some((c) => c.id === CURVE)) {
      this.view.data.look(this.seen);
    }
  }

  /**
   * @param {string} id
   * @param {string} title
   * @param {boolean} numeric
   */
  head(id, title, numeric) {
    const {choice} = this.view.data;
    const order = choice.sort === id ? 'ascending' : choice.sort === '-' + id ? 'descending' : null;
    const click = () => this.view.change({sort: nextSort(choice.sort, id, numeric)});
    const mark = order && icon(order === 'ascending' ? 'up' : 'fall', 10);
    return h('th', {class: numeric ? 'num' : null, scope: 'col', 'aria-sort': order},
        h('button', {type: 'button', class: 'plain sort', data: {sort: id}, on: {click}}, title,
            mark));
  }

  drawHeads() {
    const {columns, data} = this.view;
    const key = columns.map((c) => c.id).join() + data.choice.sort;
    if (this.heads.dataset.key !== key) {
      const at = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.sort;
      this.heads.dataset.key = key;
      this.heads.replaceChildren(h('th', {class: 'pick', scope: 'col'}, h('label', null, this.all)),
          this.head('name', 'Run', false),
          ...columns.map((c) => this.head(c.id, c.title, c.numeric)));
      this.focusHead(at);
    }
  }

  /** @param {string | undefined} id */
  focusHead(id) {
    for (const button of id ? this.heads.querySelectorAll('button') : []) {
      if (button.dataset.sort === id) {
        button.focus();
      }
    }
  }

  /**
   * @param {Line[]} lines
   * @param {Set<string>} open keys of groups
   */
  update(lines, open) {
    const {columns, data} = this.view;
    const picked = new Set(data.choice.picked);
    const isPicked = (/** @type {string} */ id) => picked.has(id);
    this.lines = lines;
    this.drawHeads();
    const shown = this.shown();
    this.all.checked = shown.length > 0 && shown.every(isPicked);
    this.all.disabled = shown.length === 0;
    const names = columns.map((c) => c.id).join();
    keyed(this.body, lines, (l) => l.key + (l.member ? ' member ' : ' ') + names,
        (l) => this.make(l), (row, l) => {
          row.update(l, isPicked, open.has(l.key));
          row.drawCurve(data.curves.get(l.jobs[0].id));
        });
    this.forget();
  }

  /** @param {Line} line */
  make(line) {
    const row = new Row(line, this.view.columns, this.view);
    this.rows.set(row.node, row);
    this.watch.observe(row.node);
    return row;
  }

  /* Rows that are no longer in the table. */
  forget() {
    for (const [node, row] of this.rows) {
      if (!node.isConnected) {
        this.watch.unobserve(node);
        this.rows.delete(node);
        this.seen.delete(row.line.jobs[0].id);
      }
    }
  }

  close() {
    this.watch.disconnect();
  }
}
