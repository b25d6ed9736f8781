/* Which strategy? One row each, as the dry run predicts it from the nodes' measured profiles: the
   time of a step as dot and interval on one scale for all, staleness, memory, and in one sentence
   which is recommended. A click chooses a strategy. Without measurements a sentence
   says what is missing. */
import {h} from '../../elements/dom.js';
import {numeric, scroller, tableHead} from '../../elements/widgets.js';
import {recommended, whyRecommended} from '../../sentences/strategy.js';
import {bytes, known, seconds, whole} from '../../text/format.js';

/** @typedef {Api.StrategyPrediction} Strategy */
/** @typedef {(strategy: string) => void} Choose */

const COLUMNS =
    ['One step', 'Samples/s', 'One epoch', 'Staleness, mean', 'at most', 'Memory, a node'];
/* The scale ends so far beyond the longest step. */
const MARGIN = 1.05;
const NOTE = 'simulated with what these nodes measured; dot: median, line: all runs';
const MEASURED = 'measured on these nodes; dot: mean, line: eight of ten moments';
const MIXED = 'rows say which are measured; the others are simulated';

/**
 * Dot and interval on a scale that ends at `end`.
 * @param {Strategy} p
 * @param {number} end of the scale, in seconds of a step
 */
function interval(p, end) {
  const at = (/** @type {number} */ s) => 100 * s / end + '%';
  const [from, to] =
      [p.step_seconds_least ?? p.step_seconds, p.step_seconds_most ?? p.step_seconds];
  const line = h('i', {class: 'range', style: {left: at(from), width: at(to - from)}});
  return h('div', {class: 'interval', 'aria-hidden': 'true'}, line,
      h('i', {class: 'dot', style: {left: at(p.step_seconds)}}));
}

/**
 * @param {Strategy} p
 * @param {number} end
 * @param {boolean} best
 * @param {Choose} choose
 */
function row(p, end, best, choose) {
  const stale = p.staleness || {};
  const cells = [
    seconds(p.step_seconds), whole(p.samples_per_second),
    known(p.epoch_seconds) ? seconds(p.epoch_seconds) : 'not known',
    known(stale.update_mean) ? stale.update_mean.toFixed(1) : 'none',
    known(stale.max) ? String(stale.max) : 'none',
    known(p.memory_bytes) ? bytes(p.memory_bytes) : 'not known'
  ];
  const radio = h('input', {
    type: 'radio',
    name: 'strategy',
    checked: Boolean(p.chosen),
    on: {change: () => choose(p.strategy)}
  });
  const name = p.strategy + (p.chosen ? ' (chosen)' : '');
  const measured = p.measured && h('span', {class: 'tag', text: 'measured'});
  const tag = best && h('span', {class: 'tag', data: {tone: 'ok'}, text: 'recommended'});
  return h('tr', {class: p.chosen ? 'chosen' : null, data: {chosen: p.chosen ? 'yes' : 'no'}},
      h('td', null, h('label', {class: 'choice'}, radio, h('span', {class: 'strong', text: name}))),
      cells.map((text) => h('td', {class: 'num', text})),
      h('td', {class: 'interval-cell'}, interval(p, end)), h('td', null, tag, measured));
}

/** @param {Strategy[]} rows */
function noteOf(rows) {
  const measured = rows.filter((p) => p.measured).length;
  return measured === rows.length ? MEASURED : measured ? MIXED : NOTE;
}

/**
 * Nodes for the page, or null where there is no prediction at all.
 * @param {Api.Prediction | null | undefined} prediction
 * @param {Choose} choose
 */
export function predictionOf(prediction, choose) {
  if (!prediction) {
    return null;
  }
  const rows = prediction.strategies || [];
  if (rows.length === 0) {
    const reason = prediction.reason || 'nothing is known of these nodes';
    return h('p', {class: 'note', text: 'No prediction: ' + reason + '.'});
  }
  const best = recommended(rows);
  const end = MARGIN * Math.max(...rows.map((p) => p.step_seconds_most ?? p.step_seconds));
  const head = h('div', {class: 'row-title'}, h('h2', {text: 'Which strategy?'}),
      h('span', {class: 'note', text: noteOf(rows)}));
  const why =
      best && h('p', {class: 'sub', id: 'recommendation', text: whyRecommended(best, rows)});
  const scale = h('th', {class: 'interval-cell', scope: 'col'}, h('span', {text: '0'}),
      h('span', {text: seconds(end / MARGIN)}));
  const heads = tableHead([
    'Strategy', ...numeric(...COLUMNS), scale,
    h('th', {scope: 'col'}, h('span', {class: 'sr', text: 'Advice'}))
  ]);
  const table = h('table', {'aria-label': 'Prediction by strategy'}, heads,
      h('tbody', null, rows.map((p) => row(p, end, p === best, choose))));
  return scroller('Prediction', [head, why, table], 'prediction');
}
