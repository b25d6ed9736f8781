/* Requests to the service. Every failure is an ApiError whose message is a sentence for people; a
   401 sends the page to the sign-in view, wherever it was raised. */

/**
 * @typedef {{headers?: {[name: string]: string}, body?: unknown, signal?: AbortSignal,
 *            signingIn?: boolean, text?: boolean}} Options
 */
/** @typedef {{[name: string]: unknown} | null} Params */

import {hear} from './servicetime.js';

const V1 = '/api/v1/';
const AWAY = 503;
const TRIES = 3;
const PAUSE_MS = 1000;

export class ApiError extends Error {
  /**
   * @param {number} status 0: no answer
   * @param {Api.Problem} problem
   */
  constructor(status, problem) {
    super(problem.detail || problem.title || 'the service answered with status ' + status);
    this.status = status;
    this.title = problem.title || '';
    this.hint = problem.hint || '';
    this.errors = Array.isArray(problem.errors) ? problem.errors : [];
  }
}

/* Event "out": a request found no session. Its detail is what to tell the person. */
export const signedOut = new EventTarget();

const ENDED = 'Your session has ended.';
const ENDED_BEFORE_US = ENDED + ' Load this page again to sign in.';

/** @param {string} text */
const tellSignedOut = (text) => signedOut.dispatchEvent(new CustomEvent('out', {detail: text}));

/**
 * Whether a proxy that signs people in answered in the service's place: the API sends no HTML.
 * @param {Response} answer
 */
const isOfProxy = (answer) => (answer.headers.get('Content-Type') || '').startsWith('text/html');

/** @param {number} ms */
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * A request that only reads is repeated where a part of the service is away (503), and where no
 * answer came: the browser gives up what it asks for when its computer's network changes.
 * @param {string} method
 * @param {string} path
 * @param {Options} [options]
 * @returns {Promise<any>}
 */
async function request(method, path, options = {}) {
  for (let tries = 1;; tries++) {
    try {
      return await ask(method, path, options);
    } catch (e) {
      const {status} = /** @type {ApiError} */ (e);
      if (method !== 'GET' || (status !== AWAY && status !== 0) || tries === TRIES) {
        throw e;
      }
      await pause(PAUSE_MS);
    }
  }
}

/**
 * The response, whatever its status.
 * @param {string} method
 * @param {string} path
 * @param {Options} options
 */
async function send(method, path, {headers, body, signal}) {
  const blob = body instanceof Blob ? body : null;
  const type = body === undefined ? null : {'Content-Type': blob?.type || 'application/json'};
  const sent = Date.now();
  try {
    const answer = await fetch(path, {
      method,
      headers: {Accept: 'application/json', ...headers, ...type},
      body: blob || (typeof body === 'string' ? body : JSON.stringify(body)),
      signal,
      credentials: 'same-origin',
      cache: 'no-store'
    });
    hear(answer.headers.get('Date'), sent, Date.now());
    return answer;
  } catch (e) {
    if (/** @type {Error} */ (e).name === 'AbortError') {
      throw e;
    }
    throw new ApiError(0, {detail: 'the service does not answer'});
  }
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Options} options
 */
async function ask(method, path, options) {
  const answer = await send(method, path, options);
  if (isOfProxy(answer) && (answer.ok || answer.status === 401)) {
    tellSignedOut(ENDED_BEFORE_US);
    throw new ApiError(401, {detail: ENDED_BEFORE_US});
  }
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    if (answer.status === 401 && !options.signingIn) {
      tellSignedOut(ENDED);
    }
    throw new ApiError(answer.status, problem);
  }
  if (options.text) {
    return answer.text();
  }
  return answer.status === 204 ? null : answer.json();
}

/** @param {Params} [params] */
function query(params) {
  const q = new URLSearchParams();
  for (const [key, value] of Object.entries(params || {})) {
    if (value !== undefined && value !== null && value !== '') {
      q.set(key, String(value));
    }
  }
  const text = q.toString();
  return text ? '?' + text : '';
}

/**
 * @param {string} path
 * @param {Params} [params]
 * @param {Options} [options]
 */
export function get(path, params, options) {
  return request('GET', V1 + path + query(params), options);
}

/**
 * @param {string} path
 * @param {Params} [params]
 * @returns {Promise<string>}
 */
export function getText(path, params) {
  const headers = {Accept: 'text/plain'};
  return request('GET', V1 + path + query(params), {text: true, headers});
}

/**
 * @param {string} path
 * @param {unknown} [body] a text or a Blob goes as it is
 * @param {Options} [options]
 */
export function post(path, body, options) {
  return request('POST', V1 + path, {...options, body});
}

/**
 * A POST of a large file, which reports its progress.
 * @param {string} path
 * @param {Params} params
 * @param {Blob} body
 * @param {(sent: number) => void} onSent bytes so far
 * @returns {Promise<any>}
 */
export function upload(path, params, body, onSent) {
  const request = new XMLHttpRequest(); /* fetch does not tell how far an upload is */
  return new Promise((done, fail) => {
    request.open('POST', V1 + path + query(params));
    request.setRequestHeader('Content-Type', body.type);
    request.setRequestHeader('Accept', 'application/json');
    request.responseType = 'json';
    request.upload.onprogress = (e) => onSent(e.loaded);
    request.onerror = () => fail(new ApiError(0, {detail: 'the service does not answer'}));
    request.onload = () => {
      const {status, response} = request;
      return status < 300 ? done(response) : fail(new ApiError(status, response || {}));
    };
    request.send(body);
  });
}

/**
 * @param {string} path
 * @param {unknown} body the changes
 */
export const patch = (path, body) => request('PATCH', V1 + path, {body});

/** @param {string} path */
export const remove = (path) => request('DELETE', V1 + path);

/**
 * The path of a job, or of a part of it.
 * @param {string} id
 * @param {string} [part]
 */
export const job = (id, part = '') => 'jobs/' + encodeURIComponent(id) + (part ? '/' + part : '');
