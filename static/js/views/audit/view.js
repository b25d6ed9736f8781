/* The audit: who changed what, from where, when, and the answer. For admins only: the menu hides
   it from others, and the service refuses them. */
import {fill, h} from '../../elements/dom.js';
import {button, scroller, table} from '../../elements/widgets.js';
import {plural, when} from '../../text/format.js';

import {AuditModel} from './model.js';

/** @typedef {import('../../service/api.js').ApiError} ApiError */

const HEADS = ['Time', 'Who', 'From', 'What', 'Answer'];
const REFUSED = 400;

/** @param {Api.AuditEntry} e */
function whoText({who, role, by}) {
  return by === 'nobody' ? 'unknown sender' : who + ', ' + role;
}

/** @param {Api.AuditEntry} e */
function makeRow(e) {
  const refused = e.status >= REFUSED;
  const left = e.omitted ? plural(e.omitted, 'request') + ' of unknown senders before it' : '';
  return h('tr', null, h('td', {title: e.time, text: when(e.time)}), h('td', {text: whoText(e)}),
      h('td', {text: e.from}),
      h('td', null, h('span', {text: e.method + ' ' + e.path}),
          h('small', {class: 'note', text: [e.note, left].filter(Boolean).join(' · ')})),
      h('td', {text: e.status + (refused ? ' refused' : '')}));
}

class AuditView {
  /**
   * @param {Element} root
   * @param {Page.Route} route
   */
  constructor(root, route) {
    this.route = route;
    this.data = new AuditModel();
    this.body = h('tbody');
    this.fault = h('p', {class: 'sub', role: 'status'});
    this.older = button('Older entries', () => this.read(() => this.data.more()), {hidden: true});
    const change = () => this.read(() => this.data.choose(this.who.value.trim()));
    this.who = h('input', {
      type: 'search',
      id: 'audit-who',
      placeholder: 'Name',
      'aria-label': 'Only what this name did',
      on: {change}
    });
    fill(root,
        h('div', {class: 'head'}, h('div', {class: 'title'}, h('h1', {text: 'Audit'})), this.who),
        h('p', {class: 'sub', text: 'Every request that may have changed something.'}), this.fault,
        h('div', {class: 'sheet'},
            scroller('Entries of the audit', table('Audit', HEADS, this.body, 'audit-table'))),
        h('p', {class: 'actions'}, this.older));
  }

  /** @param {() => Promise<void>} ask */
  async read(ask) {
    this.fault.textContent = '';
    try {
      await ask();
    } catch (e) {
      this.fault.textContent = /** @type {ApiError} */ (e).message;
    }
    if (this.route.alive()) {
      this.draw();
    }
  }

  draw() {
    const {entries, next} = this.data;
    const none = h('tr', null, h('td', {colspan: HEADS.length, text: 'There is no entry.'}));
    fill(this.body, entries.length ? entries.map(makeRow) : none);
    this.older.hidden = !next;
  }
}

/**
 * @param {Element} root
 * @param {Page.Route} route
 */
export async function show(root, route) {
  document.title = 'Audit · Evenstep';
  const view = new AuditView(root, route);
  await view.data.choose('');
  view.draw();
  return {};
}
