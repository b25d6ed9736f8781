/* A sweep: what was asked for, the best so far, settings and results of all trials. */
import {fill, h, refill, say} from '../../elements/dom.js';
import {pill, setPill} from '../../elements/states.js';
import {button, notice, question} from '../../elements/widgets.js';
import {mayChangeThis} from '../../service/rights.js';
import {plural, when} from '../../text/format.js';
import {MOST} from '../compare/model.js';

import {SweepModel} from './model.js';
import {Parallel} from './parallel.js';
import {Progress} from './progress.js';
import {Trials} from './trials.js';
import {bestJobs, sentenceOf} from './words.js';

/** @param {Api.Sweep} sweep */
function facts({method, parameters, seeds, parallel, nodes, owner, created, id}) {
  const budget = plural(parallel, 'job') + ' at a time' +
      (nodes ? ', on at most ' + plural(nodes, 'node') : '');
  return [
    h('span', null, h('b', {text: method.type}), ' over ' + plural(parameters.length, 'parameter')),
    method.rungs && h('span', {
      text: 'rungs of ' + method.rungs.join(', ') + ' epochs, 1 in ' + method.eta + ' goes on'
    }),
    seeds > 1 && h('span', {text: plural(seeds, 'seed') + ' each'}), h('span', {text: budget}),
    h('span', {text: 'started ' + when(created) + (owner ? ' by ' + owner : '')}),
    h('span', {class: 'mono quiet', text: id})
  ];
}

class SweepView {
  /**
   * @param {Element} root
   * @param {SweepModel} data
   */
  constructor(root, data) {
    this.data = data;
    this.parts = [new Parallel(data), new Progress(data), new Trials(data)];
    this.state = pill(data.sweep.state);
    this.sentence = h('p', {class: 'lead', id: 'sweep-sentence', role: 'status'});
    this.actions = h('div', {class: 'actions'});
    this.question = h('div', {class: 'ask-place', role: 'alert'});
    fill(root, h('p', {class: 'crumbs'}, h('a', {href: '#/sweeps', text: 'Sweeps'}), ' /'),
        h('div', {class: 'head'},
            h('div', {class: 'title'}, h('h1', {text: data.sweep.name}), this.state), this.actions),
        h('p', {class: 'facts'}, facts(data.sweep)), this.question, this.sentence,
        h('div', {class: 'sheet'}, this.parts.map((part) => part.node)));
    data.addEventListener('change', () => this.draw());
  }

  draw() {
    const {sweep} = this.data;
    this.state = setPill(this.state, sweep.state);
    say(this.sentence, sentenceOf(sweep, sweep.trials));
    const best = bestJobs(sweep, MOST);
    refill(this.actions, [sweep.state, ...best].join(), () => this.buttons(best));
    this.parts.forEach((part) => part.update());
  }

  /** @param {string[]} best jobs of the best trials */
  buttons(best) {
    const {state} = this.data.sweep, own = mayChangeThis(this.data.sweep);
    const cancel = () => this.ask('This ends the sweep and all its jobs that run or wait.',
        'Cancel sweep', () => this.data.cancel());
    const forget = () =>
        this.ask('This forgets the sweep; its jobs stay.', 'Delete sweep', async () => {
          await this.data.remove();
          location.hash = '#/sweeps';
        });
    const compare = {class: 'btn', href: '#/compare?runs=' + best.join(), id: 'sweep-compare'};
    return [
      best.length > 1 && h('a', {...compare, text: 'Compare the best ' + best.length}),
      own && state === 'running' && button('Cancel', cancel, {id: 'sweep-cancel'}),
      own && this.data.ended() && button('Delete', forget, {id: 'sweep-delete'})
    ];
  }

  /**
   * @param {string} text
   * @param {string} yes
   * @param {() => Promise<void>} act
   */
  ask(text, yes, act) {
    const back = () => {
      fill(this.question);
      this.actions.querySelector('button')?.focus();
    };
    const confirm = button(yes, async () => {
      fill(this.question);
      try {
        await act();
      } catch (e) {
        fill(this.question, notice('bad', /** @type {Error} */ (e).message));
      }
    }, {class: 'btn danger'});
    fill(this.question, question(text, [confirm], 'Keep it', back));
    confirm.focus();
  }

  close() {
    this.data.close();
    this.parts.forEach((part) => 'plot' in part && part.plot.close());
  }
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 */
export async function show(root, route) {
  const data = new SweepModel(route.args[0]);
  await data.load();
  if (!route.alive()) {
    return {};
  }
  document.title = data.sweep.name + ' · Evenstep';
  const view = new SweepView(root, data);
  view.draw();
  data.start();
  return view;
}
