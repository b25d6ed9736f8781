/* The result of the check: valid, or the errors of the text, each with its line. */
import {fill, h} from '../elements/dom.js';
import {icon} from '../elements/icons.js';
import {button} from '../elements/widgets.js';
import {plural, sentence} from '../text/format.js';

import {mayPass} from './draft.js';
import {lineOf, places} from './json.js';

/** @typedef {import('../service/api.js').ApiError} ApiError */
/** @typedef {import('./editor.js').Editor} Editor */

/**
 * The lines with errors; if the text is no JSON, the line that the message names.
 * @param {ApiError} e
 * @param {Map<string, number>} found
 */
function badLines(e, found) {
  if (e.errors.length) {
    return e.errors.map((x) => lineOf(found, x.pointer));
  }
  const at = /line (\d+)/.exec(e.message);
  return at ? [Number(at[1]) - 1] : [];
}

export class Verdict {
  /** @param {Editor} editor */
  constructor(editor) {
    this.editor = editor;
    this.state = h('p', {class: 'json-state', role: 'status'});
    this.list = h('ul', {class: 'fault-list'});
  }

  /**
   * @param {string} tone
   * @param {string} name of the icon
   * @param {string} text
   */
  say(tone, name, text) {
    fill(this.state, icon(name, 12), h('span', {text}));
    this.state.dataset.tone = tone;
  }

  showValid() {
    this.editor.mark([]);
    this.say('ok', 'check', 'valid');
    fill(this.list);
  }

  /**
   * Whether the service refused the job; else it was not checked at all.
   * @param {ApiError} e
   * @param {Api.Fault[]} homeless errors that no field has
   */
  showErrors(e, homeless) {
    const whole = {pointer: '', message: e.message + (e.hint ? '; ' + e.hint : '')};
    const faults =
        e.errors.length ? [...homeless, ...e.errors.filter((x) => !homeless.includes(x))] : [whole];
    const found = places(this.editor.text);
    const refused = e.status === 400 || e.status === 422;
    this.editor.mark(badLines(e, found));
    if (mayPass(e)) {
      this.say('warn', 'warn', 'not checked yet; the service is asked again');
    } else {
      this.say('bad', 'cross', refused ? plural(faults.length, 'error') : 'not checked');
    }
    fill(this.list, faults.map((x) => this.item(x, lineOf(found, x.pointer))));
    return refused;
  }

  /**
   * @param {Api.Fault} fault
   * @param {number} line
   */
  item({pointer, message}, line) {
    const go = button(pointer, () => this.editor.select(line), {class: 'plain'});
    return h('li', null, pointer ? [go, ' '] : null, sentence(message));
  }
}
