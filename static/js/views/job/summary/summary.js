/* The sentence, its evidence and what to do about it, four numbers, and beside them the node table,
   which is also the page's colour key; above it the first error of a job that failed. */
import {fill, h, say} from '../../../elements/dom.js';
import {plain, verdict} from '../../../sentences/verdict.js';

import {Advice} from './advice.js';
import {failedAlike, FirstError} from './firsterror.js';
import {NodeTable} from './nodetable.js';
import {Remedies} from './remedies.js';
import {Tiles} from './tiles.js';
import {WhatIf} from './whatif.js';

/** @typedef {import('../view.js').JobView} JobView */

const KEEP_MS = 10000;

/** @implements {Page.Part} */
export class Summary {
  /** @param {JobView} view */
  constructor(view) {
    this.view = view;
    this.data = view.data;
    this.key = view.key;
    this.sentence = h('p', {class: 'lead', id: 'verdict', 'aria-live': 'polite'});
    this.evidence = h('p', {class: 'sub evidence'});
    this.advice = new Advice();
    this.remedies = new Remedies(view);
    this.error = new FirstError(view);
    this.tiles = new Tiles(view);
    this.nodes = new NodeTable(view);
    this.whatif = new WhatIf(view);
    this.node = h('section', {class: 'summary', 'aria-label': 'Summary'},
        h('div', {class: 'says'}, this.sentence, this.evidence, this.advice.node,
            this.remedies.node, this.tiles.node),
        h('div', {class: 'nodes-side'}, this.error.node, this.nodes.node, this.whatif.node));
    this.shown = {key: '', at: 0, text: ''};
  }

  update() {
    const {job} = this.data;
    const alike = job.state === 'failed' && failedAlike(this.view.logs?.linesOf('all') || [], job);
    const v = verdict(job, this.data.placed(), {...this.data.learned, alike});
    this.drawSentence(v);
    this.remedies.update();
    this.error.update();
    this.tiles.update();
    this.nodes.update(v.straggler);
    this.whatif.update();
    this.node.classList.toggle('many', (job.workers || []).length > 8);
  }

  close() {
    this.whatif.close();
  }

  /* The sentence changes at most every ten seconds, and at once only when its cause does. */
  /** @param {Page.Verdict} v */
  drawSentence(v) {
    const text = plain(v.parts);
    const now = performance.now();
    const {shown} = this;
    if (text === shown.text || (v.key === shown.key && now - shown.at < KEEP_MS)) {
      return;
    }
    this.shown = {key: v.key, at: now, text};
    this.advice.update(v);
    const who = (/** @type {string} */ name) =>
        h('b', {class: 'who'}, this.key.mark(name, 12), name);
    fill(this.sentence, v.parts.map((p) => (typeof p === 'string' ? p : who(p.node))));
    say(this.evidence, v.evidence || '');
  }
}
