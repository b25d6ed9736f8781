/* A new job: form and JSON side by side, always the same job. Every change is checked by the
   service soon after; errors stand at the field and at the line; beneath, what would happen; the
   button comes last. */
import {changesOf} from '../../clone.js';
import {around, fill, h} from '../../dom.js';
import {Editor} from '../../draft/editor.js';
import {loadButton, saveButton} from '../../draft/files.js';
import {Verdict} from '../../draft/verdict.js';
import {button, copyButton, notice} from '../../widgets.js';

import {Expectation} from './expectation.js';
import {Form} from './form.js';
import {SubmitModel} from './model.js';
import {programFields} from './program.js';
import {Understood} from './understood.js';

/** @typedef {import('../../api.js').ApiError} ApiError */

const COPIED_MS = 1500;

class SubmitView {
  /**
   * @param {Element} root
   * @param {SubmitModel} data
   */
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.editor = new Editor((text) => data.type(text));
    const change = (/** @type {string} */ at, /** @type {unknown} */ value) =>
        data.change(at, value);
    this.parts = {
      form: new Form(data.catalog, data.datasets, data.nodes, change, programFields(data, change)),
      verdict: new Verdict(this.editor),
      understood: new Understood(),
      expectation: new Expectation((type) => data.change('/strategy', {type}))
    };
    this.submit = button('Submit job', () => this.send(), {class: 'btn primary', id: 'submit'});
    this.failed = h('div', {role: 'alert'});
    data.addEventListener('spec', () => this.showSpec());
    data.addEventListener('checked', (e) => this.showValid(/** @type {CustomEvent} */ (e).detail));
    data.addEventListener('refused', (e) => this.showErrors(/** @type {CustomEvent} */ (e).detail));
    this.layout();
    this.showSpec();
  }

  layout() {
    const {earlier} = this.data;
    const title = earlier ? 'New job from “' + earlier.name + '”' : 'New job';
    fill(this.root, h('p', {class: 'crumbs'}, h('a', {href: '#/', text: 'Jobs'}), ' /'),
        h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: title})),
            h('div', {class: 'actions'},
                h('a', {class: 'btn', href: this.sweepAddress(), text: 'Try several settings'}),
                loadButton((text) => this.editor.replace(text)))),
        this.data.changes.length > 0 && h('p', {class: 'sub', id: 'changed', text: this.changed()}),
        this.makeSheet());
  }

  sweepAddress() {
    const {earlier} = this.data;
    return '#/sweeps/new' + (earlier ? '?from=' + encodeURIComponent(earlier.id) : '');
  }

  /* What the address changed of the earlier job. */
  changed() {
    const told = (/** @type {unknown} */ v) => (v === undefined ? 'none' : JSON.stringify(v));
    return 'Changed: ' +
        this.data.changes
            .map(({at, was, value}) => at.slice(1) + ' ' + told(was) + ' → ' + told(value))
            .join(', ') +
        '.';
  }

  makeSheet() {
    const {form, expectation} = this.parts;
    const save = saveButton(() => this.editor.text, () => this.data.spec.name || 'job');
    const submit = (/** @type {Event} */ e) => {
      e.preventDefault();
      this.send();
    };
    const keydown = (/** @type {KeyboardEvent} */ e) =>
        e.key === 'Enter' && around(e, '*')?.tagName === 'INPUT' && e.preventDefault();
    return h('form', {class: 'sheet', novalidate: true, on: {submit, keydown}},
        h('div', {class: 'submit-grid'}, form.node, this.makeJson()), expectation.node,
        h('div', {class: 'submit-foot'}, expectation.foot,
            h('div', {class: 'actions'}, save, this.submit), this.failed));
  }

  makeJson() {
    const {verdict, understood} = this.parts;
    const small = {class: 'btn small'};
    const actions =
        h('span', {class: 'actions'}, copyButton('Copy', () => this.editor.text, small, COPIED_MS),
            copyButton('Copy as curl', () => this.data.curl(), small, COPIED_MS));
    return h('section', {class: 'submit-json', 'aria-label': 'JSON'},
        h('div', {class: 'json-head'}, h('h2', {text: 'JSON'}),
            h('span', {class: 'quiet', text: 'the same job; edit either side'}), actions),
        this.editor.node, verdict.state, verdict.list, understood.node);
  }

  showSpec() {
    this.editor.set(this.data.text);
    this.parts.form.show(this.data.spec);
  }

  /** @param {Api.DryRun} answer */
  showValid(answer) {
    const {form, verdict, understood, expectation} = this.parts;
    form.faults([]);
    verdict.showValid();
    this.submit.disabled = false;
    fill(this.failed);
    understood.show(this.data.text, answer);
    expectation.show(answer, this.data.spec);
  }

  /** @param {ApiError} e */
  showErrors(e) {
    const {form, verdict, expectation} = this.parts;
    const homeless = form.faults(e.errors || []);
    const refused = verdict.showErrors(e, homeless);
    this.submit.disabled = refused;
    expectation.outdate();
  }

  async send() {
    this.submit.disabled = true;
    fill(this.failed);
    try {
      location.hash = '#/jobs/' + await this.data.send();
    } catch (e) {
      const error = /** @type {ApiError} */ (e);
      this.submit.disabled = false;
      this.showErrors(error);
      fill(this.failed, notice('bad', 'Not submitted: ' + error.message));
      /** @type {HTMLElement | null} */
      const field = this.root.querySelector('.field.bad input, .field.bad select');
      field?.focus();
    }
  }

  close() {
    this.data.close();
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
  const view = new SubmitView(root, data);
  data.check();
  return view;
}
