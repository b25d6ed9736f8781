/* Short real runs of the job under other strategies, one after the other on the cluster: what they
   measure replaces the prediction. Leaving the page ends the running one. */
import {h, say} from '../../elements/dom.js';
import {button} from '../../elements/widgets.js';
import {get, job as path, post, remove} from '../../service/api.js';
import {strategyOf} from '../../spec/spec.js';
import {keyOf, measuredRow, TAG, trialSpec} from '../../spec/trial.js';
import {plural} from '../../text/format.js';

const SECONDS = 30;
const POLL_MS = 500;
const FEW = 3;
/* Into which a trial's time is cut, to say how much its speed varies. */
const MOMENTS = 20;
/* Answers of a service that is away or has no store: 0 is none. */
const AWAY = [0, 503, 504];
const ENDED = ['succeeded', 'failed', 'cancelled'];

/** @typedef {Api.StrategyPrediction} Row */
/** @typedef {import('../../spec/trial.js').Point} Point */

const pause = () => new Promise((done) => setTimeout(done, POLL_MS));

/**
 * Orders by the predicted learning a second.
 * @param {Row} a
 * @param {Row} b
 */
const better = (a, b) =>
    b.samples_per_second * (b.sample_worth ?? 1) - a.samples_per_second * (a.sample_worth ?? 1);

export class Trials {
  /**
   * @param {string[]} strategies that there are
   * @param {() => Api.Spec} current the job as it is written now
   * @param {() => void} changed another row is measured
   * @param {() => void} over all have ended, and their nodes are free
   */
  constructor(strategies, current, changed, over) {
    this.current = current;
    this.strategies = strategies;
    this.changed = changed;
    this.over = over;
    /** Measurements by spec and strategy. */
    /** @type {Map<string, Map<string, Row>>} */
    this.results = new Map();
    /** @type {string[]} */
    this.jobs = [];
    this.running = '';
    this.stopped = false;
    /** @type {Api.Spec} */
    this.spec = {};
    /** @type {Row[]} */
    this.rows = [];
    this.samples = NaN;
    this.said = h('span', {class: 'quiet', role: 'status'});
    this.which = h('select', {id: 'trial-which', 'aria-label': 'Which strategies'},
        h('option', {value: 'few', text: 'the ' + FEW + ' that learn fastest'}),
        h('option', {value: 'all', text: 'all'}));
    this.seconds = h('input', {
      type: 'text',
      inputmode: 'numeric',
      value: String(SECONDS),
      id: 'trial-seconds',
      'aria-label': 'Seconds for each'
    });
    this.go = button('Try them on the cluster', () => this.start(), {class: 'btn', id: 'try'});
    this.stop = button('Stop', () => this.end(), {class: 'btn', id: 'stop-trials', hidden: true});
    this.forget = button('Delete the trials', () => this.deleteAll(),
        {class: 'btn small', id: 'delete-trials', hidden: true});
    this.node =
        h('div', {class: 'trials', hidden: true}, this.go, h('span', {class: 'field'}, this.which),
            h('label', {class: 'field'}, this.seconds, h('span', {text: 's each'})), this.stop,
            this.said, this.forget);
  }

  /**
   * @param {Api.DryRun} answer
   * @param {Api.Spec} spec that the answer is about
   * @param {number} samples of an epoch
   */
  show(answer, spec, samples) {
    this.spec = spec;
    this.samples = samples;
    this.rows = answer.prediction?.strategies || [];
    this.node.hidden = Boolean(spec.cluster);
  }

  /**
   * The prediction, with what was measured in place of what was predicted.
   * @param {Api.Prediction | null | undefined} prediction
   * @returns {Api.Prediction | null | undefined}
   */
  instead(prediction) {
    const measured = this.results.get(keyOf(this.spec));
    if (!measured) {
      return prediction;
    }
    const rows = prediction?.strategies || [];
    const chosen = strategyOf(this.spec);
    const more = [...measured.values()].filter((m) => !rows.some((p) => p.strategy === m.strategy));
    return {
      ...prediction,
      strategies: [...rows.map((p) => measured.get(p.strategy) || p), ...more].map(
          (p) => ({...p, chosen: p.strategy === chosen}))
    };
  }

  /* The strategies to try, the best predicted one first. */
  chosen() {
    const known = [...this.rows].sort(better).map((p) => p.strategy);
    const all = known.length ? known : this.strategies;
    return this.which.value === 'few' ? all.slice(0, FEW) : all;
  }

