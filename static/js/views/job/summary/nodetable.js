/* The node table, the page's colour key: minibatch before and now, and a bar per node that ends at
   the finish line, with a whisker for the same node under an equal split. */
import {h, keyed, refill, say} from '../../../elements/dom.js';
import {Few} from '../../../elements/few.js';
import {FinishBar, placeLine} from '../../../elements/figures.js';
import {active, ended} from '../../../elements/states.js';
import {scroller, table} from '../../../elements/widgets.js';
import {equalSplit, isVirtual, median, stepTimes} from '../../../measures/measures.js';
import {fitStep} from '../../../measures/steptime.js';
import {globalBatch} from '../../../spec/spec.js';
import {age, known, minibatch, percent, seconds, three, whole} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../model/model.js').JobModel} JobModel */

const FIT_MS = 5000;
const LATE = 1.15;

/**
 * Fixed part of a node's step in seconds, from what was measured at different minibatches; NaN
 * where that does not tell it.
 * @param {JobModel} data
 * @param {string} node
 */
function fixedPart(data, node) {
  const batch = data.curves.curve('batch', node);
  const compute = data.curves.own(node);
  /** @type {Map<number, number[]>} */
  const bySize = new Map();
  for (let i = 0; i < Math.min(batch.x.length, compute.x.length); i++) {
    const size = batch.mean[i];
    if (batch.min[i] === batch.max[i] && size > 0 && known(compute.mean[i])) {
      bySize.set(size, [...(bySize.get(size) || []), compute.mean[i]]);
    }
  }
  const sizes = [...bySize.keys()];
  return fitStep(sizes.map((size) => [size, median(bySize.get(size) || [])]))?.a ?? NaN;
}

/* One node. */
class NodeRow {
  /**
   * @param {JobView} view
   * @param {Api.Worker} w
   */
  constructor(view, w) {
    this.view = view;
    this.straggler = h('span', {class: 'tag', text: 'straggler', hidden: true});
    this.name = h('button', {
      type: 'button',
      class: 'name plain',
      'aria-pressed': 'false',
      on: {click: () => view.choose(w.node)}
    },
        view.key.mark(w.node), h('span', {class: 'txt', text: w.node}));
    this.batch = h('td', {class: 'num'});
    this.speed = h('td', {class: 'num'});
    this.seen = h('td', {class: 'num quiet'});
    this.bar = new FinishBar();
    this.node = h('tr', {data: {node: w.node}}, h('td', null, this.name, ' ', this.straggler),
        h('td', {class: 'quiet', text: w.device}), this.batch,
        h('td', {class: 'fin-cell'}, this.bar.node), this.speed, this.seen);
  }

  /**
   * @param {Api.Worker} w
   * @param {number | undefined} first its first minibatch
   * @param {number} batch its last one
   * @param {string | undefined} slow the straggler
   */
  update(w, first, batch, slow) {
    const {chosen, data} = this.view;
    this.straggler.hidden = w.node !== slow;
    this.name.setAttribute('aria-pressed', String(chosen === w.node));
    this.node.classList.toggle('chosen', chosen === w.node);
    this.node.classList.toggle('dim', Boolean(chosen) && chosen !== w.node);
    const was = first !== undefined && first !== batch ? whole(first) + ' → ' : '';
    refill(this.batch, was + batch,
        () => [was && h('span', {class: 'quiet', text: was}),
            h('b', {class: 'strong', text: minibatch(batch)})]);
    say(this.speed, speedOf(w));
    say(this.seen, active(data.job.state) ? age(data.ageOf(w.heartbeat_age_seconds)) : w.state);
  }
}

/** @param {Api.Worker} w */
function speedOf(w) {
  if (w.samples_per_second > 0) {
    return three(w.samples_per_second);
  }
  return w.receiving ? 'data ' + percent(w.receiving.bytes / w.receiving.of_bytes, 0) : 'none';
}

function legend() {
  return h('p', {class: 'legend'},
      h('span', null, h('i', {class: 'ph compute node-grey'}), 'load and compute'),
      h('span', null, h('i', {class: 'ph exchange'}), 'exchange and wait'),
      h('span', null, h('i', {class: 'whisker-sample'}), 'with an equal split'));
}

