/* The chosen node in full, as it registered. */
import {h, refill} from '../../elements/dom.js';
import {pairs} from '../../elements/widgets.js';
import {flatten} from '../../spec/spec.js';
import {bytes} from '../../text/format.js';

/** @typedef {import('./view.js').NodesView} NodesView */

const ELSEWHERE = ['heartbeat_age_seconds', 'name'];

/**
 * @param {Api.Node} n
 * @returns {[string, string][]}
 */
function facts(n) {
  return flatten(n).filter(([k]) => !ELSEWHERE.includes(k) && !k.startsWith('gpu')).map(([
    k, v
  ]) => {
    const value = k === 'memory_bytes' ? bytes(Number(v)) : v;
    return [k.replace(/_/g, ' '), value === '' ? 'none' : value];
  });
}

export class NodeDetail {
  /** @param {NodesView} view */
  constructor(view) {
    this.view = view;
    this.node = h('section', {class: 'node-detail', 'aria-label': 'Chosen node', hidden: true});
  }

  update() {
    const n = this.view.data.nodes.find((x) => x.name === this.view.chosen);
    this.node.hidden = !n;
    if (n) {
      const rest = facts(n);
      refill(this.node, JSON.stringify(rest),
          () => [h('div', {class: 'row-title'}, h('h2', {text: n.name}),
                     h('span', {class: 'note', text: 'as it registered'})),
              pairs(rest)]);
    }
  }
}
