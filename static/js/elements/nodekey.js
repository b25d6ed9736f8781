/* The colour and shape of a node on a page. Up to eight nodes have one by their rank. With more
 * nodes all are grey, and up to eight are picked. */
import {h} from './dom.js';
import {shape, SHAPES} from './icons.js';

export class NodeKey {
  /**
   * @param {string[]} [names]
   * @param {string[] | null} [picked]
   */
  constructor(names = [], picked = null) {
    /** @type {string[]} */
    this.names = [];
    this.many = false;
    /** @type {Map<string, number>} */
    this.index = new Map();
    this.set(names, picked);
  }

  /**
   * @param {string[]} names
   * @param {string[] | null} [picked]
   */
  set(names, picked = null) {
    this.names = names;
    const coloured = names.length <= 8 ? names : picked || [];
    this.many = names.length > 8;
    this.index = new Map(names.map((name) => [name, coloured.indexOf(name)]));
  }

  /** @param {string} name */
  number(name) {
    const i = this.index.get(name);
    return i === undefined || i < 0 ? 0 : i + 1;
  }

  /** @param {string} name */
  colour(name) {
    return 'var(--n' + this.number(name) + ')';
  }

  /** @param {string} name */
  shapeName(name) {
    const n = this.number(name);
    return n ? SHAPES[n - 1] : 'dot';
  }

  /**
   * @param {string} name
   * @param {number} [size]
   */
  mark(name, size = 10) {
    const icon = shape(this.shapeName(name), size);
    icon.style.color = this.colour(name);
    return icon;
  }

  /**
   * Shape and name, always together.
   * @param {string} name
   */
  label(name) {
    return h('span', {class: 'name', title: name}, this.mark(name),
        h('span', {class: 'txt'}, h('bdi', {text: name})));
  }
}
