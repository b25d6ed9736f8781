/* The rail beside a chart: what the lines are, and their values now or under the reading line. */
import {h, keyed, s, say} from '../dom.js';
import {clock, seconds, tick, whole} from '../format.js';

export function sample(kind, colour = 'var(--ink)') {
  const svg =
      s('svg', {viewBox: '0 0 16 10', width: 16, height: 10, class: 'sample ' + kind, 'aria-hidden': 'true'},
        kind === 'band'     ? s('rect', {x: 0, y: 1.5, width: 16, height: 7, rx: 1}) :
            kind === 'none' ? null :
                              s('line', {x1: 0, x2: 16, y1: 5, y2: 5}));
  svg.style.color = colour;
  return svg;
}

export function rail(heading = true) {
  const head = h('h3', {class: 'rail-head', hidden: !heading, 'aria-live': 'off'});
  const list = h('dl', {class: 'rail'});
  return {
    node: h('div', {class: 'rail-box'}, heading && head, list),
    set(title, entries) {
      say(head, title);
      keyed(list, entries.filter(Boolean), (e) => e.label, (e) => {
        const value = h('dd');
        return {
          node: h('div', null, h('dt', null, sample(e.kind || 'none', e.colour), h('span', {text: e.label})), value),
          value
        };
      }, (row, e) => say(row.value, e.value));
    }
  };
}

/* "Now", or the place of the reading line. */
export function headingOf(ui) {
  const {group, data} = ui;
  const x = group.hoverX;
  if (x === null) {
    return data.job.finished ? 'At the end' : 'Now';
  }
  if (group.axis === 'step') {
    const epoch = data.stepsPerEpoch ?
        ', epoch ' + Math.min(data.job.progress.epochs || Infinity, Math.floor(x / data.stepsPerEpoch) + 1) :
        '';
    return 'At step ' + whole(x) + epoch;
  }
  if (group.axis === 'time') {
    const at = data.job.started ? ', ' + clock(new Date(new Date(data.job.started).getTime() + x * 1000), true) : '';
    return 'After ' + seconds(x) + at;
  }
  return 'After ' + tick(Math.round(x)) + ' samples';
}
