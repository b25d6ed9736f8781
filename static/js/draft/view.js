/* What all pages with a draft share: its JSON next to the form, the result of the check, the
   button that submits it. */
import {around, fill, h} from '../elements/dom.js';
import {button, copyButton, notice} from '../elements/widgets.js';

import {Editor} from './editor.js';
import {saveButton} from './files.js';
import {Verdict} from './verdict.js';

/** @typedef {import('../service/api.js').ApiError} ApiError */
/** @typedef {import('./draft.js').Draft} Draft */
/**
 * Words of a page: `what` it edits, the `note` next to its JSON, text (`send`) and `id` of the
 * button, the `address` of what was made, and the sentence if it `failed`.
 * @typedef {{what: string, note: string, send: string, id: string, address: string,
 *            failed: string}} Words
 */

const COPIED_MS = 1500;
const UNKNOWN = 'The service did not answer, so it is not known whether it has this. ' +
    'Try again: what has come is not made twice.';

export class DraftView {
  /**
   * @param {Element} root
   * @param {Draft} data
   * @param {Words} words
   */
  constructor(root, data, words) {
    this.root = root;
    this.data = data;
    this.words = words;
    this.editor = new Editor((text) => data.type(text), 'The ' + words.what + ' as JSON');
    this.verdict = new Verdict(this.editor);
    this.button = button(words.send, () => this.send(), {class: 'btn primary', id: words.id});
    this.failed = h('div', {role: 'alert'});
    /** The form's fields: off while the text cannot be read, which a change would replace. */
    /** @type {HTMLElement | null} */
    this.fields = null;
    this.waits = h('p', {
      class: 'form-waits',
      role: 'status',
      hidden: true,
      text: 'The form waits until its JSON can be read.'
    });
    data.addEventListener('spec', () => this.showSpec());
    data.addEventListener('unread', () => this.showReadable(false));
    data.addEventListener('checked', (e) => this.showValid(/** @type {CustomEvent} */ (e).detail));
    data.addEventListener('refused', (e) => this.showErrors(/** @type {CustomEvent} */ (e).detail));
  }

  /**
   * Makes the form with its JSON, the part beneath both, and the buttons.
   * @param {HTMLElement} form
   * @param {Element} below
   * @param {{more?: Element, foot?: Element}} [parts] behind the JSON's errors, before the buttons
   */
  makeSheet(form, below, parts = {}) {
    const {more, foot} = parts;
    this.fields = form;
    this.showReadable(this.data.readable());
    const save = saveButton(() => this.editor.text, () => this.data.spec.name || this.words.what);
    const submit = (/** @type {Event} */ e) => {
      e.preventDefault();
      this.send();
    };
    const keydown = (/** @type {KeyboardEvent} */ e) =>
        e.key === 'Enter' && around(e, '*')?.tagName === 'INPUT' && e.preventDefault();
    return h('form', {class: 'sheet', novalidate: true, on: {submit, keydown}},
        h('div', {class: 'submit-grid'}, form, this.makeJson(more)), below,
        h('div', {class: 'submit-foot'}, foot, h('div', {class: 'actions'}, save, this.button),
            this.failed));
  }

  /** @param {Element} [more] */
  makeJson(more) {
    const small = {class: 'btn small'};
    const actions =
        h('span', {class: 'actions'}, copyButton('Copy', () => this.editor.text, small, COPIED_MS),
            copyButton('Copy as curl', () => this.data.curl(), small, COPIED_MS));
    return h('section', {class: 'submit-json', 'aria-label': 'JSON'},
        h('div', {class: 'json-head'}, h('h2', {text: 'JSON'}),
            h('span', {class: 'quiet', text: this.words.note}), actions),
        this.editor.node, this.verdict.state, this.verdict.list, this.waits, more);
  }

  showSpec() {
    this.editor.set(this.data.text);
    this.showReadable(this.data.readable());
  }

  /** @param {boolean} readable */
  showReadable(readable) {
    this.waits.hidden = readable;
    if (this.fields) {
      this.fields.inert = !readable;
    }
  }

  /** @param {any} ignored the answer, which each page shows in its own way */
  showValid(ignored) {
    this.verdict.showValid();
    this.button.disabled = false;
    fill(this.failed);
  }

  /**
   * @param {ApiError} e
   * @param {Api.Fault[]} [homeless] errors that no field has
   */
  showErrors(e, homeless = []) {
    this.button.disabled = this.verdict.showErrors(e, homeless);
  }

  async send() {
    this.button.disabled = true;
    fill(this.failed);
    try {
      location.hash = this.words.address + await this.data.send();
    } catch (e) {
      const error = /** @type {ApiError} */ (e);
      this.button.disabled = false;
      this.showErrors(error);
      fill(this.failed, notice('bad', error.status ? this.words.failed + error.message : UNKNOWN));
      /** @type {HTMLElement | null} */
      const field = this.root.querySelector('.field.bad input, .field.bad select');
      field?.focus();
    }
  }

  close() {
    this.data.close();
  }
}
