/* The nodes: state, job and speed of each. Drain and enable ask for confirmation if they stop a
   job. Beneath the table the step time by minibatch for the nodes of a running job, and the chosen
   node in full. */
import {fill, h, keyed, say, throttle} from '../../elements/dom.js';
import {trains} from '../../elements/states.js';
import {notice, Segment} from '../../elements/widgets.js';
import {plural, sentence} from '../../text/format.js';

import {NodeDetail} from './detail.js';
import {FitFigure} from './fit.js';
import {NodeHistory} from './history.js';
import {NodeLoad} from './load.js';
import {FILTERS, NodesModel} from './model.js';
import {NodesTable} from './table.js';

const FIT_MS = 5000;
const DRAW_MS = 500;

/**
 * Why a host may not join, and the way out.
 * @param {Api.Refusal} r
 */
function refusalText(r) {
  const host = 'Host ' + r.host + (r.address ? ' at ' + r.address : '');
  return sentence(host + ' may not join: ' + r.message) + (r.hint ? ' ' + sentence(r.hint) : '');
}

/** @param {Api.Refusal} r */
function makeRefusal(r) {
  const node = notice('bad', '');
  node.dataset.host = r.host;
  return {node, text: /** @type {Element} */ (node.lastElementChild)};
}

export class NodesView {
  /**
   * @param {Element} root
   * @param {Page.Route} route
   * @param {NodesModel} data
   */
  constructor(root, route, data) {
    this.route = route;
    this.data = data;
    this.filter = 'all';
    /** @type {string | null} */
    this.chosen = route.params.get('node');
    this.summary = h('p', {class: 'sub'});
    this.refused = h('div', {class: 'refused', role: 'status'});
    this.segment = new Segment(
        'Show', Object.entries(FILTERS).map(([id, [text]]) => [id, text]), 'all', (id) => {
          this.filter = id;
          this.draw();
        });
    this.parts = {
      table: new NodesTable(this),
      fit: new FitFigure(data),
      detail: new NodeDetail(this),
      load: new NodeLoad(this),
      history: new NodeHistory(this)
    };
    const {table, fit, load, detail, history} = this.parts;
    fill(root,
        h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: 'Nodes'})),
            this.segment.node),
        this.summary, this.refused,
        h('div', {class: 'sheet'}, table.node, fit.node, load.node, history.node, detail.node));
    this.drawSoon = throttle(() => this.draw(), DRAW_MS);
    this.fitTimer = 0;
    data.addEventListener('change', this.drawSoon);
  }

  start() {
    const {fit} = this.parts;
    this.data.start();
    this.draw();
    this.data.readNewest().then(() => fit.read(this.chosen));
    this.fitTimer = window.setInterval(() => !document.hidden && fit.read(this.chosen), FIT_MS);
  }

  /** @param {string} name */
  choose(name) {
    this.chosen = this.chosen === name ? null : name;
    this.parts.fit.read(this.chosen);
    this.draw();
  }

  draw() {
    if (!this.route.alive()) {
      return;
    }
    const {nodes, refused} = this.data;
    Object.values(FILTERS).forEach(
        ([text, test], i) => say(this.segment.buttons[i], text + ' ' + nodes.filter(test).length));
    keyed(this.refused, refused, (r) => r.host, makeRefusal,
        (row, r) => say(row.text, refusalText(r)));
    say(this.summary, this.summaryText());
    this.parts.table.update();
    this.parts.detail.update();
    this.parts.load.update();
    this.parts.history.update();
  }

  summaryText() {
    const {nodes} = this.data;
    const busy = nodes.filter(trains).length, lost = nodes.filter((n) => n.state === 'lost').length;
    const away =
        '; ' + lost + (lost === 1 ? ' has' : ' have') + ' not been heard of for more than 4 s.';
    const training = busy === 0
        ? 'No nodes are training'
        : busy + ' of ' + plural(nodes.length, 'node') + (busy === 1 ? ' trains' : ' train');
    return nodes.length ? training + (lost ? away : '.') : '';
  }

  close() {
    this.data.close();
    this.parts.fit.close();
    clearInterval(this.fitTimer);
    this.drawSoon.cancel();
  }
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 * @returns {Promise<Page.View>}
 */
export async function show(root, route) {
  document.title = 'Nodes · Evenstep';
  const data = new NodesModel();
  const view = new NodesView(root, route, data);
  await data.read();
  view.start();
  return view;
}
