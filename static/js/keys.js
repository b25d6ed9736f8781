/* Keys that work on every page, and the list of all keys (?). Never while something is typed. */
import {fill, h} from './dom.js';

const KEYS = [
  ['/', 'find jobs and nodes'],
  ['g j', 'go to the jobs'],
  ['g n', 'go to the nodes'],
  ['g c', 'compare runs'],
  ['n', 'new job'],
  ['?', 'this list'],
  ['← →', 'in a chart: move the reading line; with Shift by ten'],
  ['Home End', 'in a chart: first and last point'],
  ['+ − 0', 'in a chart: zoom in, out, all'],
  ['T', 'in a chart: its numbers as a table'],
  ['Esc', 'leave: zoom, table, list'],
];

export function showKeys() {
  const box =
      h('dialog', {'aria-labelledby': 'keys-title', on: {close: () => box.remove()}},
        h('h2', {id: 'keys-title', class: 'strong', text: 'Keys'}), h('dl', {class: 'keys'}),
        h('form', {method: 'dialog', class: 'actions end'}, h('button', {class: 'btn', text: 'Close'})));
  fill(
      box.querySelector('dl'),
      KEYS.map(
          ([key, what]) => [h('dt', null, key.split(' ').map((k) => h('kbd', {text: k}))), h('dd', {text: what})]));
  document.body.append(box);
  box.showModal();
}

export function bindKeys() {
  let g = 0;
  document.addEventListener('keydown', (e) => {
    const typing = e.target.closest?.('input, textarea, select, [contenteditable], dialog');
    if (typing || e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) {
      return;
    }
    const after = Date.now() - g < 1200;
    g = 0;
    const goal = after ? {j: '#/', n: '#/nodes', c: '#/compare'}[e.key] : undefined;
    if (goal) {
      location.hash = goal;
    } else if (e.key === 'g') {
      g = Date.now();
    } else if (e.key === 'n') {
      location.hash = '#/new';
    } else if (e.key === '?') {
      showKeys();
    } else if (e.key === '/') {
      const find = document.getElementById('find');
      if (find) {
        e.preventDefault();
        find.focus();
      } else {
        location.hash = '#/?find=1';
      }
    }
  });
}
