/* Numbers and times as people read them, and nowhere else. Pure, tested in
   tests/browser/test_pure.py. Three significant digits, whole numbers above 1,000, a narrow space
   before units, and "none" where there is nothing: never a lone dash. Every text has a limit: a
   number that would need more than some nine characters is a power of ten (digits.js), so that no
   value, however wrong a run went, is wider than its place. */
import {absent, known, LEAST, NARROW, signed, three, tick, trimmed, whole} from './digits.js';

export {known, NARROW, three, tick, whole} from './digits.js';
export * from './times.js';

/** @typedef {import('./digits.js').Maybe} Maybe */

/**
 * Losses: three decimals below 1, else three digits; those below 0.01 keep two digits.
 * @param {Maybe} x
 */
export function loss(x) {
  if (!known(x) || Math.abs(x) >= 0.9995 || Math.abs(x) < LEAST) {
    return three(x);
  }
  return signed(Math.abs(x) >= 0.01 ? x.toFixed(3) : x.toPrecision(2));
}

/**
 * A number at the end of a line, where there is little room: few digits for large ones, one for
 * small ones.
 * @param {number} x
 * @param {(x: number) => string} format of the others
 * @param {number} [large]
 * @param {number} [small]
 */
export function ending(x, format, large = 10000, small = 0) {
  const size = Math.abs(x);
  const digits = size >= 1e9 || size < small ? 1 : 3;
  return size >= large || size < small ? tick(Number(x.toPrecision(digits))) : format(x);
}

/**
 * The text with a capital letter at its beginning.
 * @param {string} text
 */
export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/**
 * A message of the service as a sentence.
 * @param {string} text
 */
export function sentence(text) {
  const t = String(text).trim();
  return capital(t) + (/[.?!]$/.test(t) ? '' : '.');
}

/**
 * @param {Maybe} x
 * @param {number} [digits]
 */
export function percent(x, digits = 1) {
  if (!known(x)) {
    return absent(x);
  }
  const text = Math.abs(x) < 100 ? signed((100 * x).toFixed(digits)) : three(100 * x);
  return text + NARROW + '%';
}

/** @param {Maybe} x */
export function times(x) {
  if (!known(x)) {
    return absent(x);
  }
  const size = Math.abs(x);
  return (size < 999.5 ? signed(x.toFixed(size < 9.95 ? 1 : 0)) : three(x)) + '×';
}

/** @param {Maybe} x */
export function bytes(x) {
  if (!known(x)) {
    return absent(x);
  }
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  let v = x;
  while (Math.abs(v) >= 999.5 && i < units.length - 1) {
    v /= 1000;
    i++;
  }
  return (i === 0 ? whole(v) : three(v)) + NARROW + units[i];
}

/**
 * A node's minibatch; 0 is that of a program which has not told its batch.
 * @param {Maybe} n
 */
export const minibatch = (n) => whole(n || null);

/**
 * @param {number} n
 * @param {string} one
 * @param {string} [many]
 */
export function plural(n, one, many = one + 's') {
  return whole(n) + ' ' + (n === 1 ? one : many);
}

/**
 * "a, b and c"
 * @param {string[]} names
 */
export function list(names) {
  return names.length < 2 ? names.join('')
                          : names.slice(0, -1).join(', ') + ' and ' + names[names.length - 1];
}

/**
 * Ticks of a loss axis: three digits without the zeros behind the point.
 * @param {number} x
 */
export function lossTick(x) {
  const size = Math.abs(x);
  return size >= 10000 || (size > 0 && size < LEAST) ? tick(x) : trimmed(three(x));
}

/**
 * Ticks of an accuracy axis: 93.1 %
 * @param {number} x
 */
export function percentTick(x) {
  return known(x) ? tick(Math.round(x * 1000) / 10) + NARROW + '%' : absent(x);
}

/**
 * A place on an axis, in a table: at most `digits` decimals.
 * @param {number} x
 * @param {number} digits
 */
export function place(x, digits) {
  return tick(Math.round(x * 10 ** digits) / 10 ** digits);
}

/**
 * Three significant digits without zeros behind them, thousands as ticks.
 * @param {number} x
 */
export function short(x) {
  return known(x) && Math.abs(x) < 1000 && Math.abs(x) >= LEAST
      ? signed(String(Number(x.toPrecision(3))))
      : tick(x);
}

/**
 * A rate or another small number in three digits, as the user may have written it.
 * @param {Maybe} x
 */
export function plain(x) {
  return known(x) && Math.abs(x) < 1000 ? short(x) : three(x);
}

/**
 * A mean with one decimal, nothing where there is none.
 * @param {Maybe} x
 */
export function mean(x) {
  return known(x) ? (Math.abs(x) < 999.95 ? signed((x + 0).toFixed(1)) : three(x)) : '';
}
