/* Only those settings that differ. */
import {fill, h} from '../../dom.js';
import {flatten} from '../../spec.js';

import {runHeads} from './results.js';

/** @typedef {import('./model.js').CompareModel} CompareModel */

/** @implements {Page.Part} */
export class Differences {
  /** @param {CompareModel} data */
  constructor(data) {
    this.data = data;
    this.node = h('table', {class: 'differs'});
  }

  update() {
    const settings = this.data.runs.map((r) => new Map(flatten(r.job.spec || {})));
    const all = [...new Set(settings.flatMap((f) => [...f.keys()]))];
    const keys = all.filter((k) => k !== 'name' && new Set(settings.map((f) => f.get(k))).size > 1);
    const rows =
        keys.map((k) => h('tr', null, h('td', {class: 'mono', text: k}),
                     settings.map((f) => h('td', {class: 'num', text: f.get(k) ?? 'none'}))));
    fill(this.node, h('caption', {class: 'sr', text: 'Settings that differ'}),
        runHeads('Setting', settings.length),
        h('tbody', null, rows.length ? rows : this.none(settings.length)));
  }

  /** @param {number} runs */
  none(runs) {
    const text = runs > 1 ? 'nothing but the name' : 'one run only';
    return h('tr', null, h('td', {colspan: String(runs + 1), class: 'quiet', text}));
  }
}
