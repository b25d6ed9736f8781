/* Numbers and times as people read them, and nowhere else. Pure, tested in
   tests/browser/test_pure.py. Three significant digits, whole numbers above 1,000, a narrow space
   before units, and "none" where there is nothing: never a lone dash. */
export const NARROW = '\u202f';

/** @typedef {number | null | undefined} Maybe */

/**
 * Whether there is a number.
 * @param {unknown} x
 * @returns {x is number}
 */
export function known(x) {
  return typeof x === 'number' && Number.isFinite(x);
}

/** @param {Maybe} x */
export function whole(x) {
  return known(x) ? Math.round(x).toLocaleString('en-US') : 'none';
}

/** @param {Maybe} x */
export function three(x) {
  if (!known(x)) {
    return 'none';
  }
  const size = Math.abs(x);
  if (size >= 999.5) {
    return whole(x);
  }
  const digits = size === 0 ? 0 : Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(size))));
  return x.toFixed(digits);
}

/**
 * Losses: three decimals below 1, else three digits; very small ones keep two digits.
 * @param {Maybe} x
 */
export function loss(x) {
  if (!known(x)) {
    return 'none';
  }
  if (Math.abs(x) >= 1 || x === 0) {
    return three(x);
  }
  return Math.abs(x) >= 0.001 ? x.toFixed(3) : x.toPrecision(2);
}

/**
 * With a capital letter at its head.
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
  return known(x) ? (100 * x).toFixed(digits) + NARROW + '%' : 'none';
}

/** @param {Maybe} x */
export function times(x) {
  return known(x) ? (x >= 10 ? x.toFixed(0) : x.toFixed(1)) + '×' : 'none';
}

/**
 * 82 ms, 0.23 s, 1.15 s, 14 min, 1 h 49 min
 * @param {Maybe} x
 */
export function seconds(x) {
  if (!known(x)) {
    return 'none';
  }
  const size = Math.abs(x);
  if (size === 0) {
    return '0' + NARROW + 's';
  }
  if (size < 0.0995) {
    const ms = x * 1000;
    return (size < 0.00995 ? ms.toFixed(size < 0.000995 ? 2 : 1) : ms.toFixed(0)) + NARROW + 'ms';
  }
  if (size < 59.95) {
    return (size < 9.995 ? x.toFixed(2) : x.toFixed(size < 20 ? 1 : 0)) + NARROW + 's';
  }
  return duration(x);
}

/**
 * Whole: 12 s, 1 min 12 s, 14 min, 1 h 49 min, 3 d 4 h
 * @param {Maybe} x
 */
export function duration(x) {
  if (!known(x)) {
    return 'none';
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
  return x < 10 ? x.toFixed(1) + NARROW + 's' : duration(x);
}

/** @param {Maybe} x */
export function bytes(x) {
  if (!known(x)) {
    return 'none';
  }
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  let i = 0;
  let v = x;
  while (v >= 999.5 && i < units.length - 1) {
    v /= 1000;
    i++;
  }
  return (i === 0 ? String(Math.round(v)) : three(v)) + NARROW + units[i];
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
 * Axis ticks: 0, 500, 2 k, 1.5 M
 * @param {number} x
 */
export function tick(x) {
  const size = Math.abs(x);
  if (size >= 1e6) {
    return +(x / 1e6).toPrecision(3) + NARROW + 'M';
  }
  return size >= 10000 || (size >= 1000 && x % 100 === 0)
      ? +(x / 1000).toPrecision(3) + NARROW + 'k'
      : String(+x.toPrecision(6));
}

/**
 * Ticks of a loss axis: three digits without the zeros behind the point.
 * @param {number} x
 */
export function lossTick(x) {
  return three(x).replace(/\.?0+$/, '') || '0';
}

/**
 * Ticks of an accuracy axis: 93.1 %
 * @param {number} x
 */
export function percentTick(x) {
  return Math.round(x * 1000) / 10 + NARROW + '%';
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
  if (range < 120) {
    return +x.toPrecision(4) + NARROW + 's';
  }
  if (range < 7200) {
    return +(x / 60).toPrecision(3) + NARROW + 'min';
  }
  return range < 172800 ? +(x / 3600).toPrecision(3) + NARROW + 'h'
                        : +(x / 86400).toPrecision(3) + NARROW + 'd';
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
 * Seconds as milliseconds, for a column whose head names the unit.
 * @param {number} x
 */
export function milliseconds(x) {
  if (x >= 0.0995) {
    return Math.round(x * 1000).toLocaleString('en-US');
  }
  if (x < 0.00005) {
    return '0';
  }
  return (x * 1000).toFixed(x < 0.00995 ? 1 : 0);
}

/**
 * Seconds: short times with digits, long ones in words.
 * @param {number} x
 */
export function span(x) {
  return x < 60 ? seconds(x) : duration(x);
}

/**
 * Three significant digits without zeros behind them, thousands as ticks.
 * @param {number} x
 */
export function short(x) {
  return x >= 1000 || x === 0 ? tick(x) : String(Number(x.toPrecision(3)));
}

/**
 * A rate or another small number in three digits, as the user may have written it.
 * @param {Maybe} x
 */
export function plain(x) {
  return known(x) ? String(+x.toPrecision(3)) : 'none';
}

/**
 * A mean with one decimal, nothing where there is none.
 * @param {Maybe} x
 */
export function mean(x) {
  return known(x) ? x.toFixed(1) : '';
}
