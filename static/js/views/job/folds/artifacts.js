/* The files that the job wrote, for download, and the lines that load its model in PyTorch. */
import {fill, h, say} from '../../../elements/dom.js';
import {ended} from '../../../elements/states.js';
import {scroller, table} from '../../../elements/widgets.js';
import {get, job as path} from '../../../service/api.js';
import {bytes} from '../../../text/format.js';

import {Fold} from './fold.js';
import {pytorchPart} from './pytorch.js';

/** @typedef {import('../view.js').JobView} JobView */

const MODELS = ['model.safetensors', 'best.safetensors'];
const NAMED_MOST = 6;

/**
 * The first few names with their sizes, and how many more there are.
 * @param {Api.Artifact[]} list
 */
function named(list) {
  const names = list.slice(0, NAMED_MOST).map((a) => a.name + ' (' + bytes(a.bytes) + ')');
  const more = list.length - names.length;
  return names.join(', ') + (more > 0 ? ' and ' + more + ' more' : '');
}

export class Artifacts {
  /** @param {JobView} view */
  constructor(view) {
    this.data = view.data;
    this.fold = new Fold('artifacts', 'Artifacts', () => this.draw());
    this.lines = h('div');
    /** The model whose lines are shown. */
    this.shown = '';
  }

  async draw() {
    /** @type {Api.Artifact[]} */
    let list;
    try {
      list = (await get(path(this.data.id, 'artifacts'))).artifacts || [];
    } catch (e) {
      say(this.fold.note, /** @type {Error} */ (e).message);
      return;
    }
    const none = ended(this.data.job.state) ? 'none was written' : 'written when the job ends';
    say(this.fold.note, list.length === 0 ? none : named(list));
    fill(this.fold.body, list.length > 0 && this.table(list), this.lines);
    if (this.fold.open) {
      await this.drawLines(MODELS.find((m) => list.some((a) => a.name === m)) || '');
    }
  }

  /** @param {string} model */
  async drawLines(model) {
    if (model && model !== this.shown) {
      this.shown = model;
      fill(this.lines, await pytorchPart(this.data.id, model));
    }
  }

  /** @param {Api.Artifact[]} list */
  table(list) {
    const base = '/api/v1/' + path(this.data.id, 'artifacts') + '/';
    const rows = list.map((a) => {
      const parts = a.name.split('/');  // plots/loss.png
      const href = base + parts.map(encodeURIComponent).join('/');
      const download = parts[parts.length - 1];
      return h('tr', null, h('td', null, h('a', {href, download, text: a.name})),
          h('td', {class: 'num', text: bytes(a.bytes)}),
          h('td', {class: 'mono quiet', text: a.sha256 || 'none'}));
    });
    return scroller('Artifacts, table',
        table('Artifacts', ['File', ['Size', 'num'], 'SHA-256'], h('tbody', null, rows), 'dense'));
  }
}
