/* The chosen runs, each with its letter. */
import {h, keyed} from '../../elements/dom.js';
import {icon} from '../../elements/icons.js';
import {pill} from '../../elements/states.js';
import {policyOf, strategyOf} from '../../spec/spec.js';
import {plural} from '../../text/format.js';

import {runKey} from './letters.js';

/** @typedef {import('./model.js').CompareModel} CompareModel */
/** @typedef {import('./model.js').Run} Run */

/** @param {Api.Job} job */
function about({spec, workers = []}) {
  return strategyOf(spec) + ', ' + policyOf(spec) + ' · ' +
      plural(workers.length || spec?.workers || 1, 'node');
}

/** @implements {Page.Part} */
export class Cards {
  /**
   * @param {CompareModel} data
   * @param {(id: string) => void} takeOut
   */
  constructor(data, takeOut) {
    this.data = data;
    this.takeOut = takeOut;
    this.node = h('div', {class: 'runs'});
  }

  update() {
    keyed(this.node, this.data.runs, (r) => r.id + r.job.state, (r, i) => this.card(r, i));
  }

  /**
   * @param {Run} run
   * @param {number} i
   */
  card(run, i) {
    const {job} = run;
    const out = h('button', {
      type: 'button',
      class: 'btn ghost icon',
      'aria-label': 'Take ' + job.name + ' out',
      title: 'Take out',
      on: {click: () => this.takeOut(run.id)}
    },
        icon('cross', 12));
    const name = h('a', {href: '#/jobs/' + run.id, text: job.name});
    return h('div', {class: 'run-card'}, runKey(i),
        h('div', null, name, h('p', {text: about(job)})), pill(job.state), out);
  }
}
