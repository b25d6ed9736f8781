/* The fields for the parameters of the chosen catalogue entry; another choice replaces them. */
import {parameter} from '../../draft/fields.js';
import {fill, h} from '../../elements/dom.js';

/** @typedef {import('./form.js').Form} Form */

export class Parameters {
  /**
   * @param {Form} form which owns the fields
   * @param {'format' | 'strategy' | 'optimizer' | 'schedule'} kind
   * @param {string} base the pointer of the entry
   * @param {string[]} [skip] parameters that have a field elsewhere
   */
  constructor(form, kind, base, skip = []) {
    this.form = form;
    this.kind = kind;
    this.base = base;
    this.skip = skip;
    this.node = h('div', {class: 'params'});
    /** @type {string | null} */
    this.shown = null;
  }

  /** @param {string} name of the entry */
  show(name) {
    if (name === this.shown) {
      return;
    }
    this.shown = name;
    this.form.disown(this.kind);
    const {catalog, onChange} = this.form;
    const entry = (catalog[this.kind] || []).find((e) => e.name === name);
    const wanted = (entry?.parameters || []).filter((p) => !this.skip.includes(p.name));
    const fields = wanted.map((p) => {
      const field = this.form.own(parameter(this.base + '/' + p.name, p, onChange));
      field.kind = this.kind;
      return field;
    });
    fill(this.node, fields.map((f) => f.node));
  }
}
