/* The nodes at a glance: state, name, device, and the job that each has. */
import {fill, h, keyed, refill, say} from '../../elements/dom.js';
import {Few} from '../../elements/few.js';
import {nodeState} from '../../elements/states.js';

import {Sheet} from './sheet.js';

/** @typedef {import('./model.js').JobsModel} JobsModel */

const STATES = ['busy', 'free', 'resting', 'draining', 'drained', 'disabled', 'lost'];
const NONE = 'No node has registered yet. ' +
    'Start evenstep-agent on a machine, or serve with --local-node.';

/** @param {Api.Node} n */
function makeRow(n) {
  const state = h('span');
  const job = h('small');
  const name = h('b', {class: 'strong', text: n.name});
  const device = h('span', {class: 'quiet', text: n.device});
  return {
    node: h('div', {class: 'node-line', data: {node: n.name}}, state, name, device, job),
    state,
    job
  };
}

/** @implements {Page.Part} */
export class NodesAtAGlance {
  /** @param {JobsModel} data */
  constructor(data) {
    this.data = data;
    this.list = h('div', {class: 'node-list'});
    this.few = new Few(() => this.update());
    this.sheet = new Sheet('Nodes', h('div', null, this.list, this.few.node));
    this.node = this.sheet.node;
  }

  update() {
    const {jobs, nodes, query} = this.data;
    const q = query.toLowerCase();
    const found = nodes.filter((n) => !q || n.name.toLowerCase().includes(q));
    const shown = this.few.of(found, (n) => n.state !== 'ready');
    if (shown.length) {
      keyed(this.list, shown, (n) => n.name, makeRow, (row, n) => {
        const state = nodeState(n);
        refill(row.state, state.text, () => state.icon);
        say(row.job, n.job ? jobs.get(n.job)?.name || n.job : state.text);
      });
    } else {
      fill(this.list, h('p', {class: 'quiet', text: q ? 'No node has this name.' : NONE}));
    }
    const states = nodes.map((n) => nodeState(n).text);
    say(this.sheet.count,
        STATES.filter((s) => states.includes(s))
            .map((s) => states.filter((text) => text === s).length + ' ' + s)
            .join(', '));
  }
}
