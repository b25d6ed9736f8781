/* "Load it in PyTorch": the exact lines for a job's network, to be copied, and how ONNX is made.
   The header of the model's file describes the network, so only the first bytes of the file are
   read. */
import {h} from '../../../elements/dom.js';
import {copyButton} from '../../../elements/widgets.js';
import {job as path} from '../../../service/api.js';
import {headerOf, pytorchLines} from '../../../spec/pytorch.js';

const FIRST_BYTES = 65536;
const BACK_MS = 3000;

/**
 * @param {string} url
 * @param {number} count
 */
async function firstBytes(url, count) {
  const headers = {Range: 'bytes=0-' + (count - 1)};
  const answer = await fetch(url, {headers, credentials: 'same-origin', cache: 'no-store'});
  if (!answer.ok) {
    throw new Error('the model’s file cannot be read');
  }
  return answer.arrayBuffer();
}

/**
 * The lines for one of a job's models.
 * @param {string} id
 * @param {string} name of the artifact
 */
async function linesFor(id, name) {
  const url = '/api/v1/' + path(id, 'artifacts') + '/' + encodeURIComponent(name);
  let {file, needed} = headerOf(await firstBytes(url, FIRST_BYTES));
  if (!file) {
    ({file} = headerOf(await firstBytes(url, needed)));
  }
  return file ? pytorchLines(file, name) : '';
}

/**
 * A heading, the lines and a button that copies them; null for a model that says no network, as a
 * program's own.
 * @param {string} id
 * @param {string} name of the artifact
 */
export async function pytorchPart(id, name) {
  const lines = await linesFor(id, name).catch(() => '');
  return lines
      ? h('div', {id: 'pytorch'},
            h('div', {class: 'row-title'}, h('h3', {text: 'Load it in PyTorch'}),
                copyButton('Copy', () => lines, {'aria-label': 'Copy these lines'}, BACK_MS)),
            h('pre',
                {class: 'code', tabindex: '0', 'aria-label': 'Lines for PyTorch', text: lines}),
            h('p', {class: 'quiet'}, 'As ONNX, for other programs: download the file, then ',
                h('code', {text: 'evenstep export ' + name})))
      : null;
}
