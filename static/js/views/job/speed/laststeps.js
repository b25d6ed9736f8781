/* The last steps: a lane per node, drawn to time, and the server's versions beneath (lanes.js). A
   chosen step gets a bracket around the updates that overtook it, so that staleness is counted, not
   explained. While a step is chosen the lanes stand still. */
import {fill, h, say} from '../../../elements/dom.js';
import {Few} from '../../../elements/few.js';
import {active, noneYet} from '../../../elements/states.js';
import {numeric, scroller, table, tableButton} from '../../../elements/widgets.js';
import {get, job as path} from '../../../service/api.js';
import {hasServers} from '../../../spec/spec.js';
import {known, loss, plural, seconds, whole} from '../../../text/format.js';

import {Lanes} from './lanes.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {{node: string, step: number, local: number | undefined}} Picked */

const POLL_MS = 1000;
const LAST = 60;
const KEYS = ['ArrowLeft', 'ArrowRight', 'Escape', 't', 'T'];
const NUMBERS = 'numbers are minibatch and computing time';

/**
 * @param {Api.Row} row
 * @param {string} node
 * @param {boolean} served
 */
function captionOf(row, node, served) {
  const head = 'Step ' + whole(row.step) + ' of ' + node + ': ';
  if (served) {
    return head + 'computed on version ' + whole(row.step - 1 - row.staleness) +
        ', applied after ' + plural(row.staleness, 'other') + ': staleness ' + row.staleness + '.';
  }
  return head + row.batch + ' samples, ' +
      (known(row.load_seconds) ? seconds(row.load_seconds) + ' loading data, ' : '') +
      seconds(row.compute_seconds) + ' computing, ' + seconds(row.exchange_seconds) +
      ' exchange, ' + seconds(row.wait_seconds) + ' waiting.';
}

