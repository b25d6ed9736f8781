/* Who we are: the address that `evenstep serve` prints carries a code for one use in its fragment (#token=…), which is
   changed for a session cookie and cleared from the address and the history at once. Without cookie and code the page
   asks for a token. */
import {get, post} from './api.js';
import {fill, h} from './dom.js';
import {icon} from './icons.js';

function takeToken() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) {
    return null;
  }
  history.replaceState(null, '', location.pathname + '#/');
  return decodeURIComponent(found[1]);
}

/* {session} or {message}. */
export async function signIn(given) {
  const token = given || takeToken();
  let wrong = '';
  if (token) {
    try {
      return {session: await post('session', {token}, {signingIn: true})};
    } catch (e) {
      wrong = e.status === 401 ? 'This link is not known, was used before, or is older than 24 hours.' : e.message;
    }
  }
  try { /* a cookie of an earlier visit is as good */
    return {session: await get('session', null, {signingIn: true})};
  } catch (e) {
    return {message: wrong || (e.status === 401 ? '' : e.message)};
  }
}

export function showSignIn(main, message, again) {
  document.title = 'Sign in · Evenstep';
  const input = h('input', {type: 'password', id: 'token', autocomplete: 'off', spellcheck: 'false', required: true});
  const fault = h('p', {class: 'fault', role: 'alert'});
  const field = h('div', {class: 'field'}, h('label', {for: 'token', text: 'Token'
                  }), input, fault);
  const form =
      h('form', {
        class: 'sign-in',
        on: {
          async submit(e) {
            e.preventDefault();
            const outcome = await signIn(input.value.trim());
            if (outcome.session) {
              again();
            } else {
              field.classList.add('bad');
              fill(fault, icon('cross', 10), h('span', {text: 'This token is not known.'}));
              input.focus();
            }
          }
        }
      },
        field, h('button', {class: 'btn primary', type: 'submit', text: 'Sign in'}));
  fill(
      main,
      h('div', {class: 'wrap narrow'}, h('h1', {text: 'This page needs a link or a token.'}),
        message && h('p', {class: 'notice', data: {tone: 'warn'}}, icon('warn'), h('span', {text: message})),
        h('p', {class: 'sub'}, 'On the machine that runs the service, ',
          h('code', {class: 'mono', text: 'evenstep link'}),
          ' prints a fresh address for this browser. A token works too; the administrator’s is in the file ',
          h('code', {class: 'mono', text: 'token'}), ' of the data directory.'),
        form));
  input.focus();
}
