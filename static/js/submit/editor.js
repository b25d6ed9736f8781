/* The same job as JSON: a text field over coloured lines, lines with errors marked. */
import {fill, h} from '../dom.js';

import {colour} from './json.js';

export function makeEditor(onInput) {
  const back = h('div', {class: 'back', 'aria-hidden': 'true'});
  const area = h('textarea', {
    spellcheck: 'false',
    autocomplete: 'off',
    'aria-label': 'The job as JSON',
    id: 'json',
    on: {
      input() {
        draw();
        onInput(area.value);
      }
    }
  });
  const node = h('div', {class: 'editor'}, back, area);
  let bad = new Set();

  function draw() {
    fill(
        back,
        area.value.split('\n').map(
            (line, i) =>
                h('div', {class: bad.has(i) ? 'bad-line' : null},
                  colour(line).map(([cls, text]) => h('span', {class: cls, text})))));
  }

  return {
    node,
    area,
    get text() {
      return area.value;
    },
    set(text) {
      if (area.value !== text) {
        area.value = text;
        draw();
      }
    },
    mark(lines) {
      bad = new Set(lines);
      draw();
    },
    select(line) {
      const lines = area.value.split('\n');
      const from = lines.slice(0, line).reduce((n, l) => n + l.length + 1, 0);
      area.focus();
      area.setSelectionRange(from, from + (lines[line] || '').length);
    }
  };
}
