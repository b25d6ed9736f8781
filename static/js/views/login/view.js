/* Asks for a token where the page was opened without a valid link. */
import {fill, h} from '../../elements/dom.js';
import {icon} from '../../elements/icons.js';
import {notice} from '../../elements/widgets.js';
import {signIn} from '../../service/session.js';

class TokenForm {
  /** @param {() => void} signedIn */
  constructor(signedIn) {
    this.signedIn = signedIn;
    this.input =
        h('input', {type: 'password', id: 'token', autocomplete: 'off', spellcheck: 'false'});
    this.fault = h('p', {class: 'fault', role: 'alert'});
    this.field = h('div', {class: 'field'}, h('label', {'for': 'token', text: 'Token'}), this.input,
        this.fault);
    this.node = h('form', {class: 'sign-in', on: {submit: (e) => this.submit(e)}}, this.field,
        h('button', {class: 'btn primary', type: 'submit', text: 'Sign in'}));
  }

  /** @param {Event} e */
  async submit(e) {
    e.preventDefault();
    const token = this.input.value.trim();
    const outcome = token ? await signIn(token) : {session: null};
    if (outcome.session) {
      this.signedIn();
    } else {
      this.field.classList.add('bad');
      fill(this.fault, icon('cross', 10),
          h('span', {text: token ? 'Unknown token.' : 'No token given.'}));
      this.input.focus();
    }
  }
}

/**
 * @param {Element} main
 * @param {string | undefined} message why the last session or link is not good any more
 * @param {() => void} signedIn
 */
export function showSignIn(main, message, signedIn) {
  document.title = 'Sign in · Evenstep';
  const form = new TokenForm(signedIn);
  const code = (/** @type {string} */ text) => h('code', {class: 'mono', text});
  fill(main,
      h('div', {class: 'wrap narrow'}, h('h1', {text: 'This page needs a link or a token.'}),
          message && notice('warn', message),
          h('p', {class: 'sub'}, 'On the machine that runs the service, ', code('evenstep link'),
              ' prints a fresh address for this browser. A token works too; ',
              'the administrator’s is in the file ', code('token'), ' of the data directory.'),
          form.node));
  form.input.focus();
}
