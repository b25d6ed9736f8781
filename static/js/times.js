/* Times and durations as people read them: a part of format.js. Pure. */
import {absent, known, NARROW, power, signed, three, tick} from './digits.js';

/** @typedef {import('./digits.js').Maybe} Maybe */

const YEAR = 365.25 * 86400;
/** @type {[number, string, number][]} seconds, name, up to which range */
const TIME_UNITS = [[1, 's', 120], [60, 'min', 7200], [3600, 'h', 172800]];

/**
 * 82 ms, 0.23 s, 1.15 s, 14 min, 1 h 49 min
 * @param {Maybe} x
 */
export function seconds(x) {
  if (!known(x)) {
    return absent(x);
  }
  const size = Math.abs(x);
  if (size === 0) {
    return '0' + NARROW + 's';
  }
  if (size < 0.000005) {
    return power(x * 1000) + NARROW + 'ms';
  }
  if (size < 0.0995) {
    const ms = x * 1000;
    return signed(size < 0.00995 ? ms.toPrecision(2) : ms.toFixed(0)) + NARROW + 'ms';
  }
  if (size < 59.95) {
    return signed(x.toFixed(size < 9.995 ? 2 : size < 20 ? 1 : 0)) + NARROW + 's';
  }
  return duration(x);
}

/**
 * Several times in the one unit that suits the longest, so that they can be compared at sight.
 * @param {number[]} all seconds
 */
export function alike(...all) {
  const most = Math.max(...all.filter(known).map(Math.abs), 0);
  if (most >= 59.95 || most < 0.000005) {
    return all.map(seconds);
  }
  const [by, unit] = most < 0.0995 ? [1000, 'ms'] : [1, 's'];
  const digits = Math.max(0, Math.min(3, 2 - Math.floor(Math.log10(most * by))));
  return all.map((x) => (known(x) ? signed((x * by).toFixed(digits)) + NARROW + unit : absent(x)));
}

/**
 * Whole: 12 s, 1 min 12 s, 14 min, 1 h 49 min, 3 d 4 h
 * @param {Maybe} x
 */
export function duration(x) {
  if (!known(x)) {
    return absent(x);
  }
  if (x >= 100 * YEAR) {
    return three(x / YEAR) + NARROW + 'years';
  }
  const all = Math.max(0, Math.round(x));
  const unit = (/** @type {number} */ n, /** @type {string} */ u) => n + NARROW + u;
  if (all < 60) {
    return unit(all, 's');
  }
  if (all < 600) {
    return unit(Math.floor(all / 60), 'min') + (all % 60 ? ' ' + unit(all % 60, 's') : '');
  }
  const minutes = Math.round(all / 60);
  if (minutes < 60) {
    return unit(minutes, 'min');
  }
  if (minutes < 48 * 60) {
    return unit(Math.floor(minutes / 60), 'h') +
        (minutes % 60 ? ' ' + unit(minutes % 60, 'min') : '');
  }
  return unit(Math.floor(minutes / 1440), 'd') + ' ' + unit(Math.floor(minutes / 60) % 24, 'h');
}

/** @param {Maybe} x */
export function age(x) {
  if (!known(x)) {
    return 'never';
  }
  return x < 10 ? Math.max(0, x).toFixed(1) + NARROW + 's' : duration(x);
}

/**
 * Seconds: short times with digits, long ones in words.
 * @param {number} x
 */
export function span(x) {
  return x < 60 ? seconds(x) : duration(x);
}

/**
 * Seconds as milliseconds, for a column whose head names the unit.
 * @param {number} x
 */
export function milliseconds(x) {
  if (!known(x) || x >= 0.0995) {
    return three(known(x) ? Math.round(x * 1000) : x);
  }
  if (x < 0.00005) {
    return '0';
  }
  return (x * 1000).toFixed(x < 0.00995 ? 1 : 0);
}

/**
 * @param {string | Date | null | undefined} time
 * @param {boolean} [withSeconds]
 */
export function clock(time, withSeconds = false) {
  const t = time instanceof Date ? time : new Date(time || NaN);
  if (!time || Number.isNaN(t.getTime())) {
    return 'none';
  }
  const two = (/** @type {number} */ n) => String(n).padStart(2, '0');
  return two(t.getHours()) + ':' + two(t.getMinutes()) +
      (withSeconds ? ':' + two(t.getSeconds()) : '');
}

/**
 * 14:46 today, else 3 Mar 14:46
 * @param {string | null | undefined} time
 * @param {Date} [now]
 */
export function when(time, now = new Date()) {
  const t = new Date(time || NaN);
  if (!time || Number.isNaN(t.getTime())) {
    return 'none';
  }
  const day = t.toDateString() === now.toDateString()
      ? ''
      : t.getDate() + ' ' + t.toLocaleString('en-US', {month: 'short'}) + ' ';
  return day + clock(t);
}

/**
 * Ticks of a time axis; the labels of one range keep one unit.
 * @param {number} x seconds
 * @param {number} range seconds
 */
export function timeTick(x, range) {
  if (x === 0) {
    return '0';
  }
  const [unit, name] = TIME_UNITS.find((u) => range < u[2]) || [86400, 'd'];
  return tick(+(x / unit).toPrecision(name === 's' ? 4 : 3)) + NARROW + name;
}
