/* The form: made of the catalogue, so that a strategy, optimizer, schedule or format that is added
   there is offered here. It holds no state: show(spec) draws a spec, and every change is told by
   onChange(pointer, value). */
import {Select} from '../../draft/fields.js';
import {FieldSet, part} from '../../draft/fieldset.js';
import {getAt} from '../../draft/json.js';
import {h} from '../../elements/dom.js';
import {bytes, whole} from '../../text/format.js';

import {Layers} from './layers.js';
import {NodeChips} from './nodechips.js';
import {Parameters} from './parameters.js';
import {Samples} from './samples.js';
import {DataUpload} from './upload.js';

/** @typedef {import('../../draft/fields.js').OnChange} OnChange */
/** @typedef {import('../../draft/fieldset.js').AnyField} AnyField */
/** @typedef {'strategy' | 'optimizer' | 'schedule' | 'batching' | 'format'} Kind */

const WRITTEN_OUT = 'written out in the JSON';
const NO_DATA = 'No data set was found beneath the data roots.';
/* The values of keys that a spec leaves out. */
/** @type {{[pointer: string]: string}} */
const FALLBACK = {
  '/strategy/type': 'sync',
  '/batching/policy': 'dynamic',
  '/optimizer/type': 'sgd',
  '/optimizer/schedule/type': 'constant'
};
/* Fields that have no meaning for a program. */
const NETWORK = [
  '/model', '/data/format', '/optimizer/type', '/optimizer/learning_rate',
  '/optimizer/schedule/type', '/init', '/evaluate/every_epochs'
];
/* Further numbers: pointer, label, help, placeholder. */
const TOP = [
  ['/seed', 'Seed', 'of everything random', '1'],
  ['/priority', 'Priority', 'higher is scheduled first', '0'],
  ['/max_restarts', 'Restarts', 'attempts after the first', '3'],
  ['/min_workers', 'Least nodes', 'a restart goes on with at least so many', '1'],
  ['/max_seconds', 'Time limit, seconds', 'the job stops after this time', 'none'],
  ['/max_wall_seconds', 'By the clock, seconds', 'from its first start, waiting included', 'none'],
  ['/evaluate/every_epochs', 'Evaluate every, epochs', 'on the test set', '1'],
  [
    '/checkpoint/every_seconds', 'Checkpoint every, seconds', 'a restart goes on from the last',
    '30'
  ],
  ['/batching/min_batch', 'Least minibatch', 'of a node', '1'],
  ['/batching/max_batch', 'Largest minibatch', 'of a node; 0: as much as fits', '0']
];

export class Form extends FieldSet {
  /**
   * @param {Api.Catalog} catalog
   * @param {Api.Dataset[]} datasets
   * @param {Api.Node[]} nodes
   * @param {OnChange} onChange
   * @param {AnyField[]} program the fields of a program
   * @param {(path: string) => Promise<Api.Dataset | undefined>} onUpload a data set was uploaded
   */
  constructor(catalog, datasets, nodes, onChange, program, onUpload) {
    super(onChange);
    this.catalog = catalog;
    this.datasets = datasets;
    this.samples = new Samples();
    this.upload = new DataUpload(onUpload);
    this.layers = new Layers(catalog, this);
    this.program = program;
    this.what = this.makeWhat();
    this.how = this.makeHow();
    this.chips = this.own(new NodeChips(nodes, onChange));
    this.parameters = {
      format: new Parameters(this, 'format', '/data'),
      strategy: new Parameters(this, 'strategy', '/strategy'),
      optimizer: new Parameters(this, 'optimizer', '/optimizer', ['learning_rate']),
      schedule: new Parameters(this, 'schedule', '/optimizer/schedule')
    };
    this.more = this.makeMore();
    this.node = h('div', {class: 'submit-form'}, this.makeDatalist(),
        part('What to train', this.whatNodes()), part('Where', this.whereNodes()),
        part('How', this.howNodes()), this.more);
  }

