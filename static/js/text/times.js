/* Times and durations as people read them: a part of format.js. Pure. */
import {absent, known, LEAST, NARROW, power, signed, three, tick} from './digits.js';
import {serviceNow} from '../service/servicetime.js';

/** @typedef {import('./digits.js').Maybe} Maybe */

const YEAR = 365.25 * 86400;
/** @type {[number, string, number][]} seconds, name, up to which range */
const TIME_UNITS = [[1, 's', 120], [60, 'min', 7200], [3600, 'h', 172800]];

/** @type {[string, number][]} units of short times, their seconds; the last for all shorter ones */
const SHORT_UNITS = [['ms', 1e-3], ['µs', 1e-6], ['ns', 1e-9]];

/**
 * The unit of a time below 0.1 s, in which two digits of it are at least 1.
 * @param {number} size seconds, not negative
 */
function shortUnit(size) {
  return SHORT_UNITS.find(([, unit]) => size >= 0.0995 * unit) || SHORT_UNITS[2];
}

/**
 * 31 ns, 3.1 µs, 82 ms, 0.23 s, 1.15 s, 14 min, 1 h 49 min
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
  if (size < 0.0995) {
    const [name, unit] = shortUnit(size);
    const short = x / unit;
    const text = Math.abs(short) < LEAST
        ? power(short)
        : signed(Math.abs(short) < 9.95 ? short.toPrecision(2) : short.toFixed(0));
    return text + NARROW + name;
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
  if (most >= 59.95 || most < LEAST * 1e-9) {
    return all.map(seconds);
  }
  const [name, unit] = most < 0.0995 ? shortUnit(most) : ['s', 1];
  const digits = Math.max(0, Math.min(3, 2 - Math.floor(Math.log10(most / unit))));
  return all.map(
      (x) => (known(x) ? signed((x / unit).toFixed(digits)) + NARROW + name : absent(x)));
}

/**
 * Times of one sentence: in one unit, unless one of them would read 0 in it.
 * @param {number[]} all seconds
 */
export function spans(...all) {
  const texts = alike(...all);
  return texts.some((text, i) => all[i] > 0 && parseFloat(text) === 0) ? all.map(span) : texts;
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
 * Seconds as milliseconds, for a column whose head names the unit. Where all of a table are below
 * 10 ms they have two decimals, which is what a phone has room for.
 * @param {number} x
 * @param {number} [most] the longest that they are compared with
 */
export function milliseconds(x, most = Infinity) {
  if (!known(x) || x >= 0.0995) {
    return three(known(x) ? Math.round(x * 1000) : x);
  }
  const long = x < 0.00995 ? 1 : 0;
  const digits = most < 0.00995 ? 2 : long;
  return x < 0.0005 * 10 ** -digits ? '0' : (x * 1000).toFixed(digits);
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
 * @param {Date} [today]
 */
export function when(time, today = new Date(serviceNow())) {
  const t = new Date(time || NaN);
  if (!time || Number.isNaN(t.getTime())) {
    return 'none';
  }
  const day = t.toDateString() === today.toDateString()
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
