/* Choosing files: a button that opens the browser's own dialogue. */
import {h} from '../../dom.js';
import {button} from '../../widgets.js';

/**
 * A button that lets somebody choose files.
 * @param {string} text
 * @param {{[name: string]: unknown}} attributes of the input
 * @param {(chosen: FileList) => void} onFiles
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
        if (input.files?.length) {
          onFiles(input.files);
        }
      }
    }
  });
  return [button(text, () => input.click(), {class: 'btn small'}), input];
}
