/* The fields of a form, each at its JSON pointer, and errors and warnings at their fields. */
import {h} from '../elements/dom.js';
import {sentence} from '../text/format.js';

import {Input} from './fields.js';

/** @typedef {import('./fields.js').OnChange} OnChange */
/** @typedef {import('./fields.js').InputOptions} InputOptions */
/** @typedef {import('./fields.js').Tone} Tone */
/**
 * @typedef {{pointer: string, node: HTMLElement, kind: string,
 *            fault(messages: string[], tone?: Tone): void,
 *            show(value: any, spec: Api.Spec): void}} AnyField
 */

export class FieldSet {
  /** @param {OnChange} onChange */
  constructor(onChange) {
    this.onChange = onChange;
    /** @type {Map<string, AnyField>} */
    this.fields = new Map();
  }

  /**
   * @template {AnyField} F
   * @param {F} field
   * @returns {F}
   */
  own(field) {
    this.fields.set(field.pointer, field);
    return field;
  }

  /** @param {string} kind of parameters */
  disown(kind) {
    for (const [pointer, field] of this.fields) {
      if (field.kind === kind) {
        this.fields.delete(pointer);
      }
    }
  }

  /**
   * @param {string} pointer
   * @param {string} label
   * @param {Partial<InputOptions>} options
   */
  input(pointer, label, options) {
    return this.own(new Input(pointer, label, {onChange: this.onChange, ...options}));
  }

  /**
   * The visible field that an error belongs to: the one with the longest pointer.
   * @param {Api.Fault} e
   */
  fieldOf(e) {
    return [...this.fields.values()]
        .filter((f) => !f.node.hidden && (e.pointer + '/').startsWith(f.pointer + '/'))
        .sort((a, b) => b.pointer.length - a.pointer.length)
        .at(0);
  }

  /**
   * Shows each error or warning at its field, in place of earlier ones. Returns those that belong
   * to no field.
   * @param {Api.Fault[]} errors
   * @param {Tone} [tone]
   */
  faults(errors, tone = 'bad') {
    /** @type {Map<AnyField, string[]>} */
    const at = new Map();
    const homeless = [];
    for (const e of errors) {
      const field = this.fieldOf(e);
      if (field) {
        at.set(field, [...(at.get(field) || []), sentence(e.message)]);
      } else {
        homeless.push(e);
      }
    }
    for (const f of this.fields.values()) {
      f.fault(at.get(f) || [], tone);
    }
    return homeless;
  }
}

/**
 * @param {string} title
 * @param {{node: Element}[]} fields
 */
export function part(title, fields) {
  return h('section', {class: 'form-part'}, h('h2', {text: title}),
      h('div', {class: 'fields'}, fields.map((f) => f.node)));
}
