/* One sentence about the cluster, and one line of evidence. */
import {h, say} from '../../elements/dom.js';
import {trains} from '../../elements/states.js';
import {isVirtual, remaining, stepTimes} from '../../measures/measures.js';
import {serviceNow} from '../../service/servicetime.js';
import {clock, known, percent, plural} from '../../text/format.js';

/** @typedef {import('./model.js').JobsModel} JobsModel */

/**
 * @param {number} n
 * @param {string} one
 * @param {string} many
 */
const count = (n, one, many) => (n === 1 ? one : n + many);

/** @implements {Page.Part} */
export class Lead {
  /** @param {JobsModel} data */
  constructor(data) {
    this.data = data;
    this.sentence = h('h1', {class: 'lead'});
    this.evidence = h('p', {class: 'sub'});
    this.node = h('div', null, this.sentence, this.evidence);
  }

  update() {
    const run = this.data.running();
    const waiting = this.data.waits();
    say(this.sentence, run.length ? this.trains(run, waiting) : this.rests(waiting));
    say(this.evidence, [busyText(run), waiting && nextText(run)].filter(Boolean).join(' '));
  }

  /**
   * @param {Api.Job[]} run
   * @param {string} waiting
   */
  trains(run, waiting) {
    const virtual = run.filter(isVirtual).length, real = run.length - virtual;
    const all = this.data.nodes;
    const nodes = all.filter(trains).length + ' of ' + plural(all.length, 'node');
    const wait = waiting ? ', ' + waiting + (waiting === '1' ? ' waits.' : ' wait.') : '.';
    const others = real && virtual ? ', and ' + count(virtual, 'one', '') + ' on virtual nodes'
                                   : '';
    return count(real || virtual, 'One job trains', ' jobs train') + ' on ' +
        (real ? nodes : 'virtual nodes') + others + wait;
  }

  /** @param {string} waiting */
  rests(waiting) {
    const all = this.data.nodes.length;
    if (waiting) {
      return 'No jobs are running; ' +
          (waiting === '1' ? 'one job waits.' : waiting + ' jobs wait.');
    }
    const free = this.data.count('ready');
    const some = free + ' of ' + plural(all, 'node') + (free === 1 ? ' is free.' : ' are free.');
    const every = all === 1 ? 'The node is free.' : 'All ' + plural(all, 'node') + ' are free.';
    return 'No jobs are running. ' +
        (all ? (free === all ? every : some) : 'There is no node yet.');
  }
}

/**
 * Counts virtual nodes only if there are no others.
 * @param {Api.Job[]} run
 */
function busyText(run) {
  const real = run.filter((j) => !isVirtual(j));
  const steps = (real.length ? real : run)
                    .flatMap((j) => stepTimes(j.workers || []))
                    .filter((s) => s.all > 0);
  const share = steps.reduce((sum, s) => sum + s.compute / s.all, 0) / steps.length;
  return known(share) &&
      'At present the busy nodes spend ' + percent(share, 0) + ' of a step computing.';
}

/** @param {Api.Job[]} run */
function nextText(run) {
  const rests = run.map(remaining).filter(known);
  return rests.length > 0 &&
      'The next place in the queue opens about ' +
      clock(new Date(serviceNow() + Math.min(...rests) * 1000)) + '.';
}
