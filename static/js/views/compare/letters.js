/* Runs are A, B, C …: a letter on a colour; lines have dashes and shapes too. */
import {h} from '../../elements/dom.js';
import {SHAPES} from '../../elements/icons.js';

const LETTERS = 'ABCDEFGH';
const DASHES = [null, [7, 4], [2, 3], [9, 3, 2, 3], [4, 4], [12, 4], [1, 3], [6, 2, 1, 2]];

/** @param {number} i */
export const letterOf = (i) => LETTERS[i];

/** @param {number} i */
export const colourOf = (i) => 'var(--n' + (i + 1) + ')';

/** @param {number} i */
export function runKey(i) {
  return h('span', {class: 'run-key', text: letterOf(i), style: {'--node': colourOf(i)}});
}

/**
 * The line of a run.
 * @param {number} i
 * @param {boolean} [shaped]
 * @returns {Page.Line}
 */
export function lineOf(i, shaped = false) {
  const line = {label: letterOf(i), colour: colourOf(i), width: 2, dash: DASHES[i]};
  return shaped ? {...line, shape: SHAPES[i], shapeSize: 3} : line;
}

/**
 * The label at the end of a run's line.
 * @param {number} i
 * @param {number} y
 * @param {string} text
 * @returns {Page.End}
 */
export function endOf(i, y, text) {
  return {y, text, bold: true, mark: letterOf(i), icon: () => runKey(i)};
}
