/* The sentence: which run reaches the common accuracy first, and by how much; then what the others
   lose their time with. */
import {fill, h, say} from '../../elements/dom.js';
import {active} from '../../elements/states.js';
import {isVirtual} from '../../measures/measures.js';
import {known, list, loss, percent, span, spans} from '../../text/format.js';

import {letterOf, runKey} from './letters.js';
import {bestAccuracy, guesses, leastLoss, timeTo, waitShare} from './model.js';
import {seedNote, seedWords} from './seeds.js';

/** @typedef {import('./model.js').CompareModel} CompareModel */
/** @typedef {import('./model.js').Run} Run */

const MUCH_WAITING = 0.1;
const MEANT = 0.01; /* in accuracy: less is no difference */

/**
 * @param {Run} run
 * @param {number} i
 */
function noteOf(run, i) {
  const wait = waitShare(run);
  const stale = run.job.staleness?.node_mean || 0;
  return [
    guesses(run) && letterOf(i) + ' is no better than guessing.',
    wait > MUCH_WAITING && 'Nodes of ' + letterOf(i) + ' wait ' + percent(wait, 0) + ' of a step.',
    stale > 0 && 'Gradients of ' + letterOf(i) + ' are ' + stale.toFixed(1) + ' versions old.'
  ].filter(Boolean)
      .join(' ');
}

/**
 * Says that another run gets further than the one that is first at the common accuracy; '' if the
 * first one does.
 * @param {Run[]} runs
 * @param {number} goal accuracy that they reach
 */
export function furtherNote(runs, goal) {
  const timed = runs.map((run, i) => ({i, time: timeTo(run, goal), best: bestAccuracy(run)}))
                    .filter((x) => known(x.time));
  const [first] = [...timed].sort((a, b) => a.time - b.time);
  const [most] = [...timed].sort((a, b) => b.best - a.best);
  return first && most.best - first.best > MEANT
      ? ' ' + letterOf(most.i) + ' gets further: ' + percent(most.best) + ' at best; ' +
          letterOf(first.i) + ' ' + percent(first.best) + '.'
      : '';
}

/**
 * Which runs have times of another clock.
 * @param {Run[]} runs
 */
function virtualNote(runs) {
  const letters = runs.flatMap((r, i) => (isVirtual(r.job) ? [letterOf(i)] : []));
  const which = letters.length === runs.length ? 'All times' : 'The times of ' + list(letters);
  return letters.length ? ' ' + which + ' are virtual.' : '';
}

/** @implements {Page.Part} */
export class Sentence {
  /** @param {CompareModel} data */
  constructor(data) {
    this.data = data;
    this.sentence = h('p', {class: 'lead'});
    this.evidence = h('p', {class: 'sub evidence'});
    this.node = h('section', {'aria-label': 'Verdict'}, this.sentence, this.evidence);
  }

  update() {
    const {runs} = this.data;
    fill(this.sentence, this.words());
    say(this.evidence,
        runs.map(noteOf).filter(Boolean).join(' ') +
            (runs.some((r) => active(r.job.state))
                    ? ' Runs that still train are taken as they are now.'
                    : '') +
            virtualNote(runs) + furtherNote(runs, this.data.commonGoal()) +
            seedNote(runs, this.data.commonGoal()));
  }

  words() {
    const {runs} = this.data;
    if (runs.length < 2) {
      return ['Add another run to compare ', runKey(0), ' with.'];
    }
    const goal = this.data.commonGoal();
    const [first, ...rest] = runs.map((run, i) => ({i, time: timeTo(run, goal)}))
                                 .filter((x) => known(x.time))
                                 .sort((a, b) => a.time - b.time);
    const learned = runs.flatMap((r, i) => (r.tests.length && !guesses(r) ? [i] : []));
    if (rest.length === 0 && learned.length < 2 && runs.some(guesses)) {
      return learned.length ? ['Only ', runKey(learned[0]), ' learned more than guessing gives.']
                            : ['No run is better than guessing, so there is nothing to compare.'];
    }
    if (rest.length === 0) {
      return this.byLoss() ||
          ['There is nothing to compare yet: fewer than two runs have a test result.'];
    }
    const timed = [first, ...rest];
    if (new Set(timed.map((x) => isVirtual(runs[x.i].job))).size > 1) {
      return this.twoClocks(timed, goal);
    }
    const seeds = seedWords(runs, goal);
    if (seeds) {
      return seeds.map((word) => (typeof word === 'number' ? runKey(word) : word));
    }
    const [took, ...leads] = spans(first.time, ...rest.map((x) => x.time - first.time));
    const later = rest.map((x, k) => {
      const between = k > 0 && k === rest.length - 1 ? ' and ' : ', ';
      return [between, leads[k] + ' before ', runKey(x.i)];
    });
    return [runKey(first.i), ' reaches ' + percent(goal, 0) + ' in ' + took, later, '.'];
  }

  /* For runs without accuracy, such as those that predict numbers: which has the least loss. */
  byLoss() {
    const {runs} = this.data;
    const [first, ...rest] = runs.map((run, i) => ({i, least: leastLoss(run)}))
                                 .filter((x) => known(x.least))
                                 .sort((a, b) => a.least - b.least);
    if (rest.length === 0 || runs.some((r) => bestAccuracy(r) >= 0)) {
      return null;
    }
    const others = rest.map((x) => ['; ', runKey(x.i), ' has ' + loss(x.least)]);
    return [runKey(first.i), ' has the least test loss, ' + loss(first.least), others, '.'];
  }

  /**
   * Times of two clocks, which are not before or after each other.
   * @param {{i: number, time: number}[]} timed
   * @param {number} goal
   */
  twoClocks(timed, goal) {
    const {runs} = this.data;
    return timed.map(({i, time}, k) => [k === 0       ? ''
                             : k === timed.length - 1 ? ' and '
                                                      : ', ',
                         runKey(i),
                         (k === 0 ? ' reaches ' + percent(goal, 0) : '') + ' in ' + span(time) +
                             (isVirtual(runs[i].job) ? ' of virtual time' : '') +
                             (k === timed.length - 1 ? '; these are different clocks.' : '')]);
  }
}
