/* The table of nodes, and what can be done to each. */
import {fill, h, keyed, refill, say} from '../../elements/dom.js';
import {Few} from '../../elements/few.js';
import {nodeState} from '../../elements/states.js';
import {button, notice, numeric, question, scroller, table} from '../../elements/widgets.js';
import {mayChange} from '../../service/rights.js';
import {age, bytes, known, three} from '../../text/format.js';

import {FILTERS} from './model.js';

/** @typedef {import('./view.js').NodesView} NodesView */

const NONE = 'No node has registered yet. Start evenstep-agent on a machine, ' +
    'or serve with --local-node NAME=cpu:THREADS.';

/**
 * The GPU's figures from its driver, in few words: "87 % busy · 12 of 141 GB · 64 °C · 352 W".
 * @param {Api.Gpu | null | undefined} g
 */
function gpuText(g) {
  if (!g) {
    return '';
  }
  const parts = [
    known(g.busy) && Math.round(g.busy * 100) + ' % busy',
    known(g.memory_used_bytes) && bytes(g.memory_used_bytes) + ' of ' + bytes(g.memory_bytes),
    known(g.celsius) && g.celsius + ' °C', known(g.watts) && Math.round(g.watts) + ' W'
  ];
  return ' · ' + parts.filter(Boolean).join(' · ');
}

/**
 * What users' programs find on the node: "python3 3.11.2, torch 2.4.0".
 * @param {Api.Node} n
 */
function packagesText({packages}) {
  const all = Object.entries(packages || {}).map(([name, version]) => name + ' ' + version);
  return all.join(', ');
}

/**
 * A node's memory; nodes of one host share it.
 * @param {Api.Node} n
 * @param {Api.Node[]} all
 */
function memoryText(n, all) {
  const sharing = n.device?.startsWith('cpu')
      ? all.filter((o) => o.host === n.host && o.device?.startsWith('cpu')).length
      : 1;
  return bytes(n.memory_bytes) + (n.host && sharing > 1 ? ', shared by ' + sharing : '');
}

class NodeRow {
  /**
   * @param {Api.Node} n
   * @param {(name: string) => void} onChoose
   */
  constructor(n, onChoose) {
    this.icon = h('td');
    this.name =
        button(n.name, () => onChoose(n.name), {class: 'plain strong', 'aria-expanded': 'false'});
    this.state = h('td');
    this.job = h('td');
    this.memory = h('td', {class: 'num'});
    this.speed = h('td', {class: 'num'});
    this.gpu = h('span', {class: 'quiet'});
    this.packages = h('span', {class: 'quiet packages'});
    this.seen = h('td', {class: 'num quiet'});
    this.action = h('td', {class: 'num'});
    const slowdown = n.slowdown > 1 ? three(n.slowdown) + '×' : 'none';
    this.node = h('tr', {data: {node: n.name}}, this.icon, h('td', null, this.name), this.state,
        h('td', {class: 'quiet'}, h('span', {text: n.device || 'none'}), this.gpu, this.packages),
        h('td', {class: 'quiet', text: n.host || 'none'}), this.job, this.memory,
        h('td', {class: 'num quiet', text: slowdown}), this.speed, this.seen, this.action);
  }
}

export class NodesTable {
  /** @param {NodesView} view */
  constructor(view) {
    this.view = view;
    this.data = view.data;
    this.body = h('tbody');
    this.none = h('p', {class: 'quiet'});
    this.fault = h('div', {role: 'alert'});
    const actions = h('th', {scope: 'col'}, h('span', {class: 'sr', text: 'Actions'}));
    const list = table('Nodes',
        [
          '', 'Node', 'State', 'Device', 'Host', 'Job',
          ...numeric('Memory', 'Slowdown', 'Samples/s now', 'Seen'), actions
        ],
        this.body, 'nodes-table');
    this.few = new Few(() => this.update());
    this.node =
        h('div', null, scroller('Nodes, table', [list, this.none, this.fault]), this.few.node);
  }

  update() {
    const {nodes} = this.data;
    const found = nodes.filter(FILTERS[this.view.filter][1]);
    const shown = this.few.of(found, (n) => n.name === this.view.chosen || n.state !== 'ready');
    keyed(this.body, shown, (n) => n.name, (n) => new NodeRow(n, (name) => this.view.choose(name)),
        (row, n) => this.updateRow(row, n));
    const none = shown.length === 0 ? 'No node is in this state.' : '';
    say(this.none, nodes.length === 0 ? NONE : none);
  }

  /**
   * @param {NodeRow} row
   * @param {Api.Node} n
   */
  updateRow(row, n) {
    const state = nodeState(n);
    const key = state.text + n.drained + n.disabled + n.silent;
    if (row.icon.dataset.state !== key) {
      row.icon.dataset.state = key;
      fill(row.icon, state.icon);
      fill(row.action, mayChange() && this.actionOf(n));
    }
    say(row.state, state.text);
    const job = this.data.jobName(n) || 'none';
    refill(row.job, job,
        () => (n.job ? h('a', {class: 'job-link', href: '#/jobs/' + n.job, text: job})
                     : h('span', {class: 'quiet', text: job})));
    const worker = this.data.jobOf(n)?.workers?.find((w) => w.node === n.name);
    const rate = worker?.samples_per_second || 0;
    say(row.speed, rate > 0 ? three(rate) : '');
    say(row.memory, memoryText(n, this.data.nodes));
    say(row.gpu, gpuText(n.gpu));
    say(row.packages, packagesText(n));
    say(row.seen, age(n.heartbeat_age_seconds));
    row.node.classList.toggle('chosen', this.view.chosen === n.name);
    row.name.setAttribute('aria-expanded', String(this.view.chosen === n.name));
  }

  /** @param {Api.Node} n */
  actionOf(n) {
    const cls = {class: 'btn small'};
    if (n.silent) {
      return this.actButton('Forget', n.name, 'forget', cls);
    }
    if (n.drained || n.disabled) {
      return this.actButton('Enable', n.name, 'enable', cls);
    }
    const made = button('Drain', () => this.ask(n, made), cls);
    return made;
  }

  /**
   * @param {string} text
   * @param {string} name
   * @param {string} what
   * @param {Page.Props} props
   */
  actButton(text, name, what, props) {
    const made = button(text, () => this.act(name, what, made), props);
    return made;
  }

  /**
   * @param {string} name
   * @param {string} what
   * @param {HTMLButtonElement} pressed
   */
  async act(name, what, pressed) {
    pressed.disabled = true;
    fill(this.fault);
    try {
      await this.data.act(name, what);
    } catch (e) {
      fill(this.fault, notice('bad', /** @type {Error} */ (e).message));
    }
    pressed.disabled = false;
  }

  /**
   * @param {Api.Node} n
   * @param {HTMLElement} opener
   */
  ask(n, opener) {
    const job = this.data.jobName(n);
    const choice = (/** @type {string} */ verb, /** @type {string} */ what) =>
        this.actButton(verb + ' ' + n.name, n.name, what, {class: 'btn danger', data: {act: what}});
    const drain = choice('Drain', 'drain');
    const text = 'Drain ' + n.name + '? It gets no further job' +
        (job ? '; “' + job + '” goes on until it ends.' : '.');
    const back = () => {
      fill(this.fault);
      opener.focus();
    };
    fill(this.fault, question(text, [drain, choice('Disable', 'disable')], 'Leave it', back));
    drain.focus();
  }
}
