/* The overview before the first job: one sentence, the demo, and a drawing that says it is one. */
import {fill, h} from '../../elements/dom.js';
import {button, notice} from '../../elements/widgets.js';
import {post} from '../../service/api.js';
import {mayChange} from '../../service/rights.js';

const DEMO = {
  name: 'demo',
  model: 'lenet5',
  data: {format: 'glyphs', samples: 20000, test_samples: 4000},
  optimizer: {type: 'sgd', learning_rate: 0.05, momentum: 0.9},
  strategy: {type: 'asgd'},
  batching: {global_batch: 256, policy: 'dynamic'},
  epochs: 4,
  seed: 1
};
const MOST_NODES = 4;
const ABOUT = 'The demo trains a small network on digits that the program draws itself, ' +
    'on up to four of the nodes there are. You see the loss fall, a slow node get a smaller ' +
    'minibatch, and all finish a step together. It needs no GPU and no data.';

/**
 * @param {Api.Node[]} nodes
 * @param {HTMLButtonElement} pressed
 * @param {Element} fault
 */
async function runDemo(nodes, pressed, fault) {
  pressed.disabled = true;
  try {
    const free = nodes.filter((n) => n.state !== 'lost' && n.state !== 'disabled').length;
    const workers = Math.min(MOST_NODES, Math.max(1, free));
    const made = await post('jobs', {...DEMO, workers});
    location.hash = '#/jobs/' + made.id;
  } catch (e) {
    pressed.disabled = false;
    fill(fault, notice('bad', /** @type {Error} */ (e).message));
  }
}

/**
 * Bars of one step: the computing part of each, in percent.
 * @param {string} text
 * @param {string} width
 * @param {number[]} parts
 */
function drawing(text, width, parts) {
  const box = h('div', {class: 'draw-bars'}, parts.map((p, i) => {
    const bar = h('i', {style: {'--node': 'var(--n' + (i + 1) + ')'}});
    bar.style.backgroundSize = p + '% 100%, 100% 100%';
    return bar;
  }));
  box.style.width = width;
  return h('div', null, h('p', {text}), box);
}

/** @param {() => Api.Node[]} nodesNow */
export function emptyPage(nodesNow) {
  const fault = h('div', {role: 'alert'});
  const demo = button('Run the demo', () => runDemo(nodesNow(), demo, fault),
      {class: 'btn primary', id: 'run-demo'});
  return h('div', {class: 'empty-page'}, h('h1', {text: 'Nothing has been trained here yet.'}),
      h('p', {class: 'sub', text: ABOUT}),
      h('p', {class: 'actions'}, mayChange() && demo,
          h('a', {class: 'btn', href: '#/new', text: 'New job'})),
      fault,
      h('div', {class: 'sheet drawing'},
          drawing('Equal minibatches: everyone waits for the slowest', '96%', [18, 19, 44, 100]),
          drawing('Evenstep: all finish together', '42%', [100, 100, 100, 100])),
      h('p', {class: 'note', text: 'This is a drawing, not a measurement.'}));
}
