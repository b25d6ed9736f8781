/* Reads a job from a file, and saves one to a file. */
import {h} from '../elements/dom.js';
import {button} from '../elements/widgets.js';

/** @param {(text: string) => void} onText */
export function loadButton(onText) {
  const file = h('input', {
    type: 'file',
    accept: '.json,application/json',
    hidden: true,
    on: {
      async change() {
        const chosen = file.files?.[0];
        if (chosen) {
          onText(await chosen.text());
        }
      }
    }
  });
  return [button('Load file', () => file.click()), file];
}

/**
 * @param {() => string} text
 * @param {() => string} name
 */
export function saveButton(text, name) {
  return button('Save as file', () => {
    const url = URL.createObjectURL(new Blob([text() + '\n'], {type: 'application/json'}));
    h('a', {href: url, download: name().replace(/[^\w.-]+/g, '-') + '.json'}).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  });
}
