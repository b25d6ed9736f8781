/* Keys that work on every page, and the list of all keys (?). Never while something is typed. */
import {around, h} from '../elements/dom.js';

const KEYS = [
  ['/', 'find jobs and nodes'],
  ['g j', 'go to the jobs'],
  ['g r', 'all runs as a table'],
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
/* The keys after g, within this time. */
/** @type {{[key: string]: string}} */
const GOALS = {
  j: '#/',
  r: '#/runs',
  n: '#/nodes',
  c: '#/compare'
};
const GOAL_MS = 1200;
const TYPING = 'input, textarea, select, [contenteditable], dialog';

function showKeys() {
  const keys = KEYS.map(([
    key, what
  ]) => [h('dt', null, key.split(' ').map((k) => h('kbd', {text: k}))), h('dd', {text: what})]);
  /** @type {HTMLDialogElement} */
  const box = h('dialog', {'aria-labelledby': 'keys-title', on: {close: () => box.remove()}},
      h('h2', {id: 'keys-title', class: 'strong', text: 'Keys'}), h('dl', {class: 'keys'}, keys),
      h('form', {method: 'dialog', class: 'actions end'},
          h('button', {class: 'btn', text: 'Close'})));
  document.body.append(box);
  box.showModal();
}

/** @param {KeyboardEvent} e */
function find(e) {
  const field = document.getElementById('find');
  if (field) {
    e.preventDefault();
    field.focus();
  } else {
    location.hash = '#/?find=1';
  }
}

export function bindKeys() {
  let pressedG = 0;
  document.addEventListener('keydown', (e) => {
    const typing = around(e, TYPING);
    if (typing || e.ctrlKey || e.metaKey || e.altKey || e.defaultPrevented) {
      return;
    }
    const goal = Date.now() - pressedG < GOAL_MS ? GOALS[e.key] : undefined;
    pressedG = 0;
    if (goal) {
      location.hash = goal;
    } else if (e.key === 'g') {
      pressedG = Date.now();
    } else if (e.key === 'n') {
      location.hash = '#/new';
    } else if (e.key === '?') {
      showKeys();
    } else if (e.key === '/') {
      find(e);
    }
  });
}
