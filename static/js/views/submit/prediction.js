/* What the job would be like: one row per strategy, as the dry run predicts it from the nodes'
   measured profiles. The chosen strategy comes first; without measurements a sentence says what is
   missing. */
import {h} from '../../dom.js';
import {bytes, known, seconds, whole} from '../../format.js';
import {numeric, scroller, tableHead} from '../../widgets.js';

const COLUMNS =
    ['One step', 'Samples/s', 'One epoch', 'Staleness, mean', 'at most', 'Memory, a node'];
const NOTE = 'approximate, from what these nodes measured; the chosen strategy beside others';

/** @param {Api.StrategyPrediction} p */
function row(p) {
  const stale = p.staleness || {};
  const cells = [
    seconds(p.step_seconds), whole(p.samples_per_second),
    known(p.epoch_seconds) ? seconds(p.epoch_seconds) : 'not known',
    known(stale.update_mean) ? stale.update_mean.toFixed(1) : 'none',
    known(stale.max) ? String(stale.max) : 'none',
    known(p.memory_bytes) ? bytes(p.memory_bytes) : 'not known'
  ];
  const name = p.strategy + (p.chosen ? ' (chosen)' : '');
  return h('tr', {data: {chosen: p.chosen ? 'yes' : 'no'}},
      h('td', {class: p.chosen ? 'strong' : null, text: name}),
      cells.map((text) => h('td', {class: 'num', text})));
}

/**
 * Nodes for the page, or null where there is no prediction at all.
 * @param {Api.Prediction | null | undefined} prediction
 */
export function predictionOf(prediction) {
  if (!prediction) {
    return null;
  }
  const rows = prediction.strategies || [];
  if (rows.length === 0) {
    const reason = prediction.reason || 'nothing is known of these nodes';
    return h('p', {class: 'note', text: 'No prediction: ' + reason + '.'});
  }
  const head = h('div', {class: 'row-title'}, h('h2', {text: 'Prediction'}),
      h('span', {class: 'note', text: NOTE}));
  const table = h('table', {'aria-label': 'Prediction by strategy'},
      tableHead(['Strategy', ...numeric(...COLUMNS)]), h('tbody', null, rows.map(row)));
  return scroller('Prediction', [head, table], 'prediction');
}
