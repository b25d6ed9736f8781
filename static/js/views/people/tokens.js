/* The tokens, each with a button that revokes it, and a form that issues one. Lines of the token
   file are listed too; they are removed by editing the file. */
import {fill, h} from '../../elements/dom.js';
import {button, copyButton, question, scroller, table} from '../../elements/widgets.js';
import {when} from '../../text/format.js';

const HEADS = ['Holder', 'Role', 'From', 'Made', 'Ends', ''];
const ROLES = ['viewer', 'operator', 'programs', 'admin'];
const MOST_DAYS = 3660;
const USUAL_DAYS = 90;

/** @param {Api.Token} t */
function endText(t) {
  return t.expired ? 'ended ' + when(t.expires || '') : t.expires ? when(t.expires) : 'never';
}

/** @param {Api.Token} t */
function sourceText(t) {
  return t.source === 'file' ? 'token file' : 'issued' + (t.by ? ' by ' + t.by : '');
}

/**
 * A cell that names its column where phones have no heads.
 * @param {string} head
 * @param {string} text
 */
const dated = (head, text) =>
    h('td', null, head && text ? h('span', {class: 'own-head', text: head + ' '}) : null, text);

export class Tokens {
  /**
   * @param {import('./model.js').PeopleModel} data
   * @param {(ask: () => Promise<unknown>) => Promise<boolean>} run does it, says what went wrong
   */
  constructor(data, run) {
    this.data = data;
    this.run = run;
    this.body = h('tbody');
    this.made = h('p', {class: 'made', role: 'status'});
    /** The token whose revocation is asked about. */
    this.asked = '';
    this.name = h('input', {id: 'token-name', autocomplete: 'off', maxlength: '64'});
    this.role = h('select', {id: 'token-role'}, ROLES.map((r) => h('option', {value: r, text: r})));
    /* an empty field is no 0, which has no end */
    this.days = h('input', {
      id: 'token-days',
      type: 'number',
      min: '0',
      max: String(MOST_DAYS),
      required: true,
      value: String(USUAL_DAYS)
    });
    this.node = h('section', null, h('h2', {text: 'Tokens'}),
        h('div', {class: 'sheet'},
            scroller('Tokens', table('Tokens', HEADS, this.body, 'tokens-table'))),
        this.makeForm(), this.made);
  }

  makeForm() {
    const submit = (/** @type {Event} */ e) => {
      e.preventDefault();
      this.issue();
    };
    const named = (/** @type {HTMLElement} */ field, /** @type {string} */ text) =>
        h('span', {class: 'control'}, h('label', {'for': field.id, text}), field);
    return h('form', {class: 'issue', on: {submit}}, named(this.name, 'Holder'),
        named(this.role, 'Role'), named(this.days, 'Days, 0 for no end'),
        h('button', {class: 'btn', type: 'submit', text: 'Issue a token'}));
  }

  async issue() {
    const name = this.name.value.trim();
    let text = '';
    fill(this.made);
    const done = await this.run(async () => {
      text = await this.data.issue(name, this.role.value, Number(this.days.value));
    });
    if (done) {
      fill(this.made,
          'The token of ' + name + ', shown this one time: ', h('code', {class: 'mono', text}),
          copyButton('Copy', () => text, {class: 'btn small'}));
      this.name.value = '';
    }
  }

  /** @param {Api.Token} t */
  revoking(t) {
    if (t.source === 'file') {
      return '';
    }
    const ask = (/** @type {string} */ id) => {
      this.asked = id;
      this.update();
    };
    if (this.asked !== t.id) {
      return button('Revoke', () => ask(t.id), {class: 'btn small'});
    }
    const yes =
        button('Revoke', () => this.run(() => this.data.revoke(t.id)), {class: 'btn small danger'});
    return question('End it with its sessions and links?', [yes], 'Keep', () => ask(''));
  }

  update() {
    fill(this.body,
        this.data.tokens.map(
            (t) => h('tr', null, h('td', {text: t.name}), h('td', {text: t.role}),
                h('td', {text: sourceText(t)}), dated('Made', t.created ? when(t.created) : ''),
                dated(t.expired ? '' : 'Ends', endText(t)), h('td', null, this.revoking(t)))));
  }
}
