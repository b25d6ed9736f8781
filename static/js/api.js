/* Requests to the service. Every failure is an ApiError whose message is a sentence for people; a 401 sends the page to
   the sign-in view, wherever it was raised. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || 'the service answered with status ' + status);
    this.status = status;
    this.title = problem.title || '';
    this.hint = problem.hint || '';
    this.errors = Array.isArray(problem.errors) ? problem.errors : [];
  }
}

export const signedOut = new EventTarget();

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/* What only reads is asked again where a part of the service was away for a moment. */
async function request(method, path, options = {}) {
  for (let tries = 0;; tries++) {
    try {
      return await ask(method, path, options);
    } catch (e) {
      if (method !== 'GET' || e.status !== 503 || tries === 2) {
        throw e;
      }
      await pause(1000);
    }
  }
}

async function ask(method, path, options) {
  const headers = {Accept: 'application/json', ...options.headers};
  if (options.body !== undefined) {
    headers['Content-Type'] = 'application/json';
  }
  let answer;
  try {
    answer = await fetch(
        path,
        {method, headers, body: options.body, signal: options.signal, credentials: 'same-origin', cache: 'no-store'});
  } catch (e) {
    if (e.name === 'AbortError') {
      throw e;
    }
    throw new ApiError(0, {detail: 'the service does not answer'});
  }
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    if (answer.status === 401 && !options.signingIn) {
      signedOut.dispatchEvent(new Event('out'));
    }
    throw new ApiError(answer.status, problem);
  }
  if (options.text) {
    return answer.text();
  }
  return answer.status === 204 ? null : answer.json();
}

function query(params) {
  const q = new URLSearchParams();
  for (const [key, value] of Object.entries(params || {})) {
    if (value !== undefined && value !== null && value !== '') {
      q.set(key, value);
    }
  }
  const text = q.toString();
  return text ? '?' + text : '';
}

const V1 = '/api/v1/';
export const get = (path, params, options) => request('GET', V1 + path + query(params), options);
export const getText = (path, params) =>
    request('GET', V1 + path + query(params), {text: true, headers: {Accept: 'text/plain'}});
export const post = (path, body, options) => request(
    'POST', V1 + path,
    {...options,
     body: body === undefined     ? undefined :
         typeof body === 'string' ? body :
                                    JSON.stringify(body)});
export const remove = (path) => request('DELETE', V1 + path);
export const job = (id, part = '') => 'jobs/' + encodeURIComponent(id) + (part ? '/' + part : '');
