/* The result of the dry run: warnings that no field shows, the nodes, what is predicted, and in one
   line the size of the model. */
import {fill, h, say} from '../../elements/dom.js';
import {notice, scroller, table} from '../../elements/widgets.js';
import {bytes, known, plural, sentence, whole} from '../../text/format.js';

import {predictionOf} from './prediction.js';
import {Trials} from './trials.js';

/** @param {Api.PlannedNode} n */
function planRow(n) {
  const memory = known(n.memory_bytes) ? 'about ' + bytes(n.memory_bytes) : 'not known';
  const batch = n.batch ? whole(n.batch) : 'not known'; /* a program tells its own */
  return h('tr', null, h('td', {class: 'num', text: String(n.rank)}),
      h('td', {class: 'strong', text: n.node}), h('td', {class: 'quiet', text: n.device}),
      h('td', {class: 'num', text: batch}), h('td', {class: 'num', text: memory}));
}

/** @param {Api.PlannedNode[]} nodes */
function plan(nodes) {
  return scroller('Where it would run, table',
      table('Where it would run',
          [['Rank', 'num'], 'Node', 'Device', ['First minibatch', 'num'], ['Memory needed', 'num']],
          h('tbody', null, nodes.map(planRow))));
}

/**
 * @param {Api.DryRun} answer
 * @param {Api.Spec} spec
 */
function samplesOf(answer, spec) {
  const drawn = spec.data?.format === 'glyphs' ? spec.data.samples || 60000 : NaN;
  return answer.samples || drawn;
}

export class Expectation {
  /**
   * @param {(strategy: string) => void} choose
   * @param {string[]} strategies that there are
   * @param {() => Api.Spec} current the job as it is written now
   * @param {() => void} ask what to expect now, since nodes became free
   */
  constructor(choose, strategies, current, ask) {
    this.choose = choose;
    this.trials = new Trials(strategies, current, () => this.drawPrediction(), ask);
    this.prediction = h('div');
    /** @type {Api.DryRun} */
    this.answer = {};
    this.body = h('div', {class: 'expect-body'});
    this.note = h('span', {class: 'note'});
    this.foot = h('span', {class: 'quiet', text: ''});
    /** Whether a valid version was shown. */
    this.shown = false;
    this.node = h('section', {class: 'expect', 'aria-label': 'What to expect'},
        h('div', {class: 'row-title'}, h('h2', {text: 'What to expect'}), this.note), this.body,
        this.prediction, this.trials.node);
  }

  /**
   * @param {Api.DryRun} answer
   * @param {Api.Spec} spec
   * @param {Api.Fault[]} warnings
   */
  show(answer, spec, warnings) {
    const {starts, nodes = []} = answer;
    this.shown = true;
    this.answer = answer;
    this.trials.show(answer, spec, samplesOf(answer, spec));
    say(this.note, starts && starts !== 'now' ? starts : 'starts as soon as it is submitted');
    fill(this.body, warnings.map((w) => notice('warn', sentence(w.message))),
        nodes.length > 0 && plan(nodes));
    this.drawPrediction();
    this.drawFoot(answer, samplesOf(answer, spec));
  }

  drawPrediction() {
    fill(this.prediction, predictionOf(this.trials.instead(this.answer.prediction), this.choose));
  }

  /**
   * @param {Api.DryRun} answer
   * @param {number} samples
   */
  drawFoot(answer, samples) {
    const global = answer.spec?.batching?.global_batch;
    const steps = Math.ceil(samples / (global || 1));
    const {parameters} = answer; /* null of a program, which brings them */
    say(this.foot,
        [
          known(parameters) && whole(parameters) + ' parameters',
          known(samples) && whole(samples) + ' training samples',
          known(steps) &&
              'about ' + plural(steps, 'step') + ' of ' + whole(Math.min(global || 0, samples)) +
                  ' samples in an epoch'
        ].filter(Boolean)
            .join(', ')
            .replace(/.$/, '$&.'));
  }

  /* Marks the result as outdated: the text has changed and is not valid. */
  outdate() {
    if (this.shown) {
      say(this.note, 'of the last valid version');
    }
  }
}
