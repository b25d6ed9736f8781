/* The owners of jobs: what each has now of what they may have, and the node-hours that they used.
 */
import {fill, h} from '../../elements/dom.js';
import {numeric, scroller, table} from '../../elements/widgets.js';
import {bytes, duration} from '../../text/format.js';

const HEADS = [
  'Owner', ...numeric('Queued', 'Running', 'Nodes', 'Disk', 'Time limit', 'By the clock'),
  ...numeric('Node-hours')
];

/**
 * @param {number} has
 * @param {number | null | undefined} may null: as much as they like
 * @param {(n: number) => string} [say]
 */
function of (has, may, say = String) {
  return say(has) + (may === null || may === undefined ? '' : ' of ' + say(may));
}

/** @param {number | null | undefined} seconds */
function limit(seconds) {
  return seconds === null || seconds === undefined ? 'none' : duration(seconds);
}

export class Owners {
  /** @param {import('./model.js').PeopleModel} data */
  constructor(data) {
    this.data = data;
    this.body = h('tbody');
    this.days = h('p', {class: 'sub'});
    this.node = h('section', null, h('h2', {text: 'Owners'}), this.days,
        h('div', {class: 'sheet'},
            scroller('Owners of jobs', table('Owners', HEADS, this.body, 'owners-table'))));
  }

  /** @param {string} name */
  hours(name) {
    return this.data.used.find((row) => row.owner === name)?.node_hours || 0;
  }

  /** @param {Api.Owner} o */
  row(o) {
    const q = o.quota;
    const cells = [
      of(o.queued, q.queued), of(o.running, q.running), of(o.nodes, q.nodes),
      of(o.disk_bytes, q.disk_bytes, bytes), limit(q.max_seconds), limit(q.max_wall_seconds),
      this.hours(o.name).toFixed(2)
    ];
    return h(
        'tr', null, h('td', {text: o.name}), cells.map((text) => h('td', {class: 'num', text})));
  }

  update() {
    const {owners, since, until} = this.data;
    const none = h('tr', null, h('td', {colspan: HEADS.length, text: 'Nobody has a job yet.'}));
    this.days.textContent = 'What each has of what the quotas allow, and the node-hours from ' +
        since + ' to ' + until + ' (UTC).';
    fill(this.body, owners.length ? owners.map((o) => this.row(o)) : none);
  }
}
