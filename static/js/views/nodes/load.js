/* How busy the chosen node's host was, also while no job used it. */
import {fill, h, say} from '../../elements/dom.js';
import {LoadPlots} from '../../elements/loadplots.js';
import {Segment} from '../../elements/widgets.js';
import {get} from '../../service/api.js';

/** @typedef {import('./view.js').NodesView} NodesView */

const PAUSE_MS = 4000;

/** @type {[string, string][]} */
const SPANS = [['1800', 'Half an hour'], ['86400', 'Day'], ['604800', 'Week']];

export class NodeLoad {
  /** @param {NodesView} view */
  constructor(view) {
    this.view = view;
    this.seconds = 1800;
    this.name = '';
    this.readAt = -Infinity;
    /** Counts readings, so that only the newest answer is shown. */
    this.turn = 0;
    this.title = h('h2');
    this.says = h('p', {class: 'quiet'});
    this.place = h('div');
    this.plots = new LoadPlots('the node');
    const spans = new Segment('Time', SPANS, '1800', (value) => {
      this.seconds = Number(value);
      this.read();
    });
    this.node = h('section', {'aria-label': 'Load of the node', id: 'node-load', hidden: true},
        h('div', {class: 'row-title'}, this.title, h('span', {class: 'tools'}, spans.node)),
        this.says, this.place);
  }

  async read() {
    const name = this.view.chosen;
    const turn = ++this.turn;
    this.readAt = performance.now();
    if (!name) {
      return;
    }
    try {
      const load =
          await get('nodes/' + encodeURIComponent(name) + '/load', {seconds: this.seconds});
      if (turn === this.turn) {
        this.show(load);
      }
    } catch (e) {
      say(this.says, /** @type {Error} */ (e).message);
    }
  }

  /** @param {Api.NodeLoad} load */
  show(load) {
    const there = load.at.length > 0;
    this.plots.node.hidden = !there;
    const host = this.view.data.nodes.find((n) => n.name === this.name);
    const sharing = this.view.data.nodes.filter((n) => host?.host && n.host === host.host).length;
    say(this.says,
        !there            ? 'The node did not report its load in this time.'
            : sharing > 1 ? 'Of the whole host, which ' + sharing + ' nodes share.'
                          : 'Of the whole host.');
    this.plots.draw(load, [load.now - this.seconds, load.now]);
  }

  update() {
    const {chosen} = this.view;
    this.node.hidden = !chosen;
    if (!chosen) {
      this.name = '';
      return;
    }
    if (chosen !== this.name) {
      this.name = chosen;
      this.plots = new LoadPlots(chosen);
      fill(this.place, this.plots.node);
      say(this.title, 'Load of ' + chosen);
      say(this.says, '');
      this.read();
    } else if (performance.now() - this.readAt > PAUSE_MS && !document.hidden) {
      this.read();
    }
  }
}
