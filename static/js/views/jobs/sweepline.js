/* The line of a sweep among the jobs that have ended: how many of its runs have, and its best. A
   button shows those runs that were read. */
import {h, refill, say} from '../../elements/dom.js';
import {icon} from '../../elements/icons.js';
import {pill} from '../../elements/states.js';
import {policyOf, strategyOf} from '../../spec/spec.js';
import {sweepName, sweepOf} from '../../spec/tags.js';
import {percent, plural, when, whole} from '../../text/format.js';
import {metricText} from '../sweeps/words.js';

/** @typedef {import('../../measures/fold.js').Line} Line */

/**
 * What the jobs share, or `otherwise`.
 * @param {Api.Job[]} jobs
 * @param {(job: Api.Job) => string} textOf
 * @param {string} otherwise
 */
function shared(jobs, textOf, otherwise) {
  const texts = new Set(jobs.map(textOf));
  return texts.size === 1 ? [...texts][0] : otherwise;
}

/**
 * The sweep's best, or that of the runs which were read where nothing more is known.
 * @param {Api.Job[]} jobs
 * @param {Api.SweepRow | undefined} row
 */
function bestText(jobs, row) {
  if (row) {
    const {metric, best} = row;
    return (best && metric.name.includes('loss') ? 'loss ' : '') +
        metricText(metric.name, best?.metric);
  }
  const all = jobs.flatMap(({metrics}) => metrics?.best_test_accuracy ?? []);
  return percent(all.length ? Math.max(...all) : NaN);
}

/**
 * @param {Api.Job[]} jobs
 * @param {Api.SweepRow | undefined} row
 */
function countText(jobs, row) {
  const runs = row ? row.counts.ended : jobs.length;
  const failed = row ? row.counts.failed : jobs.filter((j) => j.state === 'failed').length;
  return plural(runs, 'run') + (failed ? ', ' + whole(failed) + ' failed' : '');
}

export class SweepLine {
  /**
   * @param {Line} line
   * @param {(key: string) => void} open opens or closes it
   */
  constructor({key, jobs}, open) {
    const sweep = sweepOf(jobs[0]);
    this.state = h('td');
    this.name = h('span', {class: 'strong', text: sweepName(jobs[0])});
    this.count = h('span', {class: 'tag'});
    this.fold = h('button', {
      type: 'button',
      class: 'plain fold-runs',
      'aria-expanded': 'false',
      on: {click: () => open(key)}
    },
        icon('right', 10), this.name, this.count);
    this.strategy = h('td', {class: 'quiet hide-phone'});
    this.nodes = h('td', {class: 'num hide-phone'});
    this.best = h('td', {class: 'num'});
    this.ended = h('td', {class: 'num quiet'});
    const none = () => h('td', {class: 'num quiet hide-phone'});
    const link = h('a', {class: 'note', href: '#/sweeps/' + sweep, text: 'sweep'});
    this.node = h('tr', {data: {sweep}}, this.state, h('td', null, this.fold, ' ', link),
        this.strategy, this.nodes, this.best, none(), none(), this.ended);
  }

  /**
   * @param {Line} line
   * @param {Api.SweepRow | undefined} row what is told of the sweep
   * @param {boolean} open
   */
  update({jobs}, row, open) {
    const state = row?.state || shared(jobs, (j) => j.state, '');
    refill(this.state, state,
        () => (state ? pill(/** @type {Api.State} */ (state)) : h('span', {text: 'Ended'})));
    say(this.name, row?.name || sweepName(jobs[0]));
    say(this.count, countText(jobs, row));
    this.fold.setAttribute('aria-expanded', String(open));
    say(this.strategy,
        shared(jobs, ({spec}) => strategyOf(spec) + ', ' + policyOf(spec), 'several'));
    say(this.nodes, shared(jobs, ({spec}) => String(spec?.workers || 1), ''));
    const best = bestText(jobs, row);
    say(this.best, best);
    this.best.classList.toggle('quiet', best === 'none');
    say(this.ended, when(jobs[0].finished));
  }
}
