/* Waiting jobs in the order they start, with what each waits for. */
import {h, keyed, refill, say} from '../../elements/dom.js';
import {icon} from '../../elements/icons.js';
import {awaited} from '../../measures/measures.js';

import {jobLink, leadsTo, Sheet, strategyLine} from './sheet.js';

/** @typedef {import('./model.js').JobsModel} JobsModel */

const ROWS = 100; /* that are drawn */
const HEADS = ['Place', 'Job', 'Strategy', 'Waits for', 'Priority'];

/** @param {Api.Job} job */
function makeRow(job) {
  const place = h('td');
  const why = h('td', {class: 'why'});
  const priority = job.priority ? 'priority ' + job.priority : 'priority normal';
  const node = h('tr', leadsTo(job), place, h('td', null, jobLink(job)),
      h('td', {class: 'quiet hide-phone', text: strategyLine(job)}), why,
      h('td', {class: 'num quiet hide-phone', text: priority}));
  return {node, place, why};
}

/** @param {Api.Job} job */
function reason(job) {
  return job.state === 'paused' ? 'paused' : job.waiting || 'waits for ' + awaited(job);
}

/** @implements {Page.Part} */
export class WaitingJobs {
  /** @param {JobsModel} data */
  constructor(data) {
    this.data = data;
    this.body = h('tbody');
    const heads = HEADS.map((text) => h('th', {scope: 'col', text}));
    const table =
        h('table', {class: 'wait-table'}, h('caption', {class: 'sr', text: 'Waiting jobs'}),
            h('thead', {class: 'sr'}, h('tr', null, heads)), this.body);
    this.sheet = new Sheet('Waiting', h('div', {class: 'table-row'}, table));
    this.node = this.sheet.node;
  }

  update() {
    const jobs = this.data.queue();
    this.node.hidden = jobs.length === 0;
    const first = jobs.length > ROWS ? ', the first ' + ROWS : '';
    say(this.sheet.count, this.data.waits() + first + ', in the order they start');
    keyed(this.body, jobs.slice(0, ROWS), (j) => j.id + j.state + j.priority, makeRow,
        (row, job, i) => {
          const why = reason(job);
          const name = job.state === 'paused' ? 'pause' : 'clock';
          say(row.place, String(i + 1));
          refill(row.why, why,
              () => h('span', {class: 'name'}, icon(name, 12), h('span', {text: why})));
        });
  }
}
