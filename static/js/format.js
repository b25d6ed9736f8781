/* Numbers and times as people read them. Pure, tested in tests/browser/test_pure.py. Three significant digits, whole
   numbers above 1,000, a narrow space before units, and "none" where there is nothing: never a lone dash. */
export const NARROW = '\u202f';

export function known(x) {
  return typeof x === 'number' && Number.isFinite(x);
}

export function whole(x) {
  return known(x) ? Math.round(x).toLocaleString('en-US') : 'none';
}

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

/* Losses: three decimals below 1, else three digits; very small ones keep two digits. */
export function loss(x) {
  if (!known(x)) {
    return 'none';
  }
  return Math.abs(x) >= 1 || x === 0 ? three(x) : Math.abs(x) >= 0.001 ? x.toFixed(3) : x.toPrecision(2);
}

/* With a capital letter at its head. */
export function capital(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/* A message of the service as a sentence. */
export function sentence(text) {
  const t = String(text).trim();
  return capital(t) + (/[.?!]$/.test(t) ? '' : '.');
}

export function percent(x, digits = 1) {
  return known(x) ? (100 * x).toFixed(digits) + NARROW + '%' : 'none';
}

export function times(x) {
  return known(x) ? (x >= 10 ? x.toFixed(0) : x.toFixed(1)) + '×' : 'none';
}

/* 82 ms, 0.23 s, 1.15 s, 14 min, 1 h 49 min */
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

/* Whole: 12 s, 1 min 12 s, 14 min, 1 h 49 min, 3 d 4 h */
export function duration(x) {
  if (!known(x)) {
    return 'none';
  }
  const all = Math.max(0, Math.round(x));
  const unit = (n, u) => n + NARROW + u;
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
    return unit(Math.floor(minutes / 60), 'h') + (minutes % 60 ? ' ' + unit(minutes % 60, 'min') : '');
  }
  return unit(Math.floor(minutes / 1440), 'd') + ' ' + unit(Math.floor(minutes / 60) % 24, 'h');
}

export function age(x) {
  return !known(x) ? 'never' : x < 10 ? x.toFixed(1) + NARROW + 's' : duration(x);
}

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

export function clock(time, withSeconds = false) {
  const t = time instanceof Date ? time : new Date(time);
  if (!time || Number.isNaN(t.getTime())) {
    return 'none';
  }
  const two = (n) => String(n).padStart(2, '0');
  return two(t.getHours()) + ':' + two(t.getMinutes()) + (withSeconds ? ':' + two(t.getSeconds()) : '');
}

/* 14:46 today, else 3 Mar 14:46 */
export function when(time, now = new Date()) {
  const t = new Date(time);
  if (!time || Number.isNaN(t.getTime())) {
    return 'none';
  }
  const day = t.toDateString() === now.toDateString() ?
      '' :
      t.getDate() + ' ' + t.toLocaleString('en-US', {month: 'short'}) + ' ';
  return day + clock(t);
}

export function plural(n, one, many = one + 's') {
  return whole(n) + ' ' + (n === 1 ? one : many);
}

/* "a, b and c" */
export function list(names) {
  return names.length < 2 ? names.join('') : names.slice(0, -1).join(', ') + ' and ' + names[names.length - 1];
}

/* Axis ticks: 0, 500, 2 k, 1.5 M */
export function tick(x) {
  const size = Math.abs(x);
  if (size >= 1e6) {
    return +(x / 1e6).toPrecision(3) + NARROW + 'M';
  }
  return size >= 10000 || (size >= 1000 && x % 100 === 0) ? +(x / 1000).toPrecision(3) + NARROW + 'k' :
                                                            String(+x.toPrecision(6));
}
