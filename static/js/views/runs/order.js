/* The tools of the table: choosing columns, folding seeds or sweeps, comparing runs; on a phone,
   which has no heads to click, the order too. */
import {h, refill, say} from '../../elements/dom.js';
import {icon} from '../../elements/icons.js';
import {button, choose, control, copyButton, Segment} from '../../elements/widgets.js';
import {plural} from '../../text/format.js';
import {MOST} from '../compare/model.js';

import {pickColumns} from './columnpicker.js';
import {columnsOf} from './columns.js';

/** @typedef {import('./view.js').RunsView} RunsView */

/** @type {[import('./choice.js').Fold, string][]} */
const FOLDS =
    [['', 'Each run'], ['seeds', 'Seeds'], ['sweeps', 'Sweeps'], ['projects', 'Projects']];

export class Order {
  /** @param {RunsView} view */
  constructor(view) {
    this.view = view;
    const {data} = view;
    const all = () => columnsOf([...data.jobs.values()]);
    const columns = button('Columns',
        () => pickColumns(all(), data.choice.columns, (chosen) => view.change({columns: chosen})),
        {class: 'btn small', id: 'run-columns'});
    const refold = (/** @type {import('./choice.js').Fold} */ fold) => view.change({fold});
    const fold = new Segment('Fold', FOLDS, data.choice.fold, refold);
    const link = copyButton('Copy link', () => location.href, {class: 'btn small'}, 1500);
    /** @type {HTMLSelectElement} */
    this.sort = choose('Order', [], () => view.change({sort: this.down() + this.sort.value}));
    this.turn = h('button', {
      type: 'button',
      class: 'btn ghost icon small',
      'aria-label': 'The other way round',
      on: {click: () => view.change({sort: (this.down() ? '' : '-') + this.sort.value})}
    });
    this.chosen = h('span', {class: 'quiet', role: 'status'});
    this.none = button('None', () => view.change({picked: []}), {class: 'btn small ghost'});
    this.compare = h('a', {class: 'btn small', id: 'compare-runs', text: 'Compare'});
    this.node = h('div', {class: 'run-order'}, columns, control('Fold', fold.node), link,
        h('span', {class: 'phone-only control'}, h('span', {text: 'Order'}), this.sort, this.turn),
        h('span', {class: 'end-tools'}, this.chosen, this.none, this.compare));
  }

  down() {
    return this.view.data.choice.sort.startsWith('-') ? '-' : '';
  }

  update() {
    const {columns, data} = this.view;
    const {picked, sort} = data.choice;
    const few = picked.length < 2;
    const many = picked.length > MOST;
    say(this.chosen,
        picked.length === 0 ? 'Choose two or more runs to compare them.'
            : many ? plural(picked.length, 'run') + ' chosen; up to ' + MOST + ' can be compared.'
                   : plural(picked.length, 'run') + ' chosen');
    this.none.hidden = picked.length === 0;
    this.compare.hidden = few || many;
    this.compare.href = '#/compare?runs=' + picked.join(',');
    say(this.compare, 'Compare ' + plural(picked.length, 'run'));
    this.sort.replaceChildren(h('option', {value: 'name', text: 'Run'}),
        ...columns.map((c) => h('option', {value: c.id, text: c.title})));
    this.sort.value = sort.replace(/^-/, '');
    refill(this.turn, this.down(), () => icon(this.down() ? 'fall' : 'up', 12));
  }
}
