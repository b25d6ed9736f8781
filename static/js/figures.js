/* Small drawings: sparkline, histogram, finish line, the parts of a step. SVG whose colours are variables, so a change
 * of theme needs no code. */
import {fill, h, s} from './dom.js';
import {seconds} from './format.js';

export function sparkline(width, height, label) {
  const line = s('polyline', {class: 'spark'});
  const dot = s('circle', {class: 'spark-dot', r: 2.5});
  const node =
      s('svg', {
        class: 'sparkline',
        viewBox: '0 0 ' + width + ' ' + height,
        preserveAspectRatio: 'none',
        height,
        role: 'img',
        'aria-label': label
      },
        line, dot);
  return {
    node,
    set(x, y) {
      const good = x.map((v, i) => [v, y[i]]).filter((p) => Number.isFinite(p[1]));
      node.classList.toggle('none', good.length === 0);
      if (good.length === 0) {
        return;
      }
      const xs = good.map((p) => p[0]);
      const ys = good.map((p) => p[1]);
      const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
      const at = ([a, b]) =>
          [2 + (width - 6) * (x1 > x0 ? (a - x0) / (x1 - x0) : 1),
           height - 3 - (height - 6) * (y1 > y0 ? (b - y0) / (y1 - y0) : 0.5)];
      line.setAttribute('points', good.map((p) => at(p).map((v) => v.toFixed(1)).join(',')).join(' '));
      const [cx, cy] = at(good[good.length - 1]);
      dot.setAttribute('cx', cx.toFixed(1));
      dot.setAttribute('cy', cy.toFixed(1));
    }
  };
}

/* Updates by staleness; the dotted line is p95. All nodes share `bins`, so shapes can be compared. */
export function histogram(counts, bins, p95, colour, label) {
  const [w, hgt] = [116, 30];
  const most = Math.max(1, ...counts);
  const step = w / bins;
  const node = s('svg', {
    class: 'histogram',
    viewBox: '0 0 ' + w + ' ' + (hgt + 1),
    width: w,
    height: hgt + 1,
    role: 'img',
    'aria-label': label
  });
  node.style.color = colour;
  for (let i = 0; i < Math.min(counts.length, bins); i++) {
    if (counts[i] > 0) {
      const tall = Math.max(1, hgt * counts[i] / most);
      node.append(s('rect', {
        x: (i * step + (step > 3 ? 0.5 : 0)).toFixed(2),
        y: (hgt - tall).toFixed(2),
        width: Math.max(0.8, step - (step > 3 ? 1 : 0)).toFixed(2),
        height: tall.toFixed(2),
        fill: 'currentColor'
      }));
    }
  }
  node.append(s('line', {x1: 0, x2: w, y1: hgt + 0.5, y2: hgt + 0.5, class: 'base'}));
  if (Number.isFinite(p95)) {
    const x = Math.min(w - 1, (p95 + 1) * step);
    node.append(s('line', {x1: x, x2: x, y1: 0, y2: hgt, class: 'p95'}));
  }
  return node;
}

/* A bar per node that ends at the finish line; the whisker is the same node under an equal split. */
export function finishBar() {
  const compute = h('i', {class: 'fin-compute'});
  const rest = h('i', {class: 'fin-rest'});
  const whisker = h('i', {class: 'fin-whisker'});
  const notch = h('i', {class: 'fin-notch'});
  const text = h('span', {class: 'fin-text'});
  const node = h('div', {class: 'fin'}, compute, rest, whisker, notch, text);
  return {
    node,
    set({compute: c, rest: r, equal, scale, colour, label}) {
      const pct = (v) => Math.max(0, Math.min(100, 100 * v / scale)) + '%';
      node.style.setProperty('--node', colour);
      compute.style.width = pct(c);
      rest.style.left = pct(c);
      rest.style.width = pct(r);
      const late = Number.isFinite(equal) && equal > (c + r) * 1.02;
      const early = Number.isFinite(equal) && equal < c * 0.98;
      whisker.hidden = !late;
      text.hidden = !late || !label;
      notch.hidden = !early;
      if (late) {
        whisker.style.left = pct(c + r);
        whisker.style.width = 'calc(' + pct(equal) + ' - ' + pct(c + r) + ')';
        text.style.left = 'calc(' + pct(equal) + ' + 6px)';
        text.textContent = label;
      }
      if (early) {
        notch.style.left = pct(equal);
      }
      node.title = seconds(c) + ' computing, ' + seconds(r) + ' exchange and wait' +
          (Number.isFinite(equal) ? '; with an equal split ' + seconds(equal) : '');
    }
  };
}

/* The mini form for the job list: bars and the line, no text. */
export function miniFinish(node, rows) {
  const scale = Math.max(1e-9, ...rows.map((r) => Math.max(r.all, Number.isFinite(r.equal) ? r.equal : 0))) * 1.02;
  const line = Math.max(0, ...rows.map((r) => r.all));
  const tall = rows.length > 6 ? 3 : 6;
  const gap = rows.length > 6 ? 1 : 3;
  const height = rows.length * (tall + gap) + 4;
  const W = 120;
  const svg = s('svg', {
    viewBox: '0 0 ' + W + ' ' + height,
    width: W,
    height,
    class: 'mini-finish',
    role: 'img',
    'aria-label': 'time for one step of each node'
  });
  rows.forEach((r, i) => {
    const y = 2 + i * (tall + gap);
    const bar = s('rect', {x: 0, y, height: tall, width: (W * r.all / scale).toFixed(1), fill: 'currentColor'});
    bar.style.color = r.colour;
    svg.append(bar);
    if (r.equal > r.all * 1.02) {
      svg.append(s('path', {
        class: 'whisk',
        d: 'M' + (W * r.all / scale).toFixed(1) + ' ' + (y + tall / 2) + 'H' + (W * r.equal / scale).toFixed(1) +
            'm0 -2.5v5'
      }));
    }
  });
  svg.append(s('line', {class: 'finish-line', x1: W * line / scale, x2: W * line / scale, y1: 0, y2: height}));
  fill(node, svg);
}

/* Where a step goes: compute, exchange, wait as one bar. */
export function phaseBar() {
  const parts = ['compute', 'exchange', 'wait'].map((name) => h('i', {class: 'ph ' + name}));
  const node = h('div', {class: 'phases'}, parts);
  return {
    node,
    set(values, scale) {
      values.forEach((v, i) => {
        parts[i].style.width = Math.max(0, 100 * v / (scale || 1)) + '%';
      });
    }
  };
}

export function phaseKey(...names) {
  return h('p', {class: 'legend'}, names.map((name) => h('span', null, h('i', {class: 'ph ' + name}), name)));
}
