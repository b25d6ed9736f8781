/* What the overview shows before anything was trained: one sentence, the demo, and a drawing that says it is one. */
import {post} from '../api.js';
import {fill, h} from '../dom.js';
import {icon} from '../icons.js';

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

async function runDemo(nodes, button, fault) {
  button.disabled = true;
  try {
    const free = Math.max(1, nodes.filter((n) => n.state !== 'lost' && n.state !== 'disabled').length);
    const made = await post('jobs', {...DEMO, workers: Math.min(4, free)});
    location.hash = '#/jobs/' + made.id;
  } catch (e) {
    button.disabled = false;
    fill(fault, h('p', {class: 'notice', data: {tone: 'bad'}}, icon('cross', 12), h('span', {text: e.message})));
  }
}

export function emptyPage(nodesNow) {
  const bars = (wide, parts) => {
    const box = h('div', {class: 'draw-bars'});
    box.style.width = wide;
    parts.forEach((p, i) => {
      const bar = h('i', {style: {'--node': 'var(--n' + (i + 1) + ')'}});
      bar.style.backgroundSize = p + '% 100%, 100% 100%';
      box.append(bar);
    });
    return box;
  };
  const fault = h('div', {role: 'alert'});
  const button = h('button', {
    type: 'button',
    class: 'btn primary',
    id: 'run-demo',
    text: 'Run the demo',
    on: {click: () => runDemo(nodesNow(), button, fault)}
  });
  return h(
      'div', {class: 'empty-page'}, h('h1', {text: 'Nothing has been trained here yet.'}), h('p', {
        class: 'sub',
        text:
            'The demo trains a small network on digits that the program draws itself, on up to four of the nodes there are. You see the loss fall, a slow node get a smaller minibatch, and all finish a step together. It needs no GPU and no data.'
      }),
      h('p', {class: 'actions'}, button, h('a', {class: 'btn', href: '#/new', text: 'New job'})), fault,
      h('div', {class: 'sheet drawing'},
        h('div', null, h('p', {text: 'Equal minibatches: everyone waits for the slowest'}),
          bars('96%', [18, 19, 44, 100])),
        h('div', null, h('p', {text: 'Evenstep: all finish together'}), bars('42%', [100, 100, 100, 100]))),
      h('p', {class: 'note', text: 'This is a drawing, not a measurement.'}));
}