  async start() {
    const spec = this.current();
    const seconds = Math.max(1, Number(this.seconds.value) || SECONDS);
    this.seconds.value = String(seconds); /* a text that is no number is replaced */
    const wanted = this.chosen();
    const before = this.jobs.length;
    /** @type {string[]} */
    const failed = [];
    this.stopped = false;
    this.go.disabled = true;
    this.stop.hidden = false;
    for (const strategy of wanted) {
      if (!this.stopped) {
        say(this.said,
            strategy + ', ' + (wanted.indexOf(strategy) + 1) + ' of ' + wanted.length + ' …');
        await this.tryOne(spec, strategy, seconds).catch((e) => {
          failed.push(strategy + ': ' + e.message);
        });
      }
    }
    this.go.disabled = false;
    this.stop.hidden = true;
    this.forget.hidden = this.jobs.length === 0;
    say(this.said, this.outcome(failed, this.jobs.length - before));
    this.over();
  }

  /**
   * @param {string[]} failed strategies that were not measured, each with its reason
   * @param {number} n trials of this time
   */
  outcome(failed, n) {
    const done = plural(n, 'trial') + (this.stopped ? ', stopped' : ' done') + '; ' +
        (n === 1 ? 'it stays' : 'they stay') + ' in the list of jobs with the tag “' + TAG + '”.';
    return [failed.length > 0 && 'Not measured: ' + failed.join('; ') + '.', n > 0 && done]
        .filter(Boolean)
        .join(' ');
  }

  /**
   * A trial's document. A service that is away is waited for, since its trial goes on.
   * @param {string} id
   * @returns {Promise<Api.Job>}
   */
  async look(id) {
    for (const said = this.said.textContent || '';;) {
      try {
        const job = await get(path(id));
        say(this.said, said);
        return job;
      } catch (e) {
        const {status, message} = /** @type {import('../../service/api.js').ApiError} */ (e);
        if (!AWAY.includes(status) || this.stopped) {
          throw e;
        }
        say(this.said, 'The trial goes on, but ' + message + ' …');
        await pause();
      }
    }
  }

  /**
   * @param {Api.Spec} spec
   * @param {string} strategy
   * @param {number} seconds
   */
  async tryOne(spec, strategy, seconds) {
    const {id} = await post('jobs', trialSpec(spec, strategy, seconds));
    this.running = id;
    this.jobs.push(id);
    const [points, job] = await this.follow(id, strategy, seconds);
    await this.halt(id);
    const before = this.rows.find((p) => p.strategy === strategy) || {};
    const row = measuredRow(points, job, before, this.samples);
    if (!row) {
      throw new Error(job.error?.message || 'it did not train long enough');
    }
    const key = keyOf(spec);
    this.results.set(key, new Map([...(this.results.get(key) || []), [strategy, row]]));
    this.changed();
  }

  /**
   * How far a trial has come, moment by moment, until its time is over.
   * @param {string} id
   * @param {string} strategy
   * @param {number} seconds
   * @returns {Promise<[Point[], Api.Job]>}
   */
  async follow(id, strategy, seconds) {
    const points = [{seconds: 0, samples: 0}];
    for (;;) {
      const job = await this.look(id);
      const point = {seconds: job.seconds || 0, samples: job.progress?.samples || 0};
      const over = ENDED.includes(job.state) || this.stopped || point.seconds >= seconds;
      if (point.seconds > points[points.length - 1].seconds + (over ? 0 : seconds / MOMENTS)) {
        points.push(point);
      }
      if (over) {
        return [points, job];
      }
      if (job.waiting) {
        say(this.said, strategy + ' waits: ' + job.waiting);
      }
      await pause();
    }
  }

  /**
   * Ends a trial, and waits until its nodes are free.
   * @param {string} id
   */
  async halt(id) {
    let {state} = await this.look(id);
    if (!ENDED.includes(state)) {
      await post(path(id, 'cancel')).catch(() => {}); /* it may have ended meanwhile */
    }
    while (!ENDED.includes(state)) {
      await pause();
      ({state} = await this.look(id));
    }
    this.running = '';
  }

  end() {
    this.stopped = true;
  }

  async deleteAll() {
    await Promise.allSettled(this.jobs.map((id) => remove(path(id))));
    this.jobs = [];
    this.forget.hidden = true;
    say(this.said, 'The trials are deleted; what they measured stays here.');
  }

  close() {
    this.stopped = true;
    if (this.running) {
      post(path(this.running, 'cancel')).catch(() => {});
    }
  }
}
