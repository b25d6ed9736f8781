/* A new sweep: form and JSON side by side, always the same sweep. Every change is checked by the
   service soon after; beneath, which jobs there would be. */
import {loadButton} from '../../draft/files.js';
import {DraftView} from '../../draft/view.js';
import {fill, h} from '../../elements/dom.js';

import {SweepForm} from './form.js';
import {NewSweepModel} from './model.js';
import {Plan} from './plan.js';

/** @typedef {import('../../service/api.js').ApiError} ApiError */

const WORDS = {
  what: 'sweep',
  note: 'the same sweep; the job is its “spec”',
  send: 'Start sweep',
  id: 'start',
  address: '#/sweeps/',
  failed: 'Not started: '
};

class NewSweepView extends DraftView {
  /**
   * @param {Element} root
   * @param {NewSweepModel} data
   */
  constructor(root, data) {
    super(root, data, WORDS);
    this.form = new SweepForm(data);
    this.plan = new Plan();
    const {earlier} = data;
    const title = earlier ? 'New sweep of “' + earlier.name + '”' : 'New sweep';
    fill(root, h('p', {class: 'crumbs'}, h('a', {href: '#/sweeps', text: 'Sweeps'}), ' /'),
        h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: title})),
            h('div', {class: 'actions'}, loadButton((text) => this.editor.replace(text)))),
        this.makeSheet(this.form.node, this.plan.node));
    this.showSpec();
  }

  showSpec() {
    super.showSpec();
    this.form.show(this.data.spec);
  }

  /** @param {Api.SweepPlan} plan */
  showValid(plan) {
    super.showValid(plan);
    this.form.faults([]);
    this.plan.show(plan);
  }

  /** @param {ApiError} e */
  showErrors(e) {
    super.showErrors(e, this.form.faults(e.errors || []));
    this.plan.hide();
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
  data.restore();
  const view = new NewSweepView(root, data);
  data.check();
  return view;
}
