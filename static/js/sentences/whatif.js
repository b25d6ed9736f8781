/* What a change of nodes or of the global batch would do, in one sentence. Pure. */
import {alike, capital, list, times, whole} from '../text/format.js';

/** @typedef {import('../spec/whatif.js').Change} Change */

const FRESH = 0.05;

/**
 * "Without slow and with a copy of fast-1"
 * @param {Change} change
 * @param {number} batch that there is
 */
function changed({without, added, batch: wanted}, batch) {
  const copies = added.map(({like, speed}) => 'a copy of ' + like +
          (speed === 1 ? ''
                       : ' that is ' +
                      (speed > 1 ? times(speed) + ' faster' : times(1 / speed) + ' slower')));
  return [
    without.length > 0 && 'without ' + list(without), copies.length > 0 && 'with ' + list(copies),
    wanted !== batch && 'with a global batch of ' + whole(wanted)
  ].filter(Boolean)
      .join(', ');
}

/**
 * @param {Change} change
 * @param {number} batch
 * @param {Api.StrategyPrediction} now
 * @param {Api.StrategyPrediction} then
 */
export function whatIf(change, batch, now, then) {
  const [before, after] = alike(now.step_seconds, then.step_seconds);
  const what = changed(change, batch);
  const [old, young] = [now, then].map((s) => s.staleness?.update_mean ?? 0);
  const stale = Math.max(old, young) < FRESH ? ''
                                             : '; gradients would be ' + young.toFixed(1) +
          ' versions old on average instead of ' + old.toFixed(1);
  return what ? capital(what) + ' a step would take about ' + after + ' instead of ' + before +
          ': ' + whole(then.samples_per_second) + ' samples/s instead of ' +
          whole(now.samples_per_second) + stale + '.'
              : 'As it is, a step is predicted to take about ' + before + ': ' +
          whole(now.samples_per_second) + ' samples/s' +
          (old < FRESH ? '.' : ', with gradients ' + old.toFixed(1) + ' versions old on average.');
}
