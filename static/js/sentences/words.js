/* Small numbers as words, and the two tenses of a sentence. Pure. */
const NUMBERS = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];

/** @param {number} n */
export function counted(n) {
  return NUMBERS[n] || String(n);
}

/**
 * "both", "all four"
 * @param {number} n
 */
export function everyone(n) {
  return n === 2 ? 'both' : 'all ' + counted(n);
}

/**
 * Picks the verb: a run that is over has the past tense.
 * @param {boolean} past
 * @returns {(now: string, then: string) => string}
 */
export const tense = (past) => (now, then) => (past ? then : now);
