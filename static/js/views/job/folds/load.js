/* How busy the hosts of a job were while it ran: processors, memory, network, GPU. Nodes of one
   host share its load, so they share a row. Read when it is opened, and again while the job runs; a
   week is kept (store/loads.h). */
import {fill, h, keyed, say} from '../../../elements/dom.js';
import {LoadPlots} from '../../../elements/loadplots.js';
import {active} from '../../../elements/states.js';
import {button} from '../../../elements/widgets.js';
import {isVirtual} from '../../../measures/measures.js';
import {get} from '../../../service/api.js';
import {serviceNow} from '../../../service/servicetime.js';
import {list, plural} from '../../../text/format.js';

import {Fold} from './fold.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {{host: string, nodes: string[], load: Api.NodeLoad | null}} HostLoad */

const FEW = 8;
const WEEK = 604800;
const PAUSE_MS = 4000;

/**
 * The nodes of a job by host; a node with a GPU of its own is listed alone.
 * @param {string[]} names
 * @param {Api.Node[]} nodes
 * @returns {{host: string, nodes: string[]}[]}
 */
export function byHost(names, nodes) {
  /** @type {Map<string, string[]>} */
  const hosts = new Map();
  for (const name of names) {
    const node = nodes.find((n) => n.name === name);
    const key = node?.host && !node.gpu ? node.host : name;
    hosts.set(key, [...(hosts.get(key) || []), name]);
  }
  return [...hosts].map(([host, on]) => ({host, nodes: on}));
}

export class Load {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.fold = new Fold('load', 'Load', () => this.read());
    say(this.fold.note, 'CPU, memory, network and GPU of each host over time');
    this.says = h('p', {class: 'quiet'});
    this.body = h('div', {class: 'load-hosts'});
    this.more = button('', () => this.showAll(), {class: 'btn small', hidden: true});
    fill(this.fold.body, this.says, this.body, this.more);
    this.every = false;
    this.reading = false;
    this.readAt = -Infinity;
    /** @type {HostLoad[]} */
    this.hosts = [];
  }

  showAll() {
    this.every = true;
    this.read();
  }

  /* When the job began and ended, in seconds since 1970; now where it has not. */
  /** @returns {[number, number]} */
  span() {
    const {started, finished, state} = this.view.data.job;
    const now = serviceNow() / 1000;
    const begin = started ? Date.parse(started) / 1000 : now;
    const end = finished && !active(state) ? Date.parse(finished) / 1000 : now;
    return [begin, Math.max(begin + 1, end)];
  }

  async read() {
    const {data} = this.view;
    if (this.reading || !data.job.started || isVirtual(data.job)) {
      this.draw();
      return;
    }
    this.reading = true;
    this.readAt = performance.now();
    try {
      const {nodes} = await get('nodes');
      const hosts = byHost(data.nodes(), nodes);
      const shown = this.every ? hosts : hosts.slice(0, FEW);
      const seconds = Math.ceil(Math.min(WEEK, serviceNow() / 1000 - this.span()[0] + 60));
      this.hosts = await Promise.all(shown.map(async (h) => ({
        ...h,
        load: await get('nodes/' + encodeURIComponent(h.nodes[0]) + '/load', {seconds})
                  .catch(() => null)
      })));
      this.more.hidden = shown.length === hosts.length;
      say(this.more, 'Show all ' + plural(hosts.length, 'host'));
      this.draw();
    } catch (e) {
      say(this.says, /** @type {Error} */ (e).message);
    } finally {
      this.reading = false;
    }
  }

  /** @param {[number, number]} span */
  saysText([from]) {
    const {job} = this.view.data;
    if (!job.started) {
      return 'The job has not started yet.';
    }
    if (this.hosts.every((h) => !h.load || !h.load.at.length)) {
      return serviceNow() / 1000 - from > WEEK ? 'The load is kept for a week.'
                                               : 'The hosts have not reported their load yet.';
    }
    return 'Of the whole host, other programs included, without what its own nodes tell each ' +
        'other (loopback); means over 2 s, of older hours over a minute or ten.';
  }

  draw() {
    const span = this.span();
    const {key} = this.view;
    say(this.says, this.saysText(span));
    const told = this.hosts.filter((h) => h.load?.at.length);
    keyed(this.body, told, (h) => h.host + key.names.length, ({host, nodes}) => {
      const plots = new LoadPlots(list(nodes));
      const shared = nodes.length > 1 ? h('span', {class: 'note', text: 'on ' + host}) : null;
      const names = nodes.slice(0, FEW).map((n) => key.label(n));
      const rest = nodes.length > FEW ? 'and ' + (nodes.length - FEW) + ' more' : null;
      return {
        node: h('section', {class: 'load-host'}, h('h3', null, names, rest, shared), plots.node),
        plots
      };
    }, (row, {load}) => load && row.plots.draw(load, span));
  }

  /** @param {Set<string>} what */
  update(what) {
    const {job} = this.view.data;
    this.fold.node.hidden = isVirtual(job);
    const due = performance.now() - this.readAt > PAUSE_MS && active(job.state);
    if (this.fold.open && (due || what.has('job'))) {
      this.read();
    }
  }
}
