/* Name, state, facts, actions, progress with the estimated end. */
import {fill, h, refill, say} from '../../../elements/dom.js';
import {earlyEnd, ended, pill, setPill, waiting} from '../../../elements/states.js';
import * as measures from '../../../measures/measures.js';
import {serviceNow} from '../../../service/servicetime.js';
import {
  broughtBy,
  dataName,
  globalBatch,
  goesOnFrom,
  modelName,
  policyOf,
  strategyOf
} from '../../../spec/spec.js';
import {sweepOf} from '../../../spec/tags.js';
import {clock, duration, known, percent, plural, when, whole} from '../../../text/format.js';
import {sizeText} from '../happened/resizes.js';

import {Actions} from './actions.js';
import {Labels} from './labels.js';

/** @typedef {import('../view.js').JobView} JobView */

const IS_ID = /^[0-9a-f]{16}$/;

/** @param {Api.Job} job */
function facts(job) {
  const {spec} = job;
  const batch = globalBatch(job); /* NaN: a program has not reported it yet */
  const attempts = 1 + (spec?.max_restarts ?? 0);
  const restarts =
      job.restarts ?? 0; /* a job that was paused has another attempt, but none failed */
  const from = goesOnFrom(job);
  return [
    h('span', {text: modelName(spec) + ' on ' + dataName(spec)}),
    job.program && h('span', {text: broughtBy(job)}),
    h('span', null, h('b', {text: strategyOf(spec)}),
        ', ' + policyOf(spec) + ' minibatch' + (known(batch) ? ', B = ' + whole(batch) : '')),
    h('span', {text: sizeText(job)}),
    from &&
        h('span', null, 'goes on from ',
            IS_ID.test(from) ? h('a', {href: '#/jobs/' + from, text: from}) : from),
    sweepOf(job) && h('a', {href: '#/sweeps/' + sweepOf(job), text: 'of a sweep'}),
    restarts > 0 && h('span', {text: 'attempt ' + (restarts + 1) + ' of ' + attempts}),
    h('span', {text: 'submitted ' + when(job.created) + (job.owner ? ' by ' + job.owner : '')}),
    h('span', {class: 'mono quiet', text: job.id})
  ];
}

/**
 * "All 3 epochs", but "1 epoch".
 * @param {string} counted
 */
const all = (counted) => (counted.startsWith('1 ') ? counted : 'All ' + counted);

/**
 * A program's own loop may end within an epoch.
 * @param {Api.Job} job
 */
function epochText(job) {
  const epochs = job.progress?.epochs || job.spec?.epochs || 0, step = job.progress?.step || 0;
  if (job.state === 'succeeded') {
    const early = earlyEnd(job);
    return known(early) ? 'Reached its target in epoch ' + early + ' of ' + whole(epochs)
                        : all(epochs % 1 ? plural(step, 'step') : plural(epochs, 'epoch'));
  }
  const at = measures.epochOf(job);
  return step > 0  ? (ended(job.state) ? 'Stopped in epoch ' : 'Epoch ') + at
      : epochs > 0 ? plural(epochs, 'epoch')
                   : '';
}

/** @param {Api.Job} job */
function ranText(job) {
  if (!job.started) {
    return '';
  }
  if (waiting(job.state)) {
    return 'started ' + clock(job.started) + ', trained for ' + measures.lasted(job.seconds ?? NaN);
  }
  const end = job.finished ? Date.parse(job.finished) : serviceNow();
  const wall = (end - Date.parse(job.started)) / 1000;
  const ran = measures.lasted(measures.isVirtual(job) ? wall : Math.max(wall, job.seconds ?? 0));
  const less = job.finished ? measures.trainedSeconds(job) : job.seconds ?? NaN;
  const trained = less > 0 && less < wall ? ', trained for ' + measures.lasted(less) : '';
  const virtual = measures.tookSeconds(job) > 0 ? ', ' + measures.tookText(job) : '';
  const own = measures.isVirtual(job) ? virtual : trained;
  return (job.finished ? 'ran ' + clock(job.started) + ' to ' + clock(job.finished) + ', ' + ran
                       : 'started ' + clock(job.started) + ', running for ' + ran) +
      own;
}

/**
 * Steps so far; beside them the model's updates, where those are more.
 * @param {Api.Job} job
 */
function stepText(job) {
  const updates = whole(job.progress?.step);
  const steps = measures.globalSteps(job);
  return Number.isFinite(steps) ? 'step ' + whole(steps) + ', ' + updates + ' updates'
                                : 'step ' + updates;
}

/** @implements {Page.Part} */
export class Head {
  /** @param {JobView} view */
  constructor(view) {
    this.data = view.data;
    this.actions = new Actions(view);
    this.title = h('h1');
    this.state = pill(this.data.job.state);
    this.virtual = h(
        'span', {class: 'tag', text: 'virtual cluster: all times are virtual', hidden: true});
    this.facts = h('p', {class: 'facts'});
    this.labels = new Labels(view);
    this.left = h('span');
    this.right = h('span', {class: 'right'});
    this.bar = h('i');
    this.progress = h('div', {
      class: 'progress',
      role: 'progressbar',
      'aria-label': 'progress of the job',
      'aria-valuemin': 0,
      'aria-valuemax': 100
    },
        this.bar);
    this.node = h('div', {class: 'job-head'},
        h('p', {class: 'crumbs'}, h('a', {href: '#/', text: 'Jobs'}), ' /'),
        h('div', {class: 'head'}, h('div', {class: 'title'}, this.title, this.state, this.virtual),
            this.actions.node),
        this.facts, this.labels.node, this.actions.question,
        h('div', {class: 'progress-line'}, this.left, this.right), this.progress);
  }

  update() {
    const {job} = this.data;
    say(this.title, job.name);
    this.state = setPill(this.state, job.state);
    this.virtual.hidden = !job.spec?.cluster;
    this.actions.update();
    this.labels.update();
    const key =
        [job.restarts, sizeText(job), job.created, Boolean(job.program), globalBatch(job)].join(
            '|');
    refill(this.facts, key, () => facts(job));
    this.drawProgress(job);
  }

  /** @param {Api.Job} job */
  drawProgress(job) {
    const p = job.progress;
    const running = p && p.step > 0;
    fill(this.left, h('b', {text: epochText(job)}), running && h('span', {text: stepText(job)}),
        running && h('span', {text: percent(p.fraction)}));
    const rest = measures.remaining(job);
    const end = clock(new Date(serviceNow() + rest * 1000));
    fill(this.right, job.started && h('span', {text: ranText(job)}),
        Number.isFinite(rest) && h('b', {text: 'ends about ' + end + ', in ' + duration(rest)}));
    const done = Math.round(1000 * (p?.fraction || 0)) / 10;
    this.bar.style.width = done + '%';
    this.progress.classList.toggle('bad', job.state === 'failed');
    this.progress.setAttribute('aria-valuenow', String(done));
  }
}
