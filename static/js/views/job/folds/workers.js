/* Workers and servers in full. */
import {fill, h, keyed, say, sayAll} from '../../../elements/dom.js';
import {ended} from '../../../elements/states.js';
import {scroller, table} from '../../../elements/widgets.js';
import {hasServers} from '../../../spec/spec.js';
import {
  age,
  known,
  mean,
  minibatch,
  percent,
  plural,
  seconds,
  three,
  whole
} from '../../../text/format.js';

import {Fold} from './fold.js';

/** @typedef {import('../view.js').JobView} JobView */

/** @type {[string, string][]} */
const HEADS = [
  ['Rank', 'num'], ['Node', ''], ['Device', ''], ['State', ''], ['Minibatch', 'num'],
  ['Samples/s', 'num'], ['Samples', 'num'], ['Updates', 'num'], ['Load', 'num'], ['Compute', 'num'],
  ['Exchange', 'num'], ['Wait', 'num'], ['Staleness', 'num'], ['Seen', 'num']
];

/* Minibatch to Staleness. */
/** @param {Api.Worker} w */
function workerFigures(w) {
  const st = w.staleness || {};
  return [
    minibatch(w.batch), three(w.samples_per_second), known(w.samples) ? whole(w.samples) : '',
    known(w.updates) ? whole(w.updates) : '', seconds(w.load_seconds ?? NaN),
    seconds(w.compute_seconds), seconds(w.exchange_seconds), seconds(w.wait_seconds),
    known(st.mean) ? mean(st.mean) + ', max ' + whole(st.max) : ''
  ];
}

/**
 * @param {Api.Server} server
 * @param {boolean} serves whether gradients go to it
 */
function serverFigures(server, serves) {
  if (!serves) {
    return Array.from({length: 9}, () => '');
  }
  const busy = percent(server.busy_fraction, 0) + ' busy';
  return ['', '', '', 'version ' + whole(server.version), busy, '', '', '', ''];
}

export class Workers {
  /** @param {JobView} view */
  constructor(view) {
    this.data = view.data;
    this.key = view.key;
    this.body = h('tbody');
    this.fold = new Fold('workers', 'Workers', () => this.draw());
    fill(this.fold.body,
        scroller('Workers, table', table('Workers and servers', HEADS, this.body, 'dense')));
  }

  draw() {
    const {job} = this.data;
    const {workers = [], servers = [], rows_dropped: dropped = 0} = job;
    say(this.fold.note,
        plural(workers.length, 'worker') +
            (servers.length && hasServers(job) ? ', ' + plural(servers.length, 'server') : '') +
            (dropped > 0 ? ', ' + plural(dropped, 'row') + ' dropped on the way' : ''));
    if (this.fold.open) {
      keyed(this.body, [...workers, ...servers], (w) => w.rank, (w) => this.makeRow(w),
          (row, w) => sayAll(row.cells, this.texts(w)));
    }
  }

  /** @param {Api.Worker | Api.Server} w */
  makeRow(w) {
    const cells = HEADS.map(([, cls]) => h('td', {class: cls}));
    fill(cells[1],
        'node' in w ? this.key.label(w.node)
                    : h('span', {class: 'quiet', text: this.role() + ' on ' + w.host}));
    return {node: h('tr', null, cells), cells};
  }

  /* The role of the rank without a node: without a server strategy it keeps checkpoints and
   * data. */
  role() {
    return hasServers(this.data.job) ? 'server' : 'keeper';
  }

  /**
   * Texts of the cells; that of the node stays as it is.
   * @param {Api.Worker | Api.Server} w
   */
  texts(w) {
    const seen = ended(this.data.job.state) ? '' : age(this.data.ageOf(w.heartbeat_age_seconds));
    const figures = 'node' in w ? workerFigures(w) : serverFigures(w, hasServers(this.data.job));
    return [String(w.rank), undefined, w.device || 'none', w.state || 'none', ...figures, seen];
  }
}
