/* The form: made of the catalogue, so that a strategy, optimizer, schedule or format that is added there is offered
   here. It holds no state: show(spec) draws a spec, and every change is told by onChange(pointer, value). */
import {fill, h, keyed} from '../dom.js';
import {bytes, sentence, whole} from '../format.js';
import {icon} from '../icons.js';
import {nodeState} from '../states.js';

import {input, parameter, select} from './fields.js';
import {getAt} from './json.js';

const TOP = [
  ['/seed', 'Seed', 'of everything random', '1'], ['/priority', 'Priority', 'higher is scheduled first', '0'],
  ['/max_restarts', 'Restarts', 'attempts after the first', '3'],
  ['/min_workers', 'Least nodes', 'a restart goes on with at least so many', '1'],
  ['/max_seconds', 'Time limit, seconds', 'the job stops after this time', 'none'],
  ['/evaluate/every_epochs', 'Evaluate every, epochs', 'on the test set', '1'],
  ['/checkpoint/every_seconds', 'Checkpoint every, seconds', 'a restart goes on from the last', '30'],
  ['/batching/min_batch', 'Least minibatch', 'of a node', '1'],
  ['/batching/max_batch', 'Largest minibatch', 'of a node; 0: as much as fits', '0']
];

export function makeForm(catalog, datasets, nodes, onChange) {
  const fields = new Map();
  const own = (field) => {
    fields.set(field.pointer, field);
    return field;
  };
  const entries = (kind) => (catalog[kind] || []).map((e) => [e.name, e.name]);
  const helpOf = (kind, name) => (catalog[kind] || []).find((e) => e.name === name)?.help || '';
  const boxes = {};
  const groups = {};

  /* Fields of the parameters of whatever entry is chosen, made again when another one is. */
  function parameters(kind, base, skip = []) {
    const box = h('div', {class: 'params'});
    boxes[kind] = box;
    let shown = null;
    groups[kind] = (name) => {
      if (name === shown) {
        return;
      }
      for (const p of [...fields.keys()].filter((k) => fields.get(k).kind === kind)) {
        fields.delete(p);
      }
      shown = name;
      const list = ((catalog[kind] || []).find((e) => e.name === name)?.parameters || [])
                       .filter((p) => !skip.includes(p.name))
                       .map((p) => Object.assign(own(parameter(base + '/' + p.name, p, onChange)), {kind}));
      fill(box, list.map((f) => f.node));
    };
    return box;
  }

  const model = own(select('/model', 'Model', {
    choices: (catalog.preset || []).map((p) => [p.name, p.name]),
    onChange: (at, v) => v !== 'written out in the JSON' && onChange(at, v)
  }));
  const format = own(select('/data/format', 'Data', {
    choices: entries('format'),
    onChange: (at, v) => onChange(
        '/data', v === 'glyphs' ? {format: v} : {format: v, path: datasets.find((d) => d.format === v)?.path || ''})
  }));
  const listId = 'datasets';
  const path = own(input(
      '/data/path', 'Path',
      {help: datasets.length ? '' : 'No data set was found beneath the data roots.', list: listId, onChange}));
  const strategy = own(select(
      '/strategy/type', 'Strategy',
      {choices: entries('strategy'), onChange: (at, v) => onChange('/strategy', {type: v})}));
  const policy = own(select('/batching/policy', 'Minibatches', {choices: entries('batching'), onChange}));
  const sizes = own(input(
      '/batching/sizes', 'Sizes', {kind: 'list', help: 'one for each node; or give weights in the JSON', onChange}));
  const optimizer = own(select('/optimizer/type', 'Optimizer', {choices: entries('optimizer'), onChange}));
  const schedule = own(select('/optimizer/schedule/type', 'Schedule', {
    choices: entries('schedule'),
    onChange: (at, v) => onChange(
        '/optimizer/schedule',
        v === 'constant' ? undefined :
            v === 'step' ? {type: v, at_epochs: []} :
                           {type: v})
  }));
  const atEpochs = own(input(
      '/optimizer/schedule/at_epochs', 'Rate changes at epochs',
      {kind: 'list', help: 'in rising order', onChange: (at, v) => onChange(at, v || [])}));
  const rate =
      own(input('/optimizer/learning_rate', 'Learning rate', {kind: 'number', help: 'for the global batch', onChange}));
  const batch = own(input(
      '/batching/global_batch', 'Global batch',
      {kind: 'number', help: 'samples of one step, all nodes together', onChange}));
  const workers = own(input(
      '/workers', 'Nodes to train on', {kind: 'number', help: 'any that are free, or choose them below', onChange}));
  const chips = h('div', {class: 'chips', role: 'group', 'aria-label': 'Nodes'});
  const chipHelp = h('p', {class: 'help'});
  const nodesField = {
    pointer: '/nodes',
    node:
        h('div', {class: 'field wide', data: {pointer: '/nodes'}}, h('p', {class: 'label', text: 'Which nodes'}), chips,
          chipHelp, h('p', {class: 'fault', hidden: true})),
    fault(messages) {
      const at = this.node.querySelector('.fault');
      at.hidden = messages.length === 0;
      fill(at, messages.length > 0 && [icon('cross', 10), h('span', {text: messages.join(' ')})]);
    },
    show(value, spec) {
      const chosen = new Set(Array.isArray(value) ? value : []);
      keyed(
          chips, nodes, (n) => n.name, (n) => h('button', {
                                         type: 'button',
                                         class: 'chip',
                                         on: {
                                           click() {
                                             const now = new Set(Array.isArray(this.chosen) ? this.chosen : []);
                                             now[now.has(n.name) ? 'delete' : 'add'](n.name);
                                             const list = nodes.map((x) => x.name).filter((x) => now.has(x));
                                             onChange('/nodes', list.length ? list : undefined);
                                             onChange('/workers', list.length || spec.workers);
                                           }
                                         }
                                       }),
          (chip, n) => {
            const on = chosen.has(n.name);
            chip.chosen = value;
            chip.setAttribute('aria-pressed', String(on));
            fill(
                chip, icon(on ? 'check' : 'plus', 11), n.name,
                h('small', {text: n.device + (n.state === 'ready' ? '' : ', ' + nodeState(n.state).text)}));
          });
      chipHelp.textContent = nodes.length === 0 ? 'No node has registered yet; the job will wait for one.' :
          chosen.size                           ? chosen.size + ' of ' + nodes.length + ' chosen' :
                                                  'Any ' + (spec.workers || 1) + ' of ' + nodes.length + '.';
    }
  };
  own(nodesField);
  const topFields = TOP.map(
      ([pointer, label, help, placeholder]) =>
          own(input(pointer, label, {kind: 'number', help, placeholder, onChange})));
  const init = own(input(
      '/init', 'Start from',
      {help: 'a safetensors file beneath a data root, or an artifact', placeholder: 'nothing', onChange}));

  const node =
      h('div', {class: 'submit-form'},
        h('datalist', {id: listId},
          datasets.map((d) => h('option', {value: d.path, text: d.format + ', ' + whole(d.samples) + ' samples'}))),
        h('section', {class: 'form-part'}, h('h2', {text: 'What to train'}),
          h('div', {class: 'fields'}, own(input('/name', 'Name', {help: 'shown in lists', onChange})).node, model.node,
            format.node,
            own(input('/epochs', 'Epochs', {kind: 'number', help: 'passes over the training set', onChange})).node,
            path.node, parameters('format', '/data'))),
        h('section', {class: 'form-part'}, h('h2', {text: 'Where'}),
          h('div', {class: 'fields'}, workers.node, nodesField.node)),
        h('section', {class: 'form-part'}, h('h2', {text: 'How'}),
          h('div', {class: 'fields'}, strategy.node, policy.node, parameters('strategy', '/strategy'), batch.node,
            rate.node, sizes.node, optimizer.node, schedule.node, atEpochs.node,
            parameters('optimizer', '/optimizer', ['learning_rate']), parameters('schedule', '/optimizer/schedule'),
            own(input(
                    '/target/test_accuracy', 'Stop at test accuracy',
                    {kind: 'number', help: 'optional, from 0 to 1', placeholder: 'never', onChange}))
                .node)),
        h('details', {class: 'more-fields'}, h('summary', {text: 'More settings'}),
          h('div', {class: 'fields'}, topFields.map((f) => f.node), init.node)));

  function show(spec) {
    groups.format(getAt(spec, '/data/format'));
    groups.strategy(getAt(spec, '/strategy/type') || 'sync');
    groups.optimizer(getAt(spec, '/optimizer/type') || 'sgd');
    groups.schedule(getAt(spec, '/optimizer/schedule/type') || 'constant');
    const preset = (catalog.preset || []).find((p) => p.name === spec.model);
    model.show(typeof spec.model === 'object' && spec.model ? 'written out in the JSON' : spec.model);
    model.note.textContent =
        preset ? whole(preset.parameters) + ' parameters, ' + bytes(4 * preset.parameters) + ' per exchange' : '';
    const data = datasets.find((d) => d.path === getAt(spec, '/data/path'));
    format.note.textContent = helpOf('format', getAt(spec, '/data/format'));
    path.node.hidden = !getAt(spec, '/data/format') || getAt(spec, '/data/format') === 'glyphs';
    path.note.textContent = data ? whole(data.samples) + ' training and ' + whole(data.test_samples) + ' test samples' :
        datasets.length          ? 'found: ' + datasets.map((d) => d.path).join(', ') :
                                   'No data set was found beneath the data roots.';
    strategy.note.textContent = helpOf('strategy', getAt(spec, '/strategy/type') || 'sync');
    policy.note.textContent = helpOf('batching', getAt(spec, '/batching/policy') || 'dynamic');
    optimizer.note.textContent = helpOf('optimizer', getAt(spec, '/optimizer/type') || 'sgd');
    schedule.note.textContent = helpOf('schedule', getAt(spec, '/optimizer/schedule/type') || 'constant');
    sizes.node.hidden = getAt(spec, '/batching/policy') !== 'static';
    atEpochs.node.hidden = getAt(spec, '/optimizer/schedule/type') !== 'step';
    const fallback = {
      '/strategy/type': 'sync',
      '/batching/policy': 'dynamic',
      '/optimizer/type': 'sgd',
      '/optimizer/schedule/type': 'constant'
    };
    for (const f of fields.values()) {
      if (f !== model) {
        f.show(getAt(spec, f.pointer) ?? fallback[f.pointer], spec);
      }
    }
  }

  /* Puts each error at its field; gives back those that belong to none. */
  function faults(errors) {
    const at = new Map();
    const homeless = [];
    for (const e of errors) {
      let best = null;
      for (const f of fields.values()) {
        if ((e.pointer === f.pointer || e.pointer.startsWith(f.pointer + '/')) && !f.node.hidden &&
            (!best || f.pointer.length > best.pointer.length)) {
          best = f;
        }
      }
      if (best) {
        at.set(best, [...(at.get(best) || []), sentence(e.message)]);
      } else {
        homeless.push(e);
      }
    }
    for (const f of fields.values()) {
      f.fault(at.get(f) || []);
    }
    const more = node.querySelector('.more-fields');
    if ([...at.keys()].some((f) => more.contains(f.node))) {
      more.open = true;
    }
    return homeless;
  }

  return {node, show, faults, fields};
}
