/* A user's program in place of a network: one that the service has, or one that is uploaded here as
   a folder or an archive; then its command and its arguments. */
import {Input, Select} from '../../draft/fields.js';
import {fill, h} from '../../elements/dom.js';
import {ApiError, post} from '../../service/api.js';
import {mayBringPrograms} from '../../service/rights.js';
import {bytes, plural, sentence} from '../../text/format.js';

import {chooser} from './chooser.js';
import {packed, TAR} from './tar.js';

/** @typedef {import('../../draft/fields.js').OnChange} OnChange */
/** @typedef {import('./model.js').SubmitModel} SubmitModel */

const NONE = '';
const ONE = 'the service runs it on each node';
const HELP = ONE + '; a folder is uploaded without hidden files';
const MOST_BYTES = 64 * 2 ** 20;

/** @param {Api.Program} p */
const keyOf = (p) => p.digest || p.name || NONE;

/** @param {Api.Program} p */
function labelOf({name, digest = '', description, files, by}) {
  const about = [digest.slice(0, 8), files && plural(files, 'file'), by && 'by ' + by];
  return name || (description || 'uploaded') + ' (' + about.filter(Boolean).join(', ') + ')';
}

/* Which program: none means a network of ours. */
class Choice extends Select {
  /** @param {SubmitModel} data */
  constructor(data) {
    super('/program', 'Train', {choices: [[NONE, 'a network of ours']], onChange: () => {}});
    this.data = data;
    this.control.addEventListener('change', () => this.choose(this.control.value));
    this.said = h('span', {class: 'quiet', role: 'status'});
    const folder = {webkitdirectory: true, multiple: true, id: 'program-folder'};
    const tar = {accept: '.tar,' + TAR, id: 'program-archive'};
    this.node.append(h('div', {class: 'actions', hidden: !mayBringPrograms()},
        chooser('Upload a folder', folder, (chosen) => this.upload(packed(chosen))),
        chooser('Upload a .tar', tar, (chosen) => this.upload(new Blob([chosen[0]], {type: TAR}))),
        this.said));
    data.programs.forEach((p) => this.offer(p));
  }

  /** @param {Api.Program} program */
  offer(program) {
    if (![...this.control.options].some((o) => o.value === keyOf(program))) {
      this.control.append(h('option', {value: keyOf(program), text: labelOf(program)}));
    }
  }

  /** @param {string} key */
  choose(key) {
    const program = this.data.programs.find((p) => keyOf(p) === key);
    const named = program?.digest ? {digest: key} : {name: key};
    this.data.train(program ? named : null);
  }

  /** @param {Blob} body */
  async upload(body) {
    const tooLarge = body.size > MOST_BYTES &&
        'These files have ' + bytes(body.size) + '; ' + bytes(MOST_BYTES) + ' are taken.';
    this.fault(tooLarge ? [tooLarge] : []);
    if (tooLarge) {
      return;
    }
    fill(this.said, 'uploading …');
    try {
      /** @type {Api.Program} */
      const program = await post('programs', body);
      this.data.programs.push(program);
      this.offer(program);
      this.choose(keyOf(program));
      fill(this.said, 'uploaded');
    } catch (e) {
      const {message, errors = []} = /** @type {ApiError} */ (e);
      const all = errors.length ? errors.map((x) => x.message) : [message];
      this.fault(all.map(sentence));
      fill(this.said, 'not uploaded');
    }
  }

  /** @param {any} value the spec's program */
  show(value) {
    const key = value ? value.digest || value.name || 'a command' : NONE;
    const known = this.data.programs.find((p) => keyOf(p) === key);
    super.show(key);
    const help = mayBringPrograms() ? HELP : ONE;
    this.note.textContent = known?.description ? sentence(known.description) : help;
  }
}

/* Words with spaces between, which are there where a program is. */
class Words extends Input {
  /**
   * @param {any} value
   * @param {Api.Spec} [spec]
   */
  show(value, spec) {
    this.node.hidden = !spec?.program;
    super.show(Array.isArray(value) ? value.join(' ') : value);
  }
}

/**
 * The fields of a program, in their order.
 * @param {SubmitModel} data
 * @param {OnChange} onChange
 */
export function programFields(data, onChange) {
  const words = (/** @type {string} */ pointer, /** @type {string} */ label,
      /** @type {string} */ help) => new Words(pointer, label, {kind: 'words', help, onChange});
  return [
    new Choice(data),
    words('/program/command', 'Command', 'where the program’s manifest has none: python3 train.py'),
    words('/program/args', 'Arguments', 'those with spaces in them are given in the JSON')
  ];
}
