/* The filters of the table: a name, a state, and conditions on columns, each a chip with a button
   that removes it. */
import {h, keyed, throttle} from '../../elements/dom.js';
import {icon} from '../../elements/icons.js';
import {button, choose} from '../../elements/widgets.js';

import {ConditionForm} from './conditionform.js';
import {printCondition, sayCondition} from './conditions.js';

/** @typedef {import('./conditions.js').Condition} Condition */
/** @typedef {import('./view.js').RunsView} RunsView */

const SEARCH_MS = 250;
/** @type {[string, string][]} */
const STATES = [
  ['', 'any state'], ['running,launching,pausing,cancelling', 'running'], ['queued', 'queued'],
  ['paused', 'paused'], ['succeeded', 'succeeded'], ['failed', 'failed'], ['cancelled', 'cancelled']
];

export class Filters {
  /** @param {RunsView} view */
  constructor(view) {
    this.view = view;
    const {choice} = view.data;
    /** @type {HTMLInputElement} */
    this.find = h('input', {
      type: 'search',
      id: 'find',
      placeholder: 'Find runs',
      'aria-label': 'Find runs by name or id',
      value: choice.q,
      on: {input: throttle(() => view.change({q: this.find.value.trim()}), SEARCH_MS)}
    });
    /** @type {HTMLSelectElement} */
    this.state = choose('State', STATES, () => view.change({state: this.state.value}));
    this.state.value = choice.state;
    this.chips = h('span', {class: 'chips'});
    this.add = button('Filter', () => this.open(), {class: 'btn small'});
    this.form = new ConditionForm(view, () => this.shut());
    this.node = h('div', {class: 'run-filters'}, h('div', {class: 'finder'}, this.find), this.state,
        this.chips, this.add, this.form.node);
  }

  open() {
    this.show(true);
    this.form.open();
  }

  shut() {
    this.show(false);
    this.add.focus();
  }

  /** @param {boolean} on */
  show(on) {
    this.form.node.hidden = !on;
    this.add.hidden = on;
  }

  update() {
    const {where} = this.view.data.choice;
    keyed(this.chips, where, printCondition, (condition) => this.chip(condition));
  }

  /** @param {Condition} condition */
  chip(condition) {
    const text = sayCondition(condition);
    const click = () => this.view.change({
      where: this.view.data.choice.where.filter(
          (other) => printCondition(other) !== printCondition(condition))
    });
    return h('button',
        {type: 'button', class: 'chip', 'aria-label': 'Take away: ' + text, on: {click}}, text,
        icon('cross', 10));
  }
}