/** @implements {Page.Part} */
export class LastSteps {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.data = view.data;
    /** @type {Api.NodeRows[]} */
    this.nodes = [];
    /** Whether the steps have been read; before that, an empty list means nothing. */
    this.known = false;
    /** The nodes that have a lane. */
    /** @type {Api.NodeRows[]} */
    this.laned = [];
    this.few = new Few(() => this.draw());
    /** @type {Picked | null} */
    this.picked = null;
    this.timer = 0;
    this.seen = false;
    this.closed = false;
    this.sub = h('span', {class: 'note', text: 'one lane per node; ' + NUMBERS});
    this.table = scroller('Numbers of the last steps', null, 'chart-table');
    this.table.hidden = true;
    this.tool = tableButton(this.table, () => this.drawTable());
    this.stage = h('div', {
      class: 'lanes',
      tabindex: '0',
      role: 'group',
      'aria-label': 'The last steps. Left and right arrow keys choose a step.',
      on: {keydown: (e) => this.onKey(e)}
    });
    this.lanes = new Lanes(view, (node, row) => this.pick(node, row));
    this.caption = h('p', {class: 'lanes-caption', 'aria-live': 'polite'});
    this.empty = h('p', {class: 'quiet'});
    this.node = h('section', {'aria-label': 'Last steps'},
        h('div', {class: 'row-title'}, h('h2', {text: 'Last steps'}), this.sub,
            h('span', {class: 'tools'}, this.tool)),
        this.empty, this.stage, this.caption, this.few.node, this.table);
    this.watch();
  }

  /* Steps are read while they can be seen, and drawn again where their place changes. */
  watch() {
    this.watcher = new IntersectionObserver((entries) => {
      this.seen = entries.some((e) => e.isIntersecting);
      if (this.seen) {
        this.read();
      }
    });
    this.watcher.observe(this.node);
    this.resize = new ResizeObserver(() => this.draw());
    this.resize.observe(this.stage);
  }

  close() {
    this.closed = true;
    clearTimeout(this.timer);
    this.watcher?.disconnect();
    this.resize?.disconnect();
  }

  /** @param {Set<string>} what */
  update(what) {
    if (what.has('job') || what.has('all')) {
      this.read();
    }
  }

  async read() {
    clearTimeout(this.timer);
    if (this.closed) {
      return;
    }
    if (this.seen && !document.hidden && !this.picked) {
      await this.readRows().catch(() => {}); /* the banner tells of the error; the drawing stays */
    }
    if (active(this.data.job.state) && !this.closed) {
      clearTimeout(this.timer);
      this.timer = window.setTimeout(() => this.read(), POLL_MS);
    }
  }

  complete() {
    return this.readRows();
  }

  async readRows() {
    const answer = await get(path(this.data.id, 'steps'), {last: LAST});
    if (!this.picked) {
      /** @type {Api.NodeRows[]} */
      const nodes = answer.nodes || [];
      this.nodes = nodes.filter((n) => n.rows && n.rows.length);
      this.known = true;
      this.draw();
    }
  }

  /** @param {Picked | null} picked */
  rowOf(picked) {
    const node = picked && this.nodes.find((n) => n.node === picked.node);
    return node?.rows.find((r) => r.step === picked?.step && r.local_step === picked?.local);
  }

  draw() {
    const any = this.nodes.length > 0;
    say(this.empty,
        any || !this.known ? ''
                           : noneYet(this.data.job.state,
                                 'The last steps are drawn here as soon as some have ended.'));
    this.stage.hidden = !any;
    const width = this.stage.clientWidth;
    if (!any || width < 100) {
      return;
    }
    const {chosen, key} = this.view;
    this.laned = this.few.of(
        this.lanes.inOrder(this.nodes), (n) => n.node === chosen || key.number(n.node) > 0);
    const shown =
        this.lanes.draw(this.nodes, this.laned, width, this.picked, this.rowOf(this.picked));
    fill(this.stage, shown.nodes);
    say(this.sub,
        seconds(shown.seconds) + ', one lane per node; ' +
            (this.picked ? 'held while a step is chosen, Esc goes on' : NUMBERS));
    this.drawCaption();
    if (!this.table.hidden) {
      this.drawTable();
    }
  }

  drawCaption() {
    const row = this.rowOf(this.picked);
    say(this.caption,
        row && this.picked ? captionOf(row, this.picked.node, hasServers(this.data.job))
                           : 'Choose a step to see what overtook it.');
  }

  /**
   * @param {string} node
   * @param {Api.Row} row
   */
  pick(node, row) {
    const again = this.picked?.node === node && this.picked?.step === row.step;
    this.picked = again ? null : {node, step: row.step, local: row.local_step};
    this.draw();
  }

  /**
   * All rows of nodes, in the order of time.
   * @param {Api.NodeRows[]} nodes
   */
  allRows(nodes) {
    return nodes.flatMap((n) => n.rows.map((row) => ({node: n.node, row})))
        .sort((p, q) => p.row.time - q.row.time);
  }

  /** @param {KeyboardEvent} e */
  onKey(e) {
    if (!this.nodes.length || !KEYS.includes(e.key)) {
      return;
    }
    e.preventDefault();
    if (e.key === 'Escape') {
      this.picked = null;
    } else if (e.key === 't' || e.key === 'T') {
      this.tool.click();
    } else {
      this.pickNext(e.key === 'ArrowLeft' ? -1 : 1);
    }
    this.draw();
  }

  /** @param {number} by */
  pickNext(by) {
    const all = this.allRows(this.laned);
    const {picked} = this;
    const at = picked ? all.findIndex((p) => p.node === picked.node && p.row.step === picked.step)
                      : all.length;
    const {node, row} = all[Math.max(0, Math.min(all.length - 1, at + by))];
    this.picked = {node, step: row.step, local: row.local_step};
  }

  drawTable() {
    const rows = this.allRows(this.nodes).reverse().slice(0, LAST).map(({node, row: r}) => {
      const cells = [
        whole(r.step), whole(r.batch), loss(r.loss), seconds(r.load_seconds ?? NaN),
        seconds(r.compute_seconds), seconds(r.exchange_seconds), seconds(r.wait_seconds),
        whole(r.staleness)
      ];
      return h('tr', null, h('td', null, this.view.key.label(node)),
          cells.map((text) => h('td', {class: 'num', text})));
    });
    const heads =
        numeric('Step', 'Minibatch', 'Loss', 'Load', 'Compute', 'Exchange', 'Wait', 'Staleness');
    fill(this.table,
        table('The last steps, newest first', ['Node', ...heads], h('tbody', null, rows), 'dense'));
  }
}
