/* Which nodes the job may use: a chip for each; none chosen means any. */
import {FaultText} from '../../draft/fields.js';
import {fill, h, keyed} from '../../elements/dom.js';
import {Few} from '../../elements/few.js';
import {icon} from '../../elements/icons.js';
import {nodeState} from '../../elements/states.js';

/** @typedef {import('../../draft/fields.js').OnChange} OnChange */

export class NodeChips {
  /**
   * @param {Api.Node[]} nodes
   * @param {OnChange} onChange
   */
  constructor(nodes, onChange) {
    this.nodes = nodes;
    this.onChange = onChange;
    this.pointer = '/nodes';
    this.kind = '';
    /** @type {Set<string>} */
    this.chosen = new Set();
    /** @type {number | undefined} */
    this.workers = undefined;
    this.chips = h('div', {class: 'chips', role: 'group', 'aria-label': 'Nodes'});
    /** @type {Api.Spec} */
    this.spec = {};
    this.few = new Few(() => this.show([...this.chosen], this.spec));
    this.help = h('p', {class: 'help'});
    this.errors = new FaultText();
    this.node = h('div', {class: 'field wide', data: {pointer: this.pointer}},
        h('p', {class: 'label', text: 'Which nodes'}), this.chips, this.few.node, this.help,
        this.errors.node);
  }

  /**
   * @param {string[]} messages
   * @param {import('../../draft/fields.js').Tone} [tone]
   */
  fault(messages, tone) {
    this.errors.show(messages, tone);
  }

  /**
   * @param {unknown} value
   * @param {Api.Spec} spec
   */
  show(value, spec) {
    this.chosen = new Set(Array.isArray(value) ? value : []);
    this.spec = spec;
    this.workers = spec.workers;
    const shown = this.few.of(this.nodes, (n) => this.chosen.has(n.name));
    keyed(this.chips, shown, (n) => n.name, (n) => this.chip(n), (chip, n) => {
      const on = this.chosen.has(n.name);
      const state = n.state === 'ready' ? '' : ', ' + nodeState(n).text;
      chip.setAttribute('aria-pressed', String(on));
      fill(chip, icon(on ? 'check' : 'plus', 11), n.name, h('small', {text: n.device + state}));
    });
    this.help.textContent = this.helpText();
  }

  /** @param {Api.Node} n */
  chip(n) {
    return h('button', {type: 'button', class: 'chip', on: {click: () => this.flip(n.name)}});
  }

  /** @param {string} name */
  flip(name) {
    const now = new Set(this.chosen);
    now[now.has(name) ? 'delete' : 'add'](name);
    const list = this.nodes.map((x) => x.name).filter((x) => now.has(x));
    const workers = list.length || this.workers;
    this.onChange(this.pointer, list.length ? list : undefined);
    this.onChange('/workers', workers);
  }

  helpText() {
    const all = this.nodes.length;
    if (all === 0) {
      return 'No node has registered yet; the job will wait for one.';
    }
    const {size} = this.chosen;
    return size ? size + ' of ' + all + ' chosen'
                : 'Any ' + (this.workers || 1) + ' of ' + all + '.';
  }
}
