/* The form of a sweep. It holds no state: show(sweep) draws one. */
import {Select} from '../../draft/fields.js';
import {FieldSet, part} from '../../draft/fieldset.js';
import {getAt} from '../../draft/json.js';
import {fill, h} from '../../elements/dom.js';
import {button} from '../../elements/widgets.js';

import {SETTINGS, wayOf} from './model.js';
import {ParameterRow} from './parameter.js';

/** @typedef {import('./model.js').NewSweepModel} NewSweepModel */

/** @type {[string, string][]} */
const METHODS = [
  ['grid', 'grid: every combination'], ['random', 'random: some that are drawn'],
  ['halving', 'halving: the best of some go on']
];
const METRICS =
    ['test_accuracy', 'best_test_accuracy', 'test_loss', 'train_loss', 'samples_per_second'];
/* By whose name the least value is taken for the best; the form shows it, and it can be changed. */
const LEAST = /loss|error|perplexity/;
/* Fields that a method has. */
/** @type {{[pointer: string]: string[]}} */
const OF_METHOD = {
  '/method/trials': ['random', 'halving'],
  '/method/seed': ['random', 'halving'],
  '/method/eta': ['halving'],
  '/method/rungs': ['halving'],
  '/method/epochs_at': ['halving']
};

export class SweepForm extends FieldSet {
  /** @param {NewSweepModel} data */
  constructor(data) {
    super((at, value) => data.change(at, value));
    this.data = data;
    this.rows = h('div', {class: 'sweep-settings'});
    /** The rows that are shown. */
    this.shown = '';
    this.node = h('div', {class: 'submit-form'},
        h('datalist', {id: 'settings'}, SETTINGS.map((value) => h('option', {value}))),
        part('What to try', [this.input('/name', 'Name', {help: 'shown in lists'})]), this.rows,
        button('Add a setting', () => data.add(), {class: 'btn small', id: 'add-setting'}),
        part('How', this.how()), part('Budget', this.budget()));
  }

  how() {
    const method = this.own(new Select('/method/type', 'Method',
        {choices: METHODS, onChange: (_, type) => this.data.setMethod(String(type))}));
    const logged = Object.keys(this.data.earlier?.logged || {});
    const metric = this.own(new Select('/metric/name', 'Compared by', {
      choices: [
        ...METRICS.map((m) => /** @type {[string, string]} */ ([m, m.replace(/_/g, ' ')])),
        ...logged.map((m) => /** @type {[string, string]} */ (['logged.' + m, m + ', logged']))
      ],
      onChange: (at, name) => this.compare(String(name))
    }));
    const direction = this.own(new Select('/metric/direction', 'The best is', {
      choices: [['max', 'the greatest'], ['min', 'the least']],
      onChange: (at, value) => this.data.change(at, value)
    }));
    const trials = this.input('/method/trials', 'Trials', {kind: 'number'});
    const seed = this.input('/method/seed', 'Seed of the drawing',
        {kind: 'number', placeholder: '1', help: 'the same seed draws the same'});
    const rungs = this.input('/method/rungs', 'Rungs, epochs',
        {kind: 'list', help: 'after which the best go on, rising'});
    const eta =
        this.input('/method/eta', 'One in', {kind: 'number', help: 'trials goes on at a rung'});
    const at = this.input('/method/epochs_at', 'Epochs of a program',
        {help: 'where it takes them, as /program/args/1'});
    return [method, metric, direction, trials, seed, rungs, eta, at];
  }

  /** @param {string} name */
  compare(name) {
    this.data.change('/metric', {name, direction: LEAST.test(name) ? 'min' : 'max'});
  }

  budget() {
    const number = (/** @type {string} */ pointer, /** @type {string} */ label,
        /** @type {string} */ help, /** @type {string} */ placeholder) =>
        this.input(pointer, label, {kind: 'number', help, placeholder});
    return [
      number('/parallel', 'Jobs at a time', '', '1'),
      number('/nodes', 'Nodes in all', 'that these ask for; 0: no limit', '0'),
      number('/seeds', 'Seeds', 'jobs of each trial', '1')
    ];
  }

  /* Rows are made again when there are others, or one is given in another way. */
  showRows() {
    const {parameters} = this.data;
    const shape = parameters.map(wayOf).join();
    if (shape === this.shown) {
      return;
    }
    this.shown = shape;
    this.disown('parameters');
    fill(this.rows, parameters.map((_, i) => new ParameterRow(this, this.data, i).node));
  }

  /**
   * What the service takes for a choice that is left out.
   * @param {Api.SweepDraft} sweep
   * @param {string} pointer
   */
  meant({metric}, pointer) {
    const direction = LEAST.test(metric?.name || '') ? 'min' : 'max';
    return pointer === '/method/type'     ? 'grid'
        : pointer === '/metric/direction' ? direction
                                          : undefined;
  }

  /** @param {Api.SweepDraft} sweep */
  show(sweep) {
    const method = sweep.method?.type || 'grid';
    this.showRows();
    for (const [pointer, field] of this.fields) {
      const methods = OF_METHOD[pointer];
      field.node.hidden = Boolean(methods && !methods.includes(method));
      field.show(getAt(sweep, pointer) ?? this.meant(sweep, pointer), {});
    }
  }
}
