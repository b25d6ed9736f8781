/* The dialog in which the columns are chosen: what a run is, its settings, its figures. Chosen
   columns keep their order; new ones are appended. */
import {h} from '../../elements/dom.js';

/** @typedef {import('./columns.js').Column} Column */

/** @type {[Column['kind'], string][]} */
const KINDS = [['job', 'The run'], ['figure', 'Figures'], ['setting', 'Settings']];

/** @param {Column} column */
const told = (column) =>
    h('span', {class: 'quiet mono', text: column.kind === 'job' ? '' : column.id});

/**
 * @param {Column[]} all
 * @param {string[]} chosen names of columns
 * @param {(chosen: string[]) => void} choose
 */
export function pickColumns(all, chosen, choose) {
  const boxes = all.map(
      (column) =>
          ({column, box: h('input', {type: 'checkbox', checked: chosen.includes(column.id)})}));
  const group = (/** @type {Column['kind']} */ kind, /** @type {string} */ title) =>
      h('fieldset', null, h('legend', {class: 'strong', text: title}),
          boxes.filter(({column}) => column.kind === kind).map(({column,
            box}) => h('label', null, box, h('span', {text: column.title}), told(column))));
  const close = () => {
    if (dialog.returnValue === 'ok') {
      const on = boxes.filter(({box}) => box.checked).map(({column}) => column.id);
      choose([...new Set([...chosen.filter((id) => on.includes(id)), ...on])]);
    }
    dialog.remove();
  };
  const dialog = h('dialog', {'aria-labelledby': 'columns-title', on: {close}},
      h('h2', {id: 'columns-title', class: 'strong', text: 'Columns'}),
      h('form', {method: 'dialog'},
          h('div', {class: 'picker', tabindex: '0', role: 'region', 'aria-label': 'Columns'},
              KINDS.map(([kind, title]) => group(kind, title))),
          h('div', {class: 'actions end'}, h('button', {class: 'btn', value: 'no', text: 'Cancel'}),
              h('button', {class: 'btn primary', value: 'ok', text: 'Show'}))));
  document.body.append(dialog);
  dialog.showModal();
}
