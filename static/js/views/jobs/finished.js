/* Finished jobs, the newest first, a page at a time; the runs of a sweep are one line. */
import {h, keyed, say} from '../../elements/dom.js';
import {pill} from '../../elements/states.js';
import {button, table} from '../../elements/widgets.js';
import {unfolded} from '../../measures/fold.js';
import {isVirtual, lasted, tookSeconds} from '../../measures/measures.js';
import {policyOf, strategyOf} from '../../spec/spec.js';
import {sweepOf} from '../../spec/tags.js';
import {known, loss, percent, when, whole} from '../../text/format.js';

import {jobLink, leadsTo, Sheet} from './sheet.js';
import {SweepLine} from './sweepline.js';

/** @typedef {import('../../measures/fold.js').Line} Line */
/** @typedef {import('./model.js').JobsModel} JobsModel */

/** @type {import('../../elements/widgets.js').Head[]} */
const HEADS = [
  'State', 'Job', ['Strategy', 'hide-phone'], ['Nodes', 'num hide-phone'], ['Best test', 'num'],
  ['Took', 'num hide-phone'], ['Trained', 'num hide-phone'], ['Ended', 'num']
];

/**
 * Without pauses, waiting and the start of attempts; a virtual job has its own clock alone.
 * @param {Api.Job} job
 */
const trainedText = (job) => (isVirtual(job) ? 'virtual'
        : known(job.seconds)                 ? lasted(job.seconds)
                                             : 'none');

/**
 * The best accuracy; of a job without one, as where numbers are predicted, its test loss.
 * @param {Api.Job} job
 */
function resultText({metrics}) {
  const best = metrics?.best_test_accuracy ?? metrics?.test_accuracy;
  const test = metrics?.test_loss;
  return !known(best) && known(test) ? 'loss ' + loss(test) : percent(best);
}

/** @param {Line} line of one job */
function makeRow({jobs: [job], member}) {
  const result = resultText(job);
  const strategy = strategyOf(job.spec) + ', ' + policyOf(job.spec);
  const nodes = job.spec?.workers || (job.workers || []).length || 1;
  const name = h('td', {class: member ? 'member' : null}, jobLink(job));
  return h('tr', leadsTo(job), h('td', null, pill(job.state)), name,
      h('td', {class: 'quiet hide-phone', text: strategy}),
      h('td', {class: 'num hide-phone', text: String(nodes)}),
      h('td', {class: 'num' + (result === 'none' ? ' quiet' : ''), text: result}),
      h('td', {class: 'num hide-phone', text: lasted(tookSeconds(job))}),
      h('td', {class: 'num hide-phone', text: trainedText(job)}),
      h('td', {class: 'num quiet', text: when(job.finished)}));
}

/** @implements {Page.Part} */
export class FinishedJobs {
  /** @param {JobsModel} data */
  constructor(data) {
    this.data = data;
    this.body = h('tbody');
    /** Keys of the sweeps whose runs are shown. */
    /** @type {Set<string>} */
    this.open = new Set();
    this.more = button('Show more', () => data.readMore(), {class: 'btn small', hidden: true});
    const list = table('Finished jobs', HEADS, this.body);
    const all = h('a', {class: 'note', href: '#/runs', text: 'all runs as a table'});
    const sweeps = h('a', {class: 'note', href: '#/sweeps', text: 'sweeps'});
    const links = h('span', {class: 'links'}, all, sweeps);
    this.sheet = new Sheet('Finished', h('div', {class: 'table-row'}, list, this.more), links);
    this.node = this.sheet.node;
  }

  /** @param {string} key of a sweep's line */
  turn(key) {
    if (!this.open.delete(key)) {
      this.open.add(key);
    }
    this.update();
  }

  update() {
    const {query, next, sweeps} = this.data;
    const n = this.data.finished().length;
    this.node.hidden = n === 0;
    say(this.sheet.count, query ? 'found: ' + n : whole(n) + (next ? ' newest' : ''));
    this.more.hidden = !next;
    const turn = (/** @type {string} */ key) => this.turn(key);
    keyed(this.body, unfolded(this.data.finishedLines(), this.open),
        (line) => line.key + (line.member ? ' member' : ''),
        (line) => (line.jobs.length > 1 ? new SweepLine(line, turn) : {node: makeRow(line)}),
        (made, line) => {
          if (made instanceof SweepLine) {
            made.update(line, sweeps.get(sweepOf(line.jobs[0])), this.open.has(line.key));
          }
        });
  }
}
