/* A strip of staleness over time for each node, all on one scale from 0. */
import {Chart} from '../../../chart/chart.js';
import {smooth} from '../../../chart/smooth.js';
import {h, keyed} from '../../../elements/dom.js';
import {nothingYet} from '../../../elements/states.js';
import {last} from '../../../measures/measures.js';
import {policyOf} from '../../../spec/spec.js';
import {known, mean} from '../../../text/format.js';

/** @typedef {import('../view.js').JobView} JobView */
/** @typedef {import('../model/model.js').JobModel} JobModel */
/** @typedef {{chart: Chart, last: boolean, node: HTMLElement}} Strip */

const HEIGHT = 56;
const AXIS_HEIGHT = 22;

/**
 * A node's mean while the minibatches were equal: up to the first change; NaN where they never
 * were.
 * @param {JobModel} data
 * @param {string} node
 */
export function equalMean(data, node) {
  const first = data.assignments.find((a, i) => i > 0 && a.version > 1);
  const sizes = new Set(Object.values(data.assignments[0]?.batches || {}));
  if (!first || policyOf(data.job.spec) !== 'dynamic' || sizes.size !== 1) {
    return NaN;
  }
  const until = data.curves.xOfStep(first.step);
  const curve = data.curves.curve('staleness', node);
  const before = curve.x.findIndex((x) => x >= until);
  const values = curve.mean.slice(0, before < 0 ? undefined : before).filter(known);
  return values.length > 1 ? values.reduce((sum, v) => sum + v, 0) / values.length : NaN;
}

export class Strips {
  /**
   * @param {JobView} view
   * @param {() => void} toggleTable
   */
  constructor(view, toggleTable) {
    this.view = view;
    this.toggleTable = toggleTable;
    this.node = h('div', {class: 'strips'});
    /** @type {Map<string, Strip>} */
    this.strips = new Map();
  }

  /**
   * The strip of a node, made again where it becomes or was the last one, which has the x axis.
   * @param {string} name
   * @param {boolean} isLast
   */
  strip(name, isLast) {
    const {group, key} = this.view;
    const old = this.strips.get(name);
    if (old && old.last === isLast) {
      return old;
    }
    if (old) {
      group.drop(old.chart);
    }
    const chart = new Chart(group, {
      title: 'staleness-' + name,
      label: 'Staleness of ' + name,
      height: HEIGHT + (isLast ? AXIS_HEIGHT : 0),
      compact: true,
      axis: isLast,
      format: String,
      yTicks: 2
    });
    chart.toggleTable = this.toggleTable;
    const label = h('span', {class: 'strip-name'}, key.label(name));
    const node = h('div', {class: 'strip', data: {node: name}}, label, chart.node);
    const made = {chart, last: isLast, node};
    this.strips.set(name, made);
    return made;
  }

  /**
   * @param {string[]} names
   * @param {number} most the greatest staleness that is shown
   */
  draw(names, most) {
    const {group} = this.view;
    const list = names.map((name, i) => this.strip(name, i === names.length - 1));
    keyed(this.node, list, (c) => (c.node.dataset.node || '') + c.last, (c) => c.node);
    for (const [name, c] of this.strips) {
      if (!names.includes(name)) {
        group.drop(c.chart);
        this.strips.delete(name);
      }
    }
    const cuts = group.marks.filter((m) => m.kind !== 'checkpoint').map((m) => m.x);
    names.forEach((name, i) => this.drawStrip(list[i], name, Math.max(1, most), cuts, i === 0));
  }

  /**
   * @param {Strip} strip
   * @param {string} name
   * @param {number} top
   * @param {number[]} cuts
   * @param {boolean} first
   */
  drawStrip(strip, name, top, cuts, first) {
    const {data, key, smoothing, chosen} = this.view;
    const raw = data.curves.curve('staleness', name);
    const soft = smooth(raw, Math.min(smoothing, 0.5), cuts);
    const equal = equalMean(data, name);
    const colour = key.colour(name);
    const any = raw.x.length > 0;
    strip.node.classList.toggle('dim', Boolean(chosen) && chosen !== name);
    strip.chart.set({
      rows: raw.x.map((x, i) => [x, soft[i]]),
      lines: [{label: name, colour, width: 1.5}],
      band: {...raw, colour},
      range: [-0.04 * top, top * 1.08],
      ticks: top < 4 ? [0, Math.round(top)] : [Math.round(top / 4), Math.round(3 * top / 4)],
      ends: this.ends(soft, equal),
      hlines: known(equal) ? [{y: equal, style: 'ghost'}] : [],
      empty: !any && first ? nothingYet(data.job) : ''
    });
  }

  /**
   * @param {number[]} soft
   * @param {number} equal
   * @returns {Page.End[]}
   */
  ends(soft, equal) {
    const word = this.view.narrow ? '' : 'equal ';
    return [
      ...(soft.length ? [{y: last(soft), text: mean(last(soft)), bold: true}] : []),
      ...(known(equal) ? [{y: equal, text: word + equal.toFixed(1), quiet: true}] : [])
    ];
  }
}
