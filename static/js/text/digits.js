/* Numbers without units: how many digits, powers of ten for very large and very small numbers,
   signs, zeros behind the point. Every text has a limit, so that no value, however wrong a run
   went, is wider than its place. times.js and format.js, which know units, are built on it. Pure.
 */
export const NARROW = '\u202f';

const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹';

/* A power of ten is below the first, from the others on: measured values, counts, ticks. */
export const LEAST = 0.0001;
const MOST = 999999.5;
const MOST_COUNT = 1e15;
const MOST_TICK = 1e9;

/** @typedef {number | null | undefined} Maybe */

/**
 * Whether there is a number.
 * @param {unknown} x
 * @returns {x is number}
 */
export function known(x) {
  return typeof x === 'number' && Number.isFinite(x);
}

/**
 * The text in place of a missing number.
 * @param {Maybe} x
 */
export function absent(x) {
  if (x === Infinity || x === -Infinity) {
    return x > 0 ? 'infinite' : '−infinite';
  }
  return 'none';
}

/**
 * With a minus sign instead of a hyphen, and none before zero.
 * @param {string} text
 */
export function signed(text) {
  return /^-[0.,]*$/.test(text) ? text.slice(1) : text.replace('-', '−');
}

/**
 * Without the zeros behind the point: 2.50 → 2.5, 1.00 → 1, 100 → 100.
 * @param {string} text
 */
export function trimmed(text) {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

/** @param {string} exponent */
function raised(exponent) {
  const digits = [...exponent.replace(/^[+-]/, '')].map((d) => SUPERSCRIPTS[Number(d)]);
  return (exponent.startsWith('-') ? '⁻' : '') + digits.join('');
}

/**
 * Three digits by a power of ten: 1.23×10³²
 * @param {number} x
 */
export function power(x) {
  const [lead, exponent] = x.toExponential(2).split('e');
  return signed(lead) + '×10' + raised(exponent);
}

/**
 * The same without zeros behind the point, for axes: 10³², 2×10³²
 * @param {number} x
 */
export function bare(x) {
  const [lead, exponent] = x.toExponential(2).split('e');
  const short = signed(trimmed(lead));
  return (/^−?1$/.test(short) ? short.slice(0, -1) : short + '×') + '10' + raised(exponent);
}

/**
 * Counts: every digit, as long as a number holds them all.
 * @param {Maybe} x
 */
export function whole(x) {
  if (!known(x)) {
    return absent(x);
  }
  return Math.abs(x) < MOST_COUNT ? signed((Math.round(x) + 0).toLocaleString('en-US')) : power(x);
}

/** @param {Maybe} x */
export function three(x) {
  if (!known(x)) {
    return absent(x);
  }
  const size = Math.abs(x);
  if (size >= MOST || (size > 0 && size < LEAST)) {
    return power(x);
  }
  if (size >= 999.5) {
    return whole(x);
  }
  /* 9.996 is 10.0 in three digits, and not 10.00 */
  const rounded = Number(size.toPrecision(3));
  const digits = size === 0 ? 0 : Math.max(0, 2 - Math.floor(Math.log10(rounded)));
  return signed(x.toFixed(digits));
}

/**
 * Axis ticks: 0, 500, 2 k, 1.5 M, 10³²
 * @param {number} x
 */
export function tick(x) {
  const size = Math.abs(x);
  if (!known(x) || size >= MOST_TICK || (size > 0 && size < LEAST)) {
    return known(x) ? bare(x) : absent(x);
  }
  if (size >= 1e6) {
    return signed(String(+(x / 1e6).toPrecision(3))) + NARROW + 'M';
  }
  return size >= 10000 || (size >= 1000 && x % 100 === 0)
      ? signed(String(+(x / 1000).toPrecision(3))) + NARROW + 'k'
      : signed(String(+x.toPrecision(6)));
}
