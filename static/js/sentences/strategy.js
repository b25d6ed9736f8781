/* Which strategy suits the nodes, in one sentence. Strategies are compared by how fast they learn:
 * samples a second times the measured worth of a sample compared with sync. Of those about as fast
 * as the fastest, it takes the one with the freshest gradients. Pure. */
import {times} from '../text/format.js';

/** @typedef {Api.StrategyPrediction} Strategy */

/* A difference in speed below this share is no reason to take staler gradients. */
const ALIKE = 0.05;

/* Replicas that drift apart between averages are as bad as gradients that are a version old. */
/** @param {Strategy} s */
const staleness = (s) => Math.max(s.staleness?.update_mean ?? 0, s.replicas_drift ? 1 : 0);

/** @param {Strategy} s */
const worth = (s) => s.sample_worth ?? 1;

/* Seconds in which it learns what sync learns in a step. */
/** @param {Strategy} s */
const usual = (s) => s.step_seconds / worth(s);

/** @param {Strategy} s */
const least = (s) => (s.step_seconds_least ?? s.step_seconds) / worth(s);

/** @param {Strategy} s */
const most = (s) => (s.step_seconds_most ?? s.step_seconds) / worth(s);

/**
 * Whether one is about as fast as another: their intervals meet, or they differ by little.
 * @param {Strategy} one
 * @param {Strategy} other
 */
function asFast(one, other) {
  return least(one) <= most(other) || usual(one) <= usual(other) * (1 + ALIKE);
}

/**
 * The strategy to recommend; null where there is nothing to choose from.
 * @param {Strategy[]} all
 */
export function recommended(all) {
  const able = all.filter((s) => s.step_seconds > 0);
  if (able.length < 2) {
    return null;
  }
  const fastest = able.reduce((a, b) => (usual(b) < usual(a) ? b : a));
  return able.filter((s) => asFast(s, fastest))
      .reduce((a, b) => (staleness(b) < staleness(a) - 0.05 ||
                          (staleness(b) <= staleness(a) + 0.05 && usual(b) < usual(a))
                      ? b
                      : a));
}

/**
 * What the speed of a strategy costs.
 * @param {Strategy} best
 */
function price(best) {
  return best.replicas_drift
      ? 'its replicas drift apart between averages'
      : 'its own are ' + staleness(best).toFixed(1) + ' versions old on average';
}

/**
 * Why it is recommended.
 * @param {Strategy} best
 * @param {Strategy[]} all
 */
export function whyRecommended(best, all) {
  const fastest = all.reduce((a, b) => (b.step_seconds < a.step_seconds ? b : a));
  const fresh = all.filter((s) => s.step_seconds > 0 && staleness(s) < staleness(best) - 0.05)
                    .sort((a, b) => a.step_seconds - b.step_seconds)[0];
  if (fresh) {
    return best.strategy + ' is ' + times(fresh.step_seconds / best.step_seconds) + ' as fast as ' +
        fresh.strategy + ', the fastest with fresher gradients; ' + price(best) +
        ', which may cost accuracy.';
  }
  if (best.step_seconds > fastest.step_seconds * (1 + ALIKE) && worth(fastest) < worth(best)) {
    return best.strategy + ', though ' + fastest.strategy + ' is ' +
        times(best.step_seconds / fastest.step_seconds) + ' as fast: where both were measured, a ' +
        'sample there was worth ' + Math.round(100 * worth(fastest) / worth(best)) +
        ' % of one here.';
  }
  const speed = fastest.strategy === best.strategy ? ' is the fastest on these nodes'
                                                   : ' is about as fast as any on these nodes';
  const fine =
      staleness(best) < 0.05 ? 'its gradients are never stale' : 'none has fresher gradients';
  return best.strategy + speed + ', and ' + fine + '.';
}
