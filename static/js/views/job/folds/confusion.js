/* The confusion matrix of the test set, and the samples with the greatest loss as pictures. The
   service evaluates the model when this row is opened for the first time; that may take a while. */
import {fill, h, say} from '../../../elements/dom.js';
import {draw as drawPicture} from '../../../elements/picture.js';
import {ended} from '../../../elements/states.js';
import {button, notice, scroller, table} from '../../../elements/widgets.js';
import {hasAccuracy} from '../../../measures/measures.js';
import {get, job as path} from '../../../service/api.js';
import {loss, percent, whole} from '../../../text/format.js';

import {Fold} from './fold.js';

/** @typedef {import('../view.js').JobView} JobView */

/** Classes above which pairs are listed in place of the matrix. */
const SQUARE_MOST = 20;
const PAIRS_MOST = 20;

/** @param {Api.ScoredClass} c */
const nameOf = (c) => c.name ?? String(c.class);

/** @param {Api.Scored} scored */
export function pairs(scored) {
  const found = scored.confusion.flatMap(
      (row, label) => row.map((count, answer) => ({label, answer, count})));
  return found.filter((p) => p.label !== p.answer && p.count > 0)
      .sort((a, b) => b.count - a.count)
      .slice(0, PAIRS_MOST);
}

/** @param {Api.Scored} scored */
function square(scored) {
  const heads = scored.classes.map((c) => /** @type {[string, string]} */ ([nameOf(c), 'num']));
  const rows = scored.confusion.map((row, label) => {
    const all = Math.max(1, scored.classes[label].samples);
    return h('tr', null, h('th', {scope: 'row', text: nameOf(scored.classes[label])}),
        row.map((count, answer) => {
          const cell = h('td', {class: label === answer ? 'num right' : 'num', text: whole(count)});
          cell.style.setProperty('--share', String(count / all));
          return cell;
        }),
        h('td', {
          class: 'num',
          text: percent(scored.classes[label].samples ? scored.classes[label].right / all : NaN)
        }));
  });
  return scroller('Confusion matrix, table',
      table('A row for each class, a column for each answer',
          ['is \\ answered', ...heads, ['right', 'num']], h('tbody', null, rows),
          'dense confusion'));
}

/** @param {Api.Scored} scored */
function list(scored) {
  const rows =
      pairs(scored).map((p) => h('tr', null, h('td', {text: nameOf(scored.classes[p.label])}),
                            h('td', {text: nameOf(scored.classes[p.answer])}),
                            h('td', {class: 'num', text: whole(p.count)})));
  return scroller('What is confused most often, table',
      table('What is confused most often', ['is', 'answered', ['samples', 'num']],
          h('tbody', null, rows), 'dense'));
}

/** @param {Api.Scored} scored */
function worst(scored) {
  return h('ul', {class: 'worst'}, scored.worst.map((w) => {
    const is = nameOf(scored.classes[w.label]), answer = nameOf(scored.classes[w.answer]);
    const text = w.label === w.answer ? is + ', answered so' : is + ', answered ' + answer;
    return h('li', null, w.picture && drawPicture(w.picture, 'Sample ' + w.sample + ': ' + text),
        h('span', {text}),
        h('span', {class: 'quiet', text: 'sample ' + w.sample + ', loss ' + loss(w.loss)}));
  }));
}

export class Confusion {
  /** @param {JobView} view */
  constructor(view) {
    this.data = view.data;
    this.fold = new Fold('confusion', 'Confusion', () => this.draw());
    this.asked = false;
  }

  draw() {
    const over = ended(this.data.job.state);
    /* numbers that are predicted are not confused, and a user's program alone knows its network */
    this.fold.node.hidden =
        Boolean(this.data.job.spec?.program) || !hasAccuracy(this.data.job, this.data.evaluations);
    say(this.fold.note, over ? 'what the model takes for what' : 'once the job has ended');
    if (over && this.fold.open && !this.asked) {
      this.asked = true;
      this.ask();
    }
  }

  async ask() {
    fill(this.fold.body, h('p', {class: 'quiet', role: 'status', text: 'Evaluating the model …'}));
    try {
      this.show(await get(path(this.data.id, 'confusion')));
    } catch (e) {
      fill(this.fold.body, notice('warn', /** @type {Error} */ (e).message),
          button('Try again', () => this.ask()));
    }
  }

  /** @param {Api.Scored} scored */
  show(scored) {
    const {right, samples} = scored;
    fill(this.fold.body, h('p', {
      text: whole(right) + ' of ' + whole(samples) + ' test samples are classified correctly (' +
          percent(right / Math.max(1, samples)) + ').'
    }),
        scored.classes.length <= SQUARE_MOST ? square(scored) : list(scored),
        h('h3', {text: 'Samples with the greatest loss'}), worst(scored));
  }
}
