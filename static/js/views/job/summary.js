/* The sentence, its evidence, the first error of a failed job, four numbers, and beside them the
   node table, which is also the page's colour key. */
import {fill, h, refill, say} from '../../dom.js';
import {known} from '../../format.js';
import {icon} from '../../icons.js';
import {plain, verdict} from '../../verdict.js';

import {NodeTable} from './nodetable.js';
import {Tiles} from './tiles.js';

/** @typedef {import('./view.js').JobView} JobView */

const KEEP_MS = 10000;

/**
 * Where an error came from: rank, node, attempt, code.
 * @param {Api.JobError} e
 */
function placeOf(e) {
  return [
    known(e.rank) && e.rank >= 0 ? 'rank ' + e.rank : '', e.node ? 'on ' + e.node : '',
    e.attempt ? 'attempt ' + e.attempt : '', e.code || ''
  ].filter(Boolean)
      .join(', ');
}

/** @param {Api.JobError} e */
function firstError(e) {
  return h('div', {class: 'first-error'},
      h('p', {class: 'first-error-head'}, icon('cross', 12), h('b', {text: 'First error'}),
          h('span', {text: placeOf(e)})),
      h('pre', {class: 'mono', text: e.message || 'no message'}));
}

/** @implements {Page.Part} */
export class Summary {
  /** @param {JobView} view */
  constructor(view) {
    this.data = view.data;
    this.key = view.key;
    this.sentence = h('p', {class: 'lead', id: 'verdict', 'aria-live': 'polite'});
    this.evidence = h('p', {class: 'sub evidence'});
    this.failure = h('div', {class: 'failure-box'});
    this.tiles = new Tiles(view);
    this.nodes = new NodeTable(view);
    this.node = h('section', {class: 'summary', 'aria-label': 'Summary'},
        h('div', {class: 'says'}, this.sentence, this.evidence, this.failure, this.tiles.node),
        this.nodes.node);
    this.shown = {key: '', at: 0, text: ''};
  }

  update() {
    const {job} = this.data;
    const v = verdict(job, this.data.assignments);
    this.drawSentence(v);
    const error = job.state === 'failed' || job.state === 'queued' ? job.error : null;
    refill(this.failure, error ? JSON.stringify(error) : '', () => error && firstError(error));
    this.tiles.update();
    this.nodes.update(v.straggler);
    this.node.classList.toggle('many', (job.workers || []).length > 8);
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
    const who = (/** @type {string} */ name) =>
        h('b', {class: 'who'}, this.key.mark(name, 12), name);
    fill(this.sentence, v.parts.map((p) => (typeof p === 'string' ? p : who(p.node))));
    say(this.evidence, v.evidence || '');
  }
}
