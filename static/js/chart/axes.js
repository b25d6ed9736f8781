/* The two axes of a chart as options of dygraphs: their look, and the places of their ticks. */
import {cssVar} from '../elements/dom.js';

import {linearTicks, logTicks, xLabel, xTicks} from './scale.js';

/** @typedef {(a: number, b: number, px: number) => Dygraphs.Tick[]} Ticker */

/**
 * @param {{axis: Page.Axis}} group
 * @param {boolean} shown
 */
export function xAxis(group, shown) {
  /** @type {Ticker} */
  const ticker = (a, b, px) => {
    const most = Math.min(8, Math.max(2, Math.floor(px / 90)));
    return xTicks(group.axis, a, b, most).map((v) => ({v, label: xLabel(group.axis, v, b - a)}));
  };
  return {
    drawGrid: false,
    drawAxis: shown,
    axisLineColor: cssVar('--line-strong'),
    axisLabelWidth: 60,
    axisTickSize: 4,
    ticker
  };
}

/**
 * @param {() => Page.ChartData} data what the chart shows when ticks are asked for
 * @param {Page.ChartOptions} options
 * @param {number} gutter pixels to the left of the plot
 */
export function yAxis(data, options, gutter) {
  /** @type {Ticker} */
  const ticker = (a, b) => {
    const {ticks, log} = data();
    const made = () => (log ? logTicks(a, b) : linearTicks(a, b, options.yTicks || 5));
    return (ticks || made()).map((v) => ({v, label: options.format(v)}));
  };
  return {
    drawGrid: true,
    gridLineColor: cssVar('--grid'),
    axisLineColor: 'transparent',
    axisLabelWidth: gutter - 8,
    axisTickSize: 4,
    ticker
  };
}