export class NodeTable {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.data = view.data;
    this.key = view.key;
    this.body = h('tbody');
    this.lineLabel = h('b', {class: 'line-label'});
    this.seenHead = h('th', {class: 'num', scope: 'col', text: 'Seen'});
    this.stepText = h('span', {text: 'Time for one step'});
    const scale =
        h('div', {class: 'fin-head'}, h('span', {class: 'zero', text: '0'}), this.lineLabel);
    const stepHead = h('th', {scope: 'col', class: 'fin-cell'}, this.stepText, scale);
    this.table = table('Nodes: minibatch and time for one step',
        ['Node', 'Device', ['Minibatch', 'num'], stepHead, ['Samples/s', 'num'], this.seenHead],
        this.body, 'node-table');
    this.legend = legend();
    this.none = h('p', {class: 'quiet'});
    const holder = scroller('Nodes, table', this.table, 'node-holder');
    this.few = new Few(() => view.draw());
    this.node = h('div', {class: 'nodes-side'}, holder, this.few.node, this.legend, this.none);
    /** @type {{[node: string]: number}} */
    this.fixed = {};
    this.fixedAt = 0;
  }

  /* Fixed parts of all nodes, fitted anew every few seconds. */
  fit() {
    const now = performance.now();
    if (now - this.fixedAt > FIT_MS) {
      this.fixedAt = now;
      this.fixed =
          Object.fromEntries(this.data.nodes().map((node) => [node, fixedPart(this.data, node)]));
    }
    return this.fixed;
  }

  /** @param {string | undefined} slow the straggler */
  update(slow) {
    const {job} = this.data;
    const workers = job.workers || [];
    const any = workers.length > 0;
    this.table.hidden = this.legend.hidden = !any;
    say(this.none,
        !any && active(job.state) ? 'The nodes report as soon as they have loaded their data.'
                                  : '');
    const last = ended(job.state) ? 'At the end' : 'State';
    say(this.seenHead, active(job.state) ? 'Seen' : last);
    const force = this.data.placed();
    const first = force[0]?.batches || {};
    /* at the end of a run workers may have got another assignment, with which no step was made */
    const late = force.length < this.data.assignments.length;
    const sizes = late ? force[force.length - 1].batches || {} : {};
    const bars = this.bars(job, workers);
    const shown = this.few.of(workers, (w) => w.node === slow || this.key.number(w.node) > 0);
    keyed(this.body, shown, (w) => w.rank + w.node + this.key.number(w.node),
        (w) => new NodeRow(this.view, w), (row, w) => {
          row.update(w, first[w.node], sizes[w.node] ?? w.batch, slow);
          bars(row.bar, workers.indexOf(w));
        });
  }

  /**
   * The scale that all bars have, and how one is drawn on it.
   * @param {Api.Job} job
   * @param {Api.Worker[]} workers
   */
  bars(job, workers) {
    const steps = stepTimes(workers);
    const global = globalBatch(job) || 0;
    const {learned} = this.data;
    /* the times of a virtual job are means over the run, and so of all its minibatches */
    const means = isVirtual(job) && learned.workers;
    say(this.stepText, 'Time for one step' + (means ? ', averaged over the run' : ''));
    const equals = equalSplit(means || workers, global, this.fit());
    const line = Math.max(1e-9, ...steps.map((x) => x.all));
    const worst = Math.max(line, ...equals.filter(known));
    const scale = worst > line * 1.02 ? worst * 1.22 : line * 1.12;
    say(this.lineLabel, line > 1e-8 ? seconds(line) : '');
    placeLine(this.lineLabel, line / scale);
    return (/** @type {FinishBar} */ bar, /** @type {number} */ i) => {
      bar.set({
        own: steps[i].own,
        rest: steps[i].exchange + steps[i].wait,
        equal: equals[i],
        scale,
        colour: this.key.colour(workers[i].node),
        label: equals[i] === worst || equals[i] > line * LATE ? seconds(equals[i]) : ''
      });
      bar.node.style.setProperty('--line-at', 100 * line / scale + '%');
    };
  }
}
