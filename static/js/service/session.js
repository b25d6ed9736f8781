/* The session: the address that `evenstep serve` prints carries a code for one use in its fragment
   (#token=…), which the page exchanges for a session cookie and at once removes from the address
   and the history. Without cookie and code the page asks for a token (views/login/). */
import {get, post} from './api.js';

/** @typedef {{session?: Api.Session, message?: string}} Outcome */
/** @typedef {import('./api.js').ApiError} ApiError */

const WRONG = 'This link is not known, was used before, or is older than 24 hours.';

export const hasLink = () => location.hash.startsWith('#token=');

function takeToken() {
  const found = /^#token=([^&]+)/.exec(location.hash);
  if (!found) {
    return null;
  }
  history.replaceState(null, '', location.pathname + '#/');
  return decodeURIComponent(found[1]);
}

/**
 * Signs in. Returns a session, or what is wrong.
 * @param {string} [given] a token that was typed
 * @returns {Promise<Outcome>}
 */
export async function signIn(given) {
  const token = given || takeToken();
  let wrong = '';
  if (token) {
    try {
      return {session: await post('session', {token}, {signingIn: true})};
    } catch (e) {
      const {status, message} = /** @type {ApiError} */ (e);
      wrong = status === 401 ? WRONG : message;
    }
  }
  try { /* a cookie of an earlier visit is as good */
    return {session: await get('session', null, {signingIn: true})};
  } catch (e) {
    const {status, message} = /** @type {ApiError} */ (e);
    return {message: wrong || (status === 401 ? '' : message)};
  }
}
