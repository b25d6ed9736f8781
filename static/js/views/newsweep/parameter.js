/* One setting of a sweep: its place in the spec, and the values that are tried. */
import {Input, Select} from '../../draft/fields.js';
import {h} from '../../elements/dom.js';
import {button} from '../../elements/widgets.js';

import {wayOf} from './model.js';

/** @typedef {import('./model.js').NewSweepModel} NewSweepModel */
/** @typedef {import('./model.js').Way} Way */
/** @typedef {import('../../draft/fieldset.js').FieldSet} FieldSet */

/** @type {[Way, string][]} */
const WAYS = [
  ['values', 'these values'], ['log', 'a range, by factors'], ['linear', 'a range, in equal steps'],
  ['int', 'a range of whole numbers']
];

/* A word, or a number; what begins with a brace is JSON. */
/** @param {unknown} value */
function read(value) {
  const text = String(value);
  if (/^[{["]/.test(text)) {
    try {
      return JSON.parse(text);
    } catch (e) { /* the text as it is; the check says what is wrong */
    }
  }
  return value;
}

export class ParameterRow {
  /**
   * @param {FieldSet} form
   * @param {NewSweepModel} data
   * @param {number} i
   */
  constructor(form, data, i) {
    const at = '/parameters/' + i;
    const way = wayOf(data.parameters[i]);
    const change = (/** @type {string} */ pointer, /** @type {unknown} */ value) =>
        data.change(pointer, value);
    const place = form.own(
        new Input(at + '/pointer', 'Setting ' + (i + 1), {list: 'settings', onChange: change}));
    const how = new Select(at + '/scale', 'Try', {
      choices: /** @type {[string, string][]} */ (WAYS),
      onChange: (_, chosen) => data.give(i, /** @type {Way} */ (chosen))
    });
    how.show(way);
    const tried = way === 'values'
        ? new Input(at + '/values', 'Values', {
            kind: 'list',
            help: 'with commas between',
            onChange: (pointer, v) => change(pointer, Array.isArray(v) ? v.map(read) : [])
          })
        : new Input(at + '/range', 'From, to',
              {kind: 'list', onChange: (pointer, v) => change(pointer, v || [])});
    /* Errors of the setting appear at its values. */
    const slot = form.own({
      pointer: at,
      node: tried.node,
      kind: 'parameters',
      fault: (/** @type {string[]} */ messages) => tried.fault(messages),
      show: (/** @type {Partial<Api.SweepParameter>} */ p) => tried.show(p?.values || p?.range)
    });
    const steps = way !== 'values' &&
        form.own(new Input(
            at + '/steps', 'Steps', {kind: 'number', help: 'of a grid', onChange: change}));
    const drop = button('Remove', () => data.drop(i),
        {class: 'btn small', 'aria-label': 'Remove setting ' + (i + 1)});
    this.node =
        h('div', {class: 'fields sweep-setting', role: 'group', 'aria-label': 'Setting ' + (i + 1)},
            place.node, how.node, tried.node, steps && steps.node, drop);
    place.kind = slot.kind;
    if (steps) {
      steps.kind = slot.kind;
    }
  }
}
