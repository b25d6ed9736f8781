/* The bar over the charts: axis, smoothing, log axis, marks, follow; and under it the lane of events, the only place
 * where marks have words. */
import {linearTicks, xTicks} from '../chart/scale.js';
import {fill, h, s, say, segment, toggle} from '../dom.js';
import {tick, whole} from '../format.js';
import {icon} from '../icons.js';

const ICONS = {
  change: 'swap',
  lost: 'cross',
  restart: 'cross',
  rate: 'rate'
};

export function make(ui) {
  const {data, group} = ui;
  const axis =
      segment('X axis', [['step', 'Step'], ['samples', 'Samples'], ['time', 'Time']], data.axis, async (value) => {
        group.zoom = null;
        group.axis = value;
        group.hoverX = null;
        await data.setAxis(value, null).catch(() => {});
        group.setFull(0, data.extent());
        ui.draw('all');
      });
  axis.id = 'axis';
  const smoothText = h('output', {text: ui.smoothing.toFixed(2)});
  const smooth = h('input', {
    type: 'range',
    class: 'slider',
    min: 0,
    max: 0.98,
    step: 0.01,
    value: ui.smoothing,
    'aria-label': 'Smoothing',
    on: {
      input() {
        ui.smoothing = Number(smooth.value);
        say(smoothText, ui.smoothing.toFixed(2));
        ui.draw('all');
      }
    }
  });
  const log = segment('Loss axis', [['linear', 'Linear'], ['log', 'Log']], 'log', (value) => {
    ui.log = value === 'log';
    ui.draw('all');
  });
  const marks = segment('Marks', [['all', 'All'], ['changes', 'Changes'], ['none', 'None']], 'all', (value) => {
    ui.marks = value;
    ui.draw('all');
  });
  const follow = toggle('Follow the newest step', true, (on) => {
    ui.follow = on;
    ui.draw('all');
  });
  follow.id = 'follow';
  const all =
      h('button',
        {type: 'button', class: 'btn small', text: 'Whole run', hidden: true, on: {click: () => group.setZoom(null)}});
  const bar =
      h('div', {class: 'controls tight', role: 'toolbar', 'aria-label': 'Charts'},
        h('span', {class: 'control'}, h('span', {text: 'X axis'}), axis),
        h('span', {class: 'control'}, h('span', {text: 'Smoothing'}), smooth, smoothText),
        h('span', {class: 'control'}, h('span', {text: 'Loss axis'}), log),
        h('span', {class: 'control'}, h('span', {text: 'Marks'}), marks), h('span', {class: 'right'}, all, follow));
  const lane = h('div', {class: 'lane', 'aria-label': 'Events'});
  ui.lane = lane;

  function drawLane() {
    const gutter = parseFloat(getComputedStyle(lane).getPropertyValue('--gutter'));
    const ends = parseFloat(getComputedStyle(lane).getPropertyValue('--ends'));
    const width = lane.clientWidth - gutter - ends;
    if (width < 50) {
      return;
    }
    const [a, b] = group.window();
    const at = (x) => gutter + width * (x - a) / (b - a);
    const svg = s('svg', {width: lane.clientWidth, height: 34, class: 'lane-svg', 'aria-hidden': 'true'});
    svg.append(s('line', {x1: gutter, x2: gutter + width, y1: 25.5, y2: 25.5, class: 'lane-line'}));
    for (const v of (group.axis === 'time' ? xTicks('time', a, b, 8) : linearTicks(a, b, 20))) {
      svg.append(s('line', {x1: at(v), x2: at(v), y1: 22, y2: 25, class: 'lane-line'}));
    }
    const labels = [];
    let free = -Infinity;
    const strongFirst = group.marks.filter((m) => m.kind !== 'checkpoint' && m.x >= a && m.x <= b);
    for (const m of strongFirst) {
      const x = at(m.x);
      svg.append(s('line', {x1: x, x2: x, y1: 18, y2: 34, class: 'lane-mark ' + m.kind}));
      const wide = 16 + 6.4 * m.text.length;
      const bad = m.kind === 'lost' || m.kind === 'restart';
      if (x - 6 >= free || bad) {
        const full = x + wide < lane.clientWidth;
        labels.push(
            h('span', {class: 'lane-label' + (bad ? ' bad' : ''), title: m.title, style: {left: (x - 6) + 'px'}},
              icon(ICONS[m.kind], 12), full && (!ui.narrow || m.text.length < 4) ? m.text : null));
        free = x + (full ? wide : 14);
      }
    }
    for (const m of group.marks.filter((k) => k.kind === 'checkpoint' && k.x >= a && k.x <= b)) {
      svg.append(s('line', {x1: at(m.x), x2: at(m.x), y1: 26, y2: 30, class: 'lane-mark checkpoint'}));
    }
    fill(lane, h('span', {class: 'lane-title', text: 'Events'}), svg, labels);
  }
  const observer = new ResizeObserver(drawLane);
  observer.observe(lane);

  function drawFollow() {
    const held = !ui.follow || group.zoom || group.hoverX !== null;
    const fresh = Math.max(0, (ui.newest || 0) - group.full[1]);
    follow.label(
        held && fresh > 0 ? 'Follow the newest step: ' +
                (group.axis === 'step' ?
                     whole(fresh) + ' new' :
                     tick(Math.round(fresh)) + (group.axis === 'time' ? ' s' : ' samples') + ' new') :
                            'Follow the newest step');
  }

  return {
    node: bar,
    lane,
    close: () => observer.disconnect(),
    point: drawFollow,
    update() {
      all.hidden = !group.zoom;
      drawFollow();
      drawLane();
    }
  };
}
