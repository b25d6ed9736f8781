/* Only those settings that differ. A parameter that one run's strategy has and another's has not is
   a difference only where it is not at its default. */
import {fill, h} from '../../elements/dom.js';
import {flatten, modelName} from '../../spec/spec.js';
import {plural} from '../../text/format.js';

import {letterOf} from './letters.js';
import {runHeads} from './results.js';

/** @typedef {import('./model.js').CompareModel} CompareModel */

/** Labels of a run, which do not change how it runs. */
const LABELS = ['name', 'note', 'tags'];

/** Up to so many differences of networks or clusters are listed one by one. */
const MOST = 8;

/**
 * An entry of a cluster may stand for several nodes.
 * @param {Api.Spec} spec
 */
function clusterName({cluster}) {
  const {nodes = []} = /** @type {{nodes?: {count?: number}[]}} */ (cluster || {});
  const all = nodes.reduce((sum, {count = 1}) => sum + count, 0);
  return cluster ? plural(all, 'virtual node') : 'none';
}

/** Settings that may have many values, and their name as a whole. */
/** @type {[string, (spec: Api.Spec) => string][]} */
const PARTS = [['model', modelName], ['cluster', clusterName]];

/**
 * Whether a setting is a parameter at its default, as the catalogue has it.
 * @param {Api.Catalog} catalog
 * @param {Api.Spec} spec
 * @param {string} key such as strategy/weighting
 * @param {string} value
 */
export function isDefault(catalog, spec, key, value) {
  const [, section = '', inner] = /^(?:optimizer\/)?(\w+)\/(\w+)$/.exec(key) || [];
  /** @type {{[section: string]: string | undefined}} */
  const types = {
    strategy: spec.strategy?.type,
    optimizer: spec.optimizer?.type,
    schedule: spec.optimizer?.schedule?.type,
    batching: spec.batching?.policy
  };
  const entries = /** @type {{[section: string]: Api.CatalogEntry[] | undefined}} */ (
      /** @type {unknown} */ (catalog))[section];
  const parameter =
      entries?.find((e) => e.name === types[section])?.parameters?.find((p) => p.name === inner);
  return Boolean(parameter) && String(parameter?.default ?? 'none') === value;
}

/**
 * A run's settings by their keys. A network or a virtual cluster that is written out is one
 * setting, unless all are and differ in few places: else each of its parts would be a line or more.
 * @param {Api.Spec[]} specs
 */
export function settingsOf(specs) {
  const all = specs.map((spec) => new Map(flatten(spec)));
  for (const [part, nameOf] of PARTS) {
    const own = (/** @type {string} */ key) => key.startsWith(part + '/');
    const keys = [...new Set(all.flatMap((f) => [...f.keys()].filter(own)))];
    const differ = keys.filter((k) => new Set(all.map((f) => f.get(k))).size > 1);
    const written = all.map((f) => keys.some((k) => f.has(k)));
    if (differ.length > MOST || new Set(written).size > 1) {
      all.forEach((f, i) => {
        keys.forEach((k) => f.delete(k));
        f.set(part, nameOf(specs[i]));
      });
      tellApart(
          all, part, specs.map((spec) => JSON.stringify(spec[/** @type {'model'} */ (part)])));
    }
  }
  return all;
}

/**
 * Parts that differ and are called the same are called by the first run that has them.
 * @param {Map<string, string>[]} all
 * @param {string} part
 * @param {string[]} texts of the part, one for each run
 */
function tellApart(all, part, texts) {
  if (new Set(texts).size > 1 && new Set(all.map((f) => f.get(part))).size === 1) {
    all.forEach(
        (f, i) => f.set(part, f.get(part) + ' (' + letterOf(texts.indexOf(texts[i])) + '’s)'));
  }
}

/**
 * A setting's key, broken between its words only.
 * @param {string} key
 */
const breakable = (key) => key.split(/(?<=[/_])/).flatMap((word) => [word, h('wbr')]);

/** @implements {Page.Part} */
export class Differences {
  /** @param {CompareModel} data */
  constructor(data) {
    this.data = data;
    this.node = h('table', {class: 'differs'});
  }

  update() {
    const settings = settingsOf(this.data.runs.map((r) => r.job.spec || {}));
    const all = [...new Set(settings.flatMap((f) => [...f.keys()]))];
    const differs = (/** @type {string} */ k) => {
      const values = settings.map((f, i) => {
        const value = f.get(k);
        const spec = this.data.runs[i].job.spec || {};
        return value !== undefined && isDefault(this.data.catalog, spec, k, value) ? null : value;
      });
      /* a default and no such parameter are the same; two values are not */
      const same = new Set(values.map((v) => v ?? 'default')).size === 1;
      return !same && new Set(settings.map((f) => f.get(k))).size > 1;
    };
    const keys = all.filter((k) => !LABELS.includes(k) && differs(k));
    const rows =
        keys.map((k) => h('tr', null, h('td', {class: 'mono'}, breakable(k)),
                     settings.map((f) => h('td', {class: 'num', text: f.get(k) ?? 'none'}))));
    fill(this.node, h('caption', {class: 'sr', text: 'Settings that differ'}),
        runHeads('Setting', settings.length),
        h('tbody', null, rows.length ? rows : this.none(settings.length)));
  }

  /** @param {number} runs */
  none(runs) {
    const text = runs > 1 ? 'nothing but the name' : 'one run only';
    return h('tr', null, h('td', {colspan: String(runs + 1), class: 'quiet', text}));
  }
}
