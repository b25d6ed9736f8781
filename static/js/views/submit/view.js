/* A new job: form and JSON side by side, always the same job. Every change is checked by the
   service soon after; errors stand at the field and at the line, warnings at the field; beneath,
   what would happen; the button comes last. */
import {loadButton} from '../../draft/files.js';
import {DraftView} from '../../draft/view.js';
import {fill, h} from '../../elements/dom.js';
import {changesOf} from '../../spec/clone.js';

import {Expectation} from './expectation.js';
import {Form} from './form.js';
import {SubmitModel} from './model.js';
import {programFields} from './program.js';
import {Understood} from './understood.js';

/** @typedef {import('../../service/api.js').ApiError} ApiError */

const WORDS = {
  what: 'job',
  note: 'the same job; edit either side',
  send: 'Submit job',
  id: 'submit',
  address: '#/jobs/',
  failed: 'Not submitted: '
};

class SubmitView extends DraftView {
  /**
   * @param {Element} root
   * @param {SubmitModel} data
   */
  constructor(root, data) {
    super(root, data, WORDS);
    this.job = data;
    const change = (/** @type {string} */ at, /** @type {unknown} */ value) =>
        data.change(at, value);
    this.parts = {
      form: new Form(data.catalog, data.datasets, data.nodes, change, programFields(data, change),
          (path) => data.uploaded(path)),
      understood: new Understood(),
      expectation: new Expectation((type) => data.change('/strategy', {type}),
          (data.catalog.strategy || []).map((s) => s.name), () => data.spec,
          () => !data.closed && data.checkSoon())
    };
    this.layout();
    this.showSpec();
  }

  layout() {
    const {earlier, changes} = this.job;
    const {form, understood, expectation} = this.parts;
    const title = earlier ? 'New job from “' + earlier.name + '”' : 'New job';
    fill(this.root, h('p', {class: 'crumbs'}, h('a', {href: '#/', text: 'Jobs'}), ' /'),
        h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: title})),
            h('div', {class: 'actions'},
                h('a', {class: 'btn', href: this.sweepAddress(), text: 'Try several settings'}),
                loadButton((text) => this.editor.replace(text)))),
        changes.length > 0 && h('p', {class: 'sub', id: 'changed', text: this.changed()}),
        this.makeSheet(
            form.node, expectation.node, {more: understood.node, foot: expectation.foot}));
  }

  sweepAddress() {
    const {earlier} = this.job;
    return '#/sweeps/new' + (earlier ? '?from=' + encodeURIComponent(earlier.id) : '');
  }

  /* What the address changed of the earlier job. */
  changed() {
    const told = (/** @type {unknown} */ v) => (v === undefined ? 'none' : JSON.stringify(v));
    return 'Changed: ' +
        this.job.changes
            .map(({at, was, value}) => at.slice(1) + ' ' + told(was) + ' → ' + told(value))
            .join(', ') +
        '.';
  }

  showSpec() {
    super.showSpec();
    this.parts.form.show(this.data.spec);
  }

  /** @param {Api.DryRun} answer */
  showValid(answer) {
    const {form, understood, expectation} = this.parts;
    super.showValid(answer);
    const homeless = form.faults(answer.warnings || [], 'warn');
    form.layers.outline(answer);
    understood.show(this.data.text, answer);
    expectation.show(answer, this.data.spec, homeless);
  }

  /** @param {ApiError} e */
  showErrors(e) {
    const {form, expectation} = this.parts;
    super.showErrors(e, form.faults(e.errors || []));
    expectation.outdate();
    form.layers.outdate();
  }

  close() {
    super.close();
    this.parts.expectation.trials.close();
  }
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 * @returns {Promise<Page.View>}
 */
export async function show(root, route) {
  document.title = 'New job · Evenstep';
  const data = new SubmitModel();
  await data.load(route.params.get('from'), changesOf(route.params.get('set')));
  if (!route.alive()) {
    return {};
  }
  data.restore();
  const view = new SubmitView(root, data);
  data.check();
  return view;
}
