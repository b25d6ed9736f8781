/* A new sweep: form and JSON side by side, always the same sweep. Every change is checked by the
   service soon after; beneath, which jobs there would be. */
import {around, fill, h} from '../../dom.js';
import {Editor} from '../../draft/editor.js';
import {loadButton, saveButton} from '../../draft/files.js';
import {Verdict} from '../../draft/verdict.js';
import {button, copyButton, notice} from '../../widgets.js';

import {SweepForm} from './form.js';
import {NewSweepModel} from './model.js';
import {Plan} from './plan.js';

/** @typedef {import('../../api.js').ApiError} ApiError */

const COPIED_MS = 1500;

class NewSweepView {
  /**
   * @param {Element} root
   * @param {NewSweepModel} data
   */
  constructor(root, data) {
    this.root = root;
    this.data = data;
    this.editor = new Editor((text) => data.type(text), 'The sweep as JSON');
    this.form = new SweepForm(data);
    this.verdict = new Verdict(this.editor);
    this.plan = new Plan();
    this.start = button('Start sweep', () => this.send(), {class: 'btn primary', id: 'start'});
    this.failed = h('div', {role: 'alert'});
    data.addEventListener('spec', () => this.showSweep());
    data.addEventListener('checked', (e) => this.showValid(/** @type {CustomEvent} */ (e).detail));
    data.addEventListener('refused', (e) => this.showErrors(/** @type {CustomEvent} */ (e).detail));
    this.layout();
    this.showSweep();
  }

  layout() {
    const {earlier} = this.data;
    const title = earlier ? 'New sweep of “' + earlier.name + '”' : 'New sweep';
    fill(this.root, h('p', {class: 'crumbs'}, h('a', {href: '#/sweeps', text: 'Sweeps'}), ' /'),
        h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: title})),
            h('div', {class: 'actions'}, loadButton((text) => this.editor.replace(text)))),
        this.makeSheet());
  }

  makeSheet() {
    const save = saveButton(() => this.editor.text, () => this.data.spec.name || 'sweep');
    const submit = (/** @type {Event} */ e) => {
      e.preventDefault();
      this.send();
    };
    const keydown = (/** @type {KeyboardEvent} */ e) =>
        e.key === 'Enter' && around(e, '*')?.tagName === 'INPUT' && e.preventDefault();
    return h('form', {class: 'sheet', novalidate: true, on: {submit, keydown}},
        h('div', {class: 'submit-grid'}, this.form.node, this.makeJson()), this.plan.node,
        h('div', {class: 'submit-foot'}, h('div', {class: 'actions'}, save, this.start),
            this.failed));
  }

  makeJson() {
    const small = {class: 'btn small'};
    const actions =
        h('span', {class: 'actions'}, copyButton('Copy', () => this.editor.text, small, COPIED_MS),
            copyButton('Copy as curl', () => this.data.curl(), small, COPIED_MS));
    return h('section', {class: 'submit-json', 'aria-label': 'JSON'},
        h('div', {class: 'json-head'}, h('h2', {text: 'JSON'}),
            h('span', {class: 'quiet', text: 'the same sweep; the job is its “spec”'}), actions),
        this.editor.node, this.verdict.state, this.verdict.list);
  }

  showSweep() {
    this.editor.set(this.data.text);
    this.form.show(this.data.spec);
  }

  /** @param {Api.SweepPlan} plan */
  showValid(plan) {
    this.form.faults([]);
    this.verdict.showValid();
    this.start.disabled = false;
    fill(this.failed);
    this.plan.show(plan);
  }

  /** @param {ApiError} e */
  showErrors(e) {
    const homeless = this.form.faults(e.errors || []);
    this.start.disabled = this.verdict.showErrors(e, homeless);
    this.plan.hide();
  }

  async send() {
    this.start.disabled = true;
    fill(this.failed);
    try {
      location.hash = '#/sweeps/' + await this.data.send();
    } catch (e) {
      const error = /** @type {ApiError} */ (e);
      this.start.disabled = false;
      this.showErrors(error);
      fill(this.failed, notice('bad', 'Not started: ' + error.message));
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
  document.title = 'New sweep · Evenstep';
  const data = new NewSweepModel();
  await data.load(route.params.get('from'));
  if (!route.alive()) {
    return {};
  }
  const view = new NewSweepView(root, data);
  data.check();
  return view;
}
