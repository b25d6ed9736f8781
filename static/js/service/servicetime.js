/* The time by the service's clock. Every answer has its date, in whole seconds; a browser whose own
   clock is wrong by more than that would say "running for 3 h" of a job that began just now. */

const SECOND_MS = 1000;

let ahead = 0; /* milliseconds by which the service's clock is before the browser's */

/**
 * The least correction with which the answer was made between the request and its arrival.
 * @param {string | null} date of an answer
 * @param {number} sent by the browser's clock, as is `received`
 * @param {number} received
 */
export function hear(date, sent, received) {
  const at = Date.parse(date || '');
  if (!Number.isNaN(at)) {
    ahead = Math.max(at - received, 0) || Math.min(at + SECOND_MS - sent, 0);
  }
}

/* Milliseconds since 1970. */
export const serviceNow = () => Date.now() + ahead;
