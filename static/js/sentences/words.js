/* Small numbers as words. Pure. */
const NUMBERS = ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'];

/** @param {number} n */
export function counted(n) {
  return NUMBERS[n] || String(n);
}
