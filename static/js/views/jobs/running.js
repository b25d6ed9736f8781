/* Running jobs: verdict, progress, two sparklines, the finish line. */
import {fill, h, keyed, say} from '../../elements/dom.js';
import {miniFinish, Sparkline} from '../../elements/figures.js';
import {NodeKey} from '../../elements/nodekey.js';
import {pill, setPill} from '../../elements/states.js';
import {epochOf, equalSplit, remaining, stepTimes} from '../../measures/measures.js';
import {plain, verdict} from '../../sentences/verdict.js';
import {serviceNow} from '../../service/servicetime.js';
import {globalBatch} from '../../spec/spec.js';
import {clock, duration, known, loss, percent, plural, seconds} from '../../text/format.js';

import {address, Sheet, strategyLine} from './sheet.js';

/** @typedef {import('./model.js').JobsModel} JobsModel */

const KEEP_MS = 10000;

/**
 * A label with its value.
 * @param {string} label
 * @param {Element} value
 * @param {Element} below
 */
function figure(label, value, below) {
  return h('div', null, h('p', {class: 'pair'}, h('span', {text: label}), value), below);
}

/** @param {Api.Job} job */
function epochText(job) {
  const p = job.progress;
  return p && p.step > 0 ? 'Epoch ' + epochOf(job)
                         : plural(p?.epochs || job.spec?.epochs || 1, 'epoch');
}

/** @param {Api.Job} job */
function restText(job) {
  const rest = remaining(job);
  if (known(rest)) {
    return 'ends about ' + clock(new Date(serviceNow() + rest * 1000)) + ', in ' + duration(rest);
  }
  return job.state === 'launching' ? 'is being started' : '';
}

class RunRow {
  /** @param {Api.Job} job */
  constructor(job) {
    this.pill = pill(job.state);
    this.facts = h('p', {class: 'quiet'});
    this.says = h('p', {class: 'says'});
    this.epoch = h('b');
    this.percent = h('span');
    this.bar = h('i');
    this.rest = h('p', {class: 'quiet'});
    this.loss = h('b');
    this.test = h('b');
    this.step = h('b');
    this.lossLine = new Sparkline(120, 44, 'train loss over the run');
    this.testLine = new Sparkline(120, 44, 'test accuracy over the run');
    this.finish = h('div');
    this.said = {text: '', key: '', at: 0};
    /** @type {import('./model.js').Sparks | undefined} */
    this.drawnSparks = undefined;
    this.node = this.layout(job);
  }

  /** @param {Api.Job} job */
  layout(job) {
    const tag = Boolean(job.spec?.cluster) && h('span', {class: 'tag', text: 'virtual cluster'});
    const name = h('a', {href: address(job), text: job.name});
    return h('article', {class: 'run-row', data: {job: job.id}},
        h('div', null, h('h3', null, name, this.pill, tag), this.facts, this.says),
        h('div', null, h('p', {class: 'pair'}, this.epoch, this.percent),
            h('div', {class: 'progress thin'}, this.bar), this.rest),
        figure('Train loss', this.loss, this.lossLine.node),
        figure('Test', this.test, this.testLine.node), figure('One step', this.step, this.finish));
  }

  /**
   * @param {Api.Job} job
   * @param {Api.Assignment[]} assignments
   * @param {import('./model.js').Sparks} sparks
   */
  update(job, assignments, sparks) {
    const key = new NodeKey((job.workers || []).map((w) => w.node));
    this.pill = setPill(this.pill, job.state);
    say(this.facts, strategyLine(job));
    const losses = (sparks.train_loss?.mean || []).map((v) => v ?? NaN);
    this.drawVerdict(verdict(job, assignments, {losses}), key);
    say(this.epoch, epochText(job));
    say(this.percent, (job.progress?.step || 0) > 0 ? percent(job.progress?.fraction, 0) : '');
    this.bar.style.width = 100 * (job.progress?.fraction || 0) + '%';
    say(this.rest, restText(job));
    const {train_loss: trainLoss, test_accuracy: accuracy} = job.metrics || {};
    say(this.loss, known(trainLoss) ? loss(trainLoss) : 'none yet');
    say(this.test, known(accuracy) ? percent(accuracy) : 'none yet');
    if (this.drawnSparks !== sparks) {
      this.drawnSparks = sparks;
      this.lossLine.set(sparks.train_loss?.x || [], sparks.train_loss?.mean || []);
      this.testLine.set(sparks.test_accuracy?.x || [], sparks.test_accuracy?.mean || []);
    }
    this.drawFinish(job, key);
  }

  /* The sentence changes at most every ten seconds, and at once only when its cause does. */
  /**
   * @param {Page.Verdict} v
   * @param {NodeKey} key
   */
  drawVerdict(v, key) {
    const text = plain(v.parts);
    const now = performance.now();
    const {said} = this;
    if (said.text !== text && (said.key !== v.key || now - said.at >= KEEP_MS)) {
      this.said = {text, key: v.key, at: now};
      const who = (/** @type {string} */ name) => [key.mark(name), h('b', {text: name})];
      fill(this.says, v.parts.map((p) => (typeof p === 'string' ? p : who(p.node))));
    }
  }

  /**
   * @param {Api.Job} job
   * @param {NodeKey} key
   */
  drawFinish(job, key) {
    const workers = job.workers || [];
    const steps = stepTimes(workers);
    const equals = equalSplit(workers, globalBatch(job) || 0);
    const longest = Math.max(0, ...steps.map((s) => s.all));
    say(this.step, longest > 0 ? seconds(longest) : 'none yet');
    if (longest > 0) {
      fill(this.finish,
          miniFinish(
              steps.map((s, i) => ({all: s.all, equal: equals[i], colour: key.colour(s.node)}))));
    }
  }
}

/** @type {import('./model.js').Sparks} */
const NO_SPARKS = {};

/** @implements {Page.Part} */
export class RunningJobs {
  /** @param {JobsModel} data */
  constructor(data) {
    this.data = data;
    this.list = h('div', {class: 'rows run-list'});
    this.sheet = new Sheet('Running', this.list);
    this.node = this.sheet.node;
  }

  update() {
    const {assignments, sparks} = this.data;
    const jobs = this.data.running();
    this.node.hidden = jobs.length === 0;
    say(this.sheet.count, String(jobs.length));
    keyed(this.list, jobs, (j) => j.id, (j) => new RunRow(j),
        (row, j) => row.update(j, assignments.get(j.id) || [], sparks.get(j.id) || NO_SPARKS));
  }
}
