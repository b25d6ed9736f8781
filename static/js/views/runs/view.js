/* All runs as a table: any setting and any figure as a column, sorted, filtered, two or more chosen
   to be compared. The address keeps the choice, so that a link shows another person the same. */
import {fill, h, say, throttle} from '../../elements/dom.js';
import {button} from '../../elements/widgets.js';
import {unfolded} from '../../measures/fold.js';
import {plural, whole} from '../../text/format.js';

import {addressOf, parseChoice, SORT} from './choice.js';
import {columnOf} from './columns.js';
import {Filters} from './filters.js';
import {linesOf} from './lines.js';
import {RunsModel} from './model.js';
import {Order} from './order.js';
import {RunTable} from './table.js';

/** @typedef {import('./choice.js').Choice} Choice */
/** @typedef {import('./lines.js').Line} Line */

const DRAW_MS = 250;

export class RunsView {
  /**
   * @param {Element} root
   * @param {Page.Route} route
   * @param {RunsModel} data
   */
  constructor(root, route, data) {
    this.route = route;
    this.data = data;
    this.columns = data.choice.columns.map(columnOf);
    /** Keys of the groups whose members are shown. */
    /** @type {Set<string>} */
    this.opened = new Set();
    /** The lines in the order of the last sorting: nothing moves while one reads. */
    /** @type {Line[]} */
    this.lines = [];
    this.sorted = '';
    this.parts = {filters: new Filters(this), order: new Order(this), table: new RunTable(this)};
    this.count = h('span', {class: 'note', id: 'run-count'});
    this.none = h('p', {class: 'quiet', hidden: true});
    this.more = button('Read more runs', () => data.readMore(), {hidden: true});
    this.drawSoon = throttle(() => this.draw(), DRAW_MS);
    data.addEventListener('change', this.drawSoon);
    this.layout(root);
  }

  /** @param {Element} root */
  layout(root) {
    const {filters, order, table} = this.parts;
    fill(root, h('p', {class: 'crumbs'}, h('a', {href: '#/', text: 'Jobs'}), ' /'),
        h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: 'Runs'}), this.count)),
        h('div', {class: 'sheet runs-sheet'}, h('div', {class: 'tight'}, filters.node, order.node),
            h('div', {class: 'table-row'}, table.node, this.none, this.more)));
  }

  /**
   * Changes the choice, which goes into the address.
   * @param {Partial<Choice>} changes
   */
  change(changes) {
    const {data} = this;
    data.choice = {...data.choice, ...changes};
    this.columns = data.choice.columns.map(columnOf);
    history.replaceState(null, '', addressOf(data.choice));
    if ('q' in changes || 'state' in changes) {
      data.load().catch(() => {});
    } else if ('sort' in changes) {
      data.sortAnew().catch(() => {});
    }
    this.sorted = '';
    this.draw();
  }

  /**
   * @param {string[]} ids
   * @param {boolean} on
   */
  pick(ids, on) {
    const others = this.data.choice.picked.filter((id) => !ids.includes(id));
    this.change({picked: on ? [...others, ...ids] : others});
  }

  /** @param {string} key of a group */
  open(key) {
    this.opened[this.opened.has(key) ? 'delete' : 'add'](key);
    this.draw();
  }

  /* Lines are sorted anew where the choice or the set of runs changed; else they keep their order
     and take the newest figures. */
  sort() {
    const {jobs, choice} = this.data;
    const ids = [...jobs.keys()].join();
    if (this.sorted !== ids) {
      this.sorted = ids;
      this.lines = linesOf([...jobs.values()], choice);
      return;
    }
    this.lines = this.lines.map((line) => {
      const now = line.jobs.map((job) => jobs.get(job.id) || job);
      return now.some((job, i) => job !== line.jobs[i]) ? {...line, jobs: now} : line;
    });
  }

  draw() {
    if (!this.route.alive()) {
      return;
    }
    const {data, parts} = this;
    this.sort();
    parts.filters.update();
    parts.order.update();
    parts.table.update(unfolded(this.lines, this.opened), this.opened);
    const shown = this.lines.reduce((n, line) => n + line.jobs.length, 0);
    const read = data.jobs.size;
    const which = data.ordered && data.choice.sort !== SORT ? 'the first ' : 'the newest ';
    say(this.count,
        (shown < read ? whole(shown) + ' of ' : '') + (data.next ? which : '') +
            plural(read, 'run'));
    this.none.hidden = shown > 0;
    const none = data.next ? 'None of ' + which + plural(read, 'run') + ' meets all of this.'
                           : 'No run meets all of this.';
    say(this.none, read ? none : 'There is no run yet.');
    this.more.hidden = !data.next;
  }

  close() {
    this.data.close();
    this.drawSoon.cancel();
    this.parts.table.close();
  }
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 * @returns {Promise<Page.View>}
 */
export async function show(root, route) {
  document.title = 'Runs · Evenstep';
  const data = new RunsModel(parseChoice(route.params));
  await data.load();
  if (!route.alive()) {
    data.close();
    return {};
  }
  const view = new RunsView(root, route, data);
  data.start();
  view.draw();
  return view;
}
