/* The history of the chosen node: the jobs that it took part in, the newest first, and its speed
   in each. */
import {h, keyed, say} from '../../elements/dom.js';
import {pill} from '../../elements/states.js';
import {numeric, scroller, table} from '../../elements/widgets.js';
import {perSample} from '../../measures/measures.js';
import {seconds, three, when, whole} from '../../text/format.js';

/** @typedef {import('./view.js').NodesView} NodesView */

const MOST = 20;

export class NodeHistory {
  /** @param {NodesView} view */
  constructor(view) {
    this.view = view;
    this.body = h('tbody');
    this.title = h('h2');
    this.none = h('p', {class: 'quiet'});
    this.table = table('Jobs of this node',
        ['State', 'Job', ...numeric('Minibatch', 'Per sample', 'Samples/s', 'Started')], this.body,
        'dense node-jobs');
    this.node =
        h('section', {'aria-label': 'History of the node', id: 'node-history', hidden: true},
            h('div', {class: 'row-title'}, this.title),
            scroller('Jobs of this node, table', this.table), this.none);
  }

  update() {
    const {chosen, data} = this.view;
    this.node.hidden = !chosen;
    if (!chosen) {
      return;
    }
    const jobs = data.historyOf(chosen).slice(0, MOST);
    say(this.title, 'Jobs of ' + chosen);
    this.table.hidden = jobs.length === 0;
    say(this.none, jobs.length ? '' : 'None of the newest jobs had a part here.');
    keyed(this.body, jobs, (j) => chosen + j.id + j.state, (j) => this.makeRow(j, chosen));
  }

  /**
   * @param {Api.Job} job
   * @param {string} name
   */
  makeRow(job, name) {
    const w = job.workers?.find((worker) => worker.node === name);
    const each = w ? perSample(w) : NaN;
    const figures = [
      w ? whole(w.batch) : 'none', seconds(each),
      w && w.samples_per_second > 0 ? three(w.samples_per_second) : 'none', when(job.started)
    ];
    return h('tr', null, h('td', null, pill(job.state)),
        h('td', null, h('a', {class: 'job-link', href: '#/jobs/' + job.id, text: job.name})),
        figures.map((text) => h('td', {class: 'num', text})));
  }
}
