/* The form that adds a condition: a column, a comparison, and a value out of those that runs have.
 */
import {h} from '../../elements/dom.js';
import {button, choose} from '../../elements/widgets.js';

import {columnsOf, textOf} from './columns.js';
import {COMPARISONS, faultOf} from './conditions.js';

/** @typedef {import('./view.js').RunsView} RunsView */

const MOST_VALUES = 40;
const FIRST = 'strategy/type';

export class ConditionForm {
  /**
   * @param {RunsView} view
   * @param {() => void} shut
   */
  constructor(view, shut) {
    this.view = view;
    this.shut = shut;
    this.column = choose('Column', [], () => this.offer());
    this.how = choose('Comparison', COMPARISONS, () => this.value.setCustomValidity(''));
    /** @type {HTMLInputElement} */
    this.value = h('input', {
      type: 'text',
      class: 'small',
      'aria-label': 'Value',
      list: 'run-values',
      autocomplete: 'off',
      on: {input: () => this.value.setCustomValidity('')}
    });
    this.values = h('datalist', {id: 'run-values'});
    const submit = (/** @type {Event} */ e) => {
      e.preventDefault();
      this.accept();
    };
    const keydown = (/** @type {KeyboardEvent} */ e) => e.key === 'Escape' && shut();
    this.node =
        h('form', {class: 'run-condition', hidden: true, on: {submit, keydown}}, this.column,
            this.how, this.value, this.values, h('button', {class: 'btn small', text: 'Add'}),
            button('Cancel', shut, {class: 'btn small ghost'}));
  }

  jobs() {
    return [...this.view.data.jobs.values()];
  }

  open() {
    this.column.replaceChildren(...columnsOf(
        this.jobs()).map((c) => h('option', {value: c.id, text: c.title + ' · ' + c.id})));
    this.column.value = FIRST;
    this.offer();
    this.column.focus();
  }

  /* The values that runs have in the column. */
  offer() {
    const jobs = this.jobs();
    const column = columnsOf(jobs).find((c) => c.id === this.column.value);
    const texts = new Set(
        jobs.flatMap((job) => (column ? column.parts?.(job) || [textOf(column, job)] : [])));
    this.values.replaceChildren(
        ...[...texts].sort().slice(0, MOST_VALUES).map((value) => h('option', {value})));
    this.how.value = column?.kind === 'figure' ? '>=' : '=';
    this.value.value = '';
  }

  accept() {
    const {where} = this.view.data.choice;
    const made = {id: this.column.value, how: this.how.value, value: this.value.value.trim()};
    this.value.setCustomValidity(faultOf(made));
    if (!this.value.reportValidity()) {
      return;
    }
    this.view.change({where: [...where, made]});
    this.shut();
  }
}
