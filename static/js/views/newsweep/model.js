/* A sweep that is being edited (draft/draft.js): one job's spec, and the settings that are tried.
 */
import {Draft} from '../../draft/draft.js';
import {getAt} from '../../draft/json.js';
import {get, job as path} from '../../service/api.js';
import {firstSpec} from '../submit/model.js';

/** @typedef {'values' | 'log' | 'linear' | 'int'} Way how values are given */

const STEPS = 4;
/* The usual settings to try, by their place in a spec. */
export const SETTINGS = [
  '/optimizer/learning_rate', '/optimizer/momentum', '/optimizer/type', '/strategy/type',
  '/batching/global_batch', '/batching/policy', '/workers', '/epochs', '/model'
];

/**
 * Around the value that the job has.
 * @param {Api.Spec} spec
 * @param {string} pointer
 */
function guess(spec, pointer) {
  const now = getAt(spec, pointer);
  return typeof now === 'number' && now > 0 ? [now / 4, now / 2, now] : [now ?? 1];
}

/** @param {Partial<Api.SweepParameter> | undefined} parameter */
export function wayOf(parameter) {
  return /** @type {Way} */ (parameter?.range ? parameter.scale || 'linear' : 'values');
}

export class NewSweepModel extends Draft {
  constructor() {
    super('sweeps');
    /** The job that its spec is of. */
    /** @type {Api.Job | null} */
    this.earlier = null;
  }

  /** @param {string | null} from the id of an earlier job */
  async load(from) {
    const [{nodes}, datasets, earlier] = await Promise.all([
      get('nodes'), get('datasets').then((d) => d.datasets).catch(() => []),
      from ? get(path(from)) : null
    ]);
    const {name, tags: ignored, ...spec} =
        /** @type {any} */ (earlier ? earlier.spec : firstSpec(datasets, nodes));
    const [pointer] = SETTINGS;
    this.earlier = earlier;
    this.begin({
      name: earlier ? name + '-sweep' : 'my-sweep',
      parameters: [{pointer, values: guess(spec, pointer)}],
      method: {type: 'grid'},
      metric: {name: 'test_accuracy'},
      parallel: 1,
      spec
    });
  }

  /** @returns {Partial<Api.SweepParameter>[]} */
  get parameters() {
    return Array.isArray(this.spec.parameters) ? this.spec.parameters : [];
  }

  /** @param {Partial<Api.SweepParameter>[]} parameters */
  setParameters(parameters) {
    this.replace({...this.spec, parameters});
  }

  /* One more setting: the first of the usual ones that is not tried yet. */
  add() {
    const used = this.parameters.map((p) => p.pointer);
    const pointer = SETTINGS.find((s) => !used.includes(s)) || '';
    this.setParameters(
        [...this.parameters, {pointer, values: guess(this.spec.spec || {}, pointer)}]);
  }

  /** @param {number} i */
  drop(i) {
    this.setParameters(this.parameters.filter((_, k) => k !== i));
  }

  /**
   * Another way to give the values of a setting; two of them become a range.
   * @param {number} i
   * @param {Way} way
   */
  give(i, way) {
    const {pointer, values, range} = this.parameters[i];
    const numbers = /** @type {number[]} */ (
        (values || range || []).filter((/** @type {unknown} */ v) => typeof v === 'number'));
    const ends = numbers.length > 1 ? [Math.min(...numbers), Math.max(...numbers)] : [0.001, 0.1];
    const given = way === 'values'
        ? {values: range || values}
        : {range: ends, scale: way, ...(this.spec.method?.type === 'grid' ? {steps: STEPS} : {})};
    const changed = /** @type {Partial<Api.SweepParameter>} */ ({pointer, ...given});
    this.setParameters(this.parameters.map((p, k) => (k === i ? changed : p)));
  }

  /** @param {string} type */
  setMethod(type) {
    const {trials, seed} = this.spec.method || {};
    const drawn = {type, trials: trials || 9, ...(seed === undefined ? {} : {seed})};
    const method = type === 'grid' ? {type}
        : type === 'random'        ? drawn
                                   : {...drawn, eta: 3, rungs: [1, 3, 9]};
    const parameters =
        this.parameters.map(({steps: ignored, ...p}) =>
                                ({...p, ...(p.range && type === 'grid' ? {steps: STEPS} : {})}));
    this.replace({...this.spec, parameters, method});
  }
}
