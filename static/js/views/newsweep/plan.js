/* The preview of a sweep: the number of its jobs, and the settings of its first trials. */
import {fill, h} from '../../elements/dom.js';
import {numeric, scroller, table} from '../../elements/widgets.js';
import {list, plural} from '../../text/format.js';
import {settingText, titleOf} from '../sweeps/words.js';

/** @param {Api.SweepPlan} plan */
export function planSentence({trials, jobs, rungs}) {
  const halving = rungs.filter((r) => r.epochs);
  const steps = halving.map((r) => r.trials + ' to ' + plural(r.epochs || 0, 'epoch'));
  return plural(trials, 'trial') + ', ' + plural(jobs, 'job') +
      (halving.length ? ': ' + list(steps) + '.' : '.');
}

export class Plan {
  constructor() {
    this.sentence = h('p', {id: 'sweep-plan', role: 'status'});
    this.body = h('div');
    this.node = h('section', {class: 'sweep-plan', hidden: true, 'aria-label': 'Trials'},
        h('div', {class: 'row-title'}, h('h2', {text: 'What there would be'})), this.sentence,
        this.body);
  }

  /** @param {Api.SweepPlan} plan */
  show(plan) {
    const [first] = plan.settings;
    const pointers = Object.keys(first || {}), titles = pointers.map((p) => titleOf(p));
    const rows = plan.settings.map(
        (settings, i) => h('tr', null, h('td', {class: 'num', text: i + 1}),
            pointers.map((p) => h('td', {class: 'num', text: settingText(settings[p])}))));
    const more = plan.trials - plan.settings.length;
    this.node.hidden = false;
    this.sentence.textContent = planSentence(plan);
    fill(this.body,
        scroller(
            'Trials, table', table('Trials', numeric('Trial', ...titles), h('tbody', null, rows))),
        more > 0 && h('p', {class: 'note', text: 'and ' + more + ' more'}));
  }

  hide() {
    this.node.hidden = true;
  }
}
