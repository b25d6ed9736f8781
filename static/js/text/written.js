/* Numbers, durations, sizes and times as people write them, and as format.js prints them: the way
   back. Pure, tested in tests/browser/test_runs.py. */

/** @type {{[unit: string]: number}} */
const UNITS = {
  ns: 1e-9,
  µs: 1e-6,
  us: 1e-6,
  ms: 1e-3,
  s: 1,
  min: 60,
  h: 3600,
  d: 86400,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  tb: 1e12,
  '%': 0.01,
  '': 1
};
const NUMBER = '[-+]?[\\d,]*\\.?\\d+(?:e[-+]?\\d+)?';
const PART = new RegExp('(' + NUMBER + ')\\s*([a-zµ%]*)\\s*', 'giy');

/**
 * 0.9, 90 %, 1,000, 58 s, 1 h 49 min, 1.5 MB; NaN where it is none.
 * @param {string} text
 */
export function numberOf(text) {
  const rest = text.trim();
  let sum = rest ? 0 : NaN, at = 0;
  while (at < rest.length) {
    PART.lastIndex = at;
    const found = PART.exec(rest);
    const unit = found ? UNITS[found[2].toLowerCase()] : undefined;
    if (!found || unit === undefined) {
      return NaN;
    }
    sum += Number(found[1].replace(/,/g, '')) * unit;
    at = PART.lastIndex;
  }
  return Number(sum.toPrecision(12));
}

/**
 * 14:46 of today, 3 Mar, 3 Mar 14:46, 2026-03-03 14:46: milliseconds since 1970; NaN where it is
 * none.
 * @param {string} text
 * @param {Date} today
 */
export function instantOf(text, today) {
  const [, day, clock] = /^(\d{1,2} [a-z]{3})?\s*(\d{1,2}:\d{2})?$/i.exec(text.trim()) || [];
  if (day || clock) {
    const date = day ? day + ' ' + today.getFullYear() : today.toDateString();
    return Date.parse(date + ' ' + (clock || '00:00'));
  }
  return /^\d{4}-\d{2}-\d{2}/.test(text.trim()) ? Date.parse(text.trim()) : NaN;
}
