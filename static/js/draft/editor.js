/* The JSON of a form in an editor: a text field over coloured lines. Lines with errors are marked.
 */
import {fill, h} from '../elements/dom.js';

import {colour} from './json.js';

export class Editor {
  /**
   * @param {(text: string) => void} onInput
   * @param {string} [label]
   */
  constructor(onInput, label = 'The job as JSON') {
    this.back = h('div', {class: 'back', 'aria-hidden': 'true'});
    this.area = h('textarea', {
      spellcheck: 'false',
      autocomplete: 'off',
      'aria-label': label,
      id: 'json',
      on: {
        input: () => {
          this.draw();
          onInput(this.area.value);
        }
      }
    });
    this.node = h('div', {class: 'editor'}, this.back, this.area);
    /** @type {Set<number>} */
    this.bad = new Set();
  }

  draw() {
    fill(this.back,
        this.area.value.split('\n').map(
            (line, i) => h('div', {class: this.bad.has(i) ? 'bad-line' : null},
                colour(line).map(([cls, text]) => h('span', {class: cls, text})))));
  }

  get text() {
    return this.area.value;
  }

  /** @param {string} text */
  set(text) {
    if (this.area.value !== text) {
      this.area.value = text;
      this.draw();
    }
  }

  /**
   * As if the text had been typed.
   * @param {string} text
   */
  replace(text) {
    this.set(text);
    this.area.dispatchEvent(new Event('input'));
  }

  /** @param {number[]} lines */
  mark(lines) {
    this.bad = new Set(lines);
    this.draw();
  }

  /** @param {number} line */
  select(line) {
    const lines = this.area.value.split('\n');
    const from = lines.slice(0, line).reduce((n, l) => n + l.length + 1, 0);
    this.area.focus();
    this.area.setSelectionRange(from, from + (lines[line] || '').length);
  }
}