  /* ---- fields -------------------------------------------------------------------------------- */

  /**
   * A choice among the entries of a kind.
   * @param {string} pointer
   * @param {string} label
   * @param {Kind} kind
   * @param {OnChange} [onChange]
   */
  entries(pointer, label, kind, onChange = this.onChange) {
    /** @type {[string, string][]} */
    const choices = (this.catalog[kind] || []).map((e) => [e.name, e.name]);
    return this.own(new Select(pointer, label, {choices, onChange}));
  }

  makeWhat() {
    const model = this.own(new Select('/model', 'Model', {
      choices: (this.catalog.preset || []).map((p) => [p.name, p.name]),
      onChange: (at, v) => v !== WRITTEN_OUT && this.onChange(at, v)
    }));
    const format = this.entries('/data/format', 'Data', 'format', (at, v) => {
      const first = this.datasets.find((d) => d.format === v)?.path || '';
      this.onChange('/data', v === 'glyphs' ? {format: v} : {format: v, path: first});
    });
    const path = this.input('/data/path', 'Path', {list: 'datasets'});
    const workers = this.input('/workers', 'Nodes to train on',
        {kind: 'number', help: 'any that are free, or choose them below'});
    return {model, format, path, workers};
  }

  makeHow() {
    const strategy = this.entries(
        '/strategy/type', 'Strategy', 'strategy', (at, v) => this.onChange('/strategy', {type: v}));
    const policy = this.entries('/batching/policy', 'Minibatches', 'batching');
    const sizes = this.input('/batching/sizes', 'Sizes',
        {kind: 'list', help: 'one for each node; or give weights in the JSON'});
    const optimizer = this.entries('/optimizer/type', 'Optimizer', 'optimizer');
    const schedule = this.entries('/optimizer/schedule/type', 'Schedule', 'schedule', (at, v) => {
      const chosen = v === 'step' ? {type: v, at_epochs: []} : {type: v};
      this.onChange('/optimizer/schedule', v === 'constant' ? undefined : chosen);
    });
    const atEpochs = this.input('/optimizer/schedule/at_epochs', 'Rate changes at epochs',
        {kind: 'list', help: 'in rising order', onChange: (at, v) => this.onChange(at, v || [])});
    const rate = this.input('/optimizer/learning_rate', 'Learning rate',
        {kind: 'number', help: 'for the global batch'});
    const batch = this.input('/batching/global_batch', 'Global batch',
        {kind: 'number', help: 'samples of one step, all nodes together'});
    return {strategy, policy, sizes, optimizer, schedule, atEpochs, rate, batch};
  }

  makeMore() {
    const top = TOP.map(([pointer, label, help, placeholder]) =>
                            this.input(pointer, label, {kind: 'number', help, placeholder}).node);
    const init = this.input('/init', 'Start from',
        {help: 'a safetensors file beneath a data root, or an artifact', placeholder: 'nothing'});
    const help = 'with commas between; project:NAME groups runs';
    const tags = this.input('/tags', 'Tags', {kind: 'names', help, placeholder: 'none'});
    const note = this.input('/note', 'Note', {help: 'for people', placeholder: 'none'});
    return h('details', {class: 'more-fields'}, h('summary', {text: 'More settings'}),
        h('div', {class: 'fields'}, top, init.node, tags.node, note.node));
  }

  /* ---- layout -------------------------------------------------------------------------------- */

  makeDatalist() {
    return h('datalist', {id: 'datasets'},
        this.datasets.map(
            (d) => h(
                'option', {value: d.path, text: d.format + ', ' + whole(d.samples) + ' samples'})));
  }

  whatNodes() {
    const name = this.input('/name', 'Name', {help: 'shown in lists'});
    const epochs =
        this.input('/epochs', 'Epochs', {kind: 'number', help: 'passes over the training set'});
    const {model, format, path} = this.what;
    const program = this.program.map((f) => this.own(f));
    return [
      ...program, name, model, format, epochs, path, this.upload, this.samples,
      this.parameters.format, this.layers
    ];
  }

