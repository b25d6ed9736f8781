/* Choosing files: a button that opens the browser's own dialogue. */
import {h} from '../../elements/dom.js';
import {button} from '../../elements/widgets.js';

/**
 * A button that lets somebody choose files. The same ones may be chosen again, as after they were
 * refused and put right: a browser tells a change of the choice alone, so it is emptied.
 * @param {string} text
 * @param {{[name: string]: unknown}} attributes of the input
 * @param {(chosen: File[]) => void} onFiles
 */
export function chooser(text, attributes, onFiles) {
  /** @type {HTMLInputElement} */
  const input = h('input', {
    type: 'file',
    hidden: true,
    'aria-label': text,
    ...attributes,
    on: {
      change() {
        const chosen = [...(input.files || [])];
        input.value = '';
        if (chosen.length > 0) {
          onFiles(chosen);
        }
      }
    }
  });
  return [button(text, () => input.click(), {class: 'btn small'}), input];
}
