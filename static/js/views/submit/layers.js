/* The network, layer by layer: a row each with its parameters, and what the service says of it: the
   shape that it gives, how many parameters it has. A preset is written out before it is edited. */
import {FaultText, parameter} from '../../draft/fields.js';
import {fill, h, say} from '../../elements/dom.js';
import {button} from '../../elements/widgets.js';
import {bytes, known, plural, whole} from '../../text/format.js';

/** @typedef {import('../../draft/fieldset.js').FieldSet} FieldSet */

const KIND = 'layers';
const AT = '/model/layers';
const NEW = {
  type: 'relu'
};

/* The first values of attributes that a layer needs. */
/** @type {{[name: string]: number}} */
const USUAL = {
  units: 10,
  filters: 16,
  kernel: 3,
  size: 2
};

/** @param {number[]} shape */
const shapeText = (shape) => shape.join(' × ');

/**
 * The same list with one place changed.
 * @template T
 * @param {T[]} list
 * @param {number} i
 * @param {T[]} items that take its place
 */
const spliced = (list, i, ...items) => [...list.slice(0, i), ...items, ...list.slice(i + 1)];

export class Layers {
  /**
   * @param {Api.Catalog} catalog
   * @param {FieldSet} form whose fields those of the layers become
   */
  constructor(catalog, form) {
    this.catalog = catalog;
    this.form = form;
    /** @type {Api.Network | null} */
    this.model = null;
    /** The types that are drawn. */
    this.drawn = '';
    /** @type {{shape: HTMLElement, count: HTMLElement}[]} */
    this.told = [];
    this.rows = h('ol', {class: 'layers'});
    this.sum = h('p', {class: 'help', id: 'layers-sum'});
    this.add = button('Add a layer', () => this.change([...this.layers(), NEW]),
        {class: 'btn small', id: 'add-layer'});
    this.write =
        button('Edit its layers', () => this.writeOut(), {class: 'btn small', id: 'edit-layers'});
    this.node = h('div', {class: 'wide layer-part'}, this.rows, this.sum,
        h('div', {class: 'actions'}, this.write, this.add));
  }

  layers() {
    return this.model?.layers || [];
  }

  /** @param {Api.Layer[]} layers */
  change(layers) {
    this.form.onChange(AT, layers);
  }

  preset() {
    return (this.catalog.preset || []).find((p) => p.name === this.name);
  }

  writeOut() {
    const preset = this.preset();
    if (preset) {
      this.form.onChange('/model', preset.model);
    }
  }

  /** @param {Api.Spec} spec */
  show({model, program}) {
    const own = !program && model && typeof model === 'object' && Array.isArray(model.layers);
    this.name = typeof model === 'string' ? model : '';
    this.model = own ? /** @type {Api.Network} */ (model) : null;
    this.node.hidden = Boolean(program);
    this.write.hidden = !this.preset();
    this.add.hidden = !own;
    this.rows.hidden = !own;
    const types = own ? this.layers().map((l) => l.type).join() : '';
    if (types !== this.drawn) {
      this.drawn = types;
      this.form.disown(KIND);
      this.told = [];
      fill(this.rows, this.layers().map((l, i) => this.row(l, i)));
    }
  }

  /* ---- a row --------------------------------------------------------------------------------- */

  /**
   * @param {Api.Layer} layer
   * @param {number} i
   */
  row(layer, i) {
    const n = this.layers().length;
    const label = 'Layer ' + (i + 1);
    const types = (this.catalog.layer || []).map((e) => h('option', {value: e.name, text: e.name}));
    /** @type {HTMLSelectElement} */
    const select =
        h('select', {'aria-label': label, on: {change: () => this.retype(i, select.value)}}, types);
    select.value = layer.type;
    const told = {shape: h('span', {class: 'num'}), count: h('span', {class: 'num quiet'})};
    const small = (/** @type {string} */ text, /** @type {string} */ what,
        /** @type {boolean} */ off, /** @type {() => void} */ act) =>
        button(text, act, {class: 'btn small', 'aria-label': what + ' ' + label, disabled: off});
    const moves =
        h('span', {class: 'actions'}, small('↑', 'Move up:', i === 0, () => this.move(i, i - 1)),
            small('↓', 'Move down:', i === n - 1, () => this.move(i, i + 1)),
            small('×', 'Remove:', n === 1, () => this.change(spliced(this.layers(), i))));
    const fault = new FaultText();
    const fields = this.fields(layer, i);
    const node = h('li', {class: 'layer', data: {pointer: AT + '/' + i}},
        h('span', {class: 'field'}, select),
        h('div', {class: 'layer-fields'}, fields.map((f) => f.node)), told.shape, told.count, moves,
        fault.node);
    this.form.own({
      pointer: AT + '/' + i,
      node,
      kind: KIND,
      fault: (messages, tone) => fault.show(messages, tone),
      show: () => {}
    });
    this.told.push(told);
    return node;
  }

  /**
   * @param {Api.Layer} layer
   * @param {number} i
   */
  fields(layer, i) {
    const entry = (this.catalog.layer || []).find((e) => e.name === layer.type);
    const set = (/** @type {string} */ at, /** @type {any} */ value) => {
      const {[at.slice(at.lastIndexOf('/') + 1)]: ignored, ...rest} = this.layers()[i];
      const key = at.slice(at.lastIndexOf('/') + 1);
      const one = Array.isArray(value) && value.length === 1 ? value[0] : value;
      const changed = value === undefined ? rest : {...rest, [key]: one};
      this.change(spliced(this.layers(), i, /** @type {Api.Layer} */ (changed)));
    };
    return (entry?.parameters || []).map((p) => {
      const field = parameter(AT + '/' + i + '/' + p.name, p, set);
      field.kind = KIND;
      field.show(layer[p.name]);
      return this.form.own(field);
    });
  }

  /**
   * @param {number} i
   * @param {string} type
   */
  retype(i, type) {
    const entry = (this.catalog.layer || []).find((e) => e.name === type);
    const needed = (entry?.parameters || []).filter((p) => p.required).map((p) => p.name);
    const values = Object.fromEntries(needed.map((name) => [name, USUAL[name] ?? 1]));
    this.change(spliced(this.layers(), i, {type, ...values}));
  }

  /**
   * @param {number} from
   * @param {number} to
   */
  move(from, to) {
    const moved = this.layers()[from];
    const rest = spliced(this.layers(), from);
    this.change([...rest.slice(0, to), moved, ...rest.slice(to)]);
  }

  /* ---- what the service says ----------------------------------------------------------------- */

  /** @param {Api.DryRun} answer */
  outline({layers = [], parameters, activation_bytes: activations = NaN, spec}) {
    this.node.classList.remove('old');
    this.told.forEach(({shape, count}, i) => {
      const l = layers[i];
      say(shape, l ? shapeText(l.shape) : '');
      say(count, l && l.parameters > 0 ? plural(l.parameters, 'parameter') : '');
    });
    const batch = spec?.batching?.global_batch;
    const all = known(batch) && known(activations)
        ? ', ' + bytes(batch * activations) + ' for ' + whole(batch) + ' samples'
        : '';
    say(this.sum,
        this.model && known(activations) && known(parameters)
            ? plural(parameters, 'parameter') + ' (' + bytes(4 * parameters) +
                '); activations take ' + bytes(activations) + ' a sample' + all + '.'
            : '');
  }

  /* The text is not valid: the shapes are those of an earlier version. */
  outdate() {
    this.node.classList.add('old');
  }
}