  whereNodes() {
    return [this.what.workers, this.chips];
  }

  howNodes() {
    const {how, parameters} = this;
    const target = this.input('/target/test_accuracy', 'Stop at test accuracy',
        {kind: 'number', help: 'optional, above 0, at most 1', placeholder: 'never'});
    return [
      how.strategy, how.policy, parameters.strategy, how.batch, how.rate, how.sizes, how.optimizer,
      how.schedule, how.atEpochs, parameters.optimizer, parameters.schedule, target
    ];
  }

  /* ---- drawing ------------------------------------------------------------------------------- */

  /** @param {Api.Spec} spec */
  show(spec) {
    const at = (/** @type {string} */ pointer) => getAt(spec, pointer) ?? FALLBACK[pointer];
    const {parameters} = this;
    const own = (/** @type {string} */ pointer) => (spec.program ? '' : at(pointer));
    parameters.format.show(own('/data/format'));
    parameters.strategy.show(at('/strategy/type'));
    parameters.optimizer.show(own('/optimizer/type'));
    parameters.schedule.show(own('/optimizer/schedule/type'));
    this.layers.show(spec);
    this.showModel(spec);
    this.showData(spec);
    this.showNotes(at);
    for (const f of this.fields.values()) {
      if (f !== this.what.model) {
        f.show(at(f.pointer), spec);
      }
      f.node.hidden = NETWORK.includes(f.pointer) ? Boolean(spec.program) : f.node.hidden;
    }
  }

  /** @param {Api.Spec} spec */
  showModel({model}) {
    const preset = (this.catalog.preset || []).find((p) => p.name === model);
    const {parameters = 0} = preset || {};
    const field = this.what.model;
    field.show(typeof model === 'object' && model ? WRITTEN_OUT : model);
    field.note.textContent =
        preset ? whole(parameters) + ' parameters, ' + bytes(4 * parameters) + ' per exchange' : '';
  }

  /** @param {Api.Spec} spec */
  showData({data}) {
    const {datasets} = this;
    const {path} = this.what;
    const chosen = datasets.find((d) => d.path === data?.path);
    const found = datasets.length ? 'found: ' + datasets.map((d) => d.path).join(', ') : NO_DATA;
    path.node.hidden = !data?.format || data.format === 'glyphs';
    this.upload.node.hidden = !data;
    this.samples.show(chosen ? chosen.path : '');
    path.note.textContent = chosen
        ? whole(chosen.samples) + ' training and ' + whole(chosen.test_samples) + ' test samples'
        : found;
  }

  /** @param {(pointer: string) => any} at */
  showNotes(at) {
    const help = (/** @type {Kind} */ kind, /** @type {string} */ name) =>
        (this.catalog[kind] || []).find((e) => e.name === name)?.help || '';
    const {how} = this;
    this.what.format.note.textContent = help('format', at('/data/format'));
    how.strategy.note.textContent = help('strategy', at('/strategy/type'));
    how.policy.note.textContent = help('batching', at('/batching/policy'));
    how.optimizer.note.textContent = help('optimizer', at('/optimizer/type'));
    how.schedule.note.textContent = help('schedule', at('/optimizer/schedule/type'));
    how.sizes.node.hidden = at('/batching/policy') !== 'static';
    how.atEpochs.node.hidden = at('/optimizer/schedule/type') !== 'step';
  }

  /* ---- errors -------------------------------------------------------------------------------- */

  /**
   * @param {Api.Fault[]} errors
   * @param {import('../../draft/fieldset.js').Tone} [tone]
   */
  faults(errors, tone) {
    const homeless = super.faults(errors, tone);
    if (this.more.querySelector('.field.bad')) {
      this.more.open = true;
    }
    return homeless;
  }
}
