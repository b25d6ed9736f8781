/* A job's spec in words. */
import {plural} from '../text/format.js';

/** @param {Api.Spec | undefined} spec */
export function modelName(spec) {
  if (spec?.program) {
    const {name, command = [], args = []} = spec.program;
    const file = [...command, ...args].find((word) => /[.]py$/.test(word)) || command[0] || '';
    return 'the program ' + (name || file.replace(/.*[/]/, ''));
  }
  if (typeof spec?.model === 'string') {
    return spec.model;
  }
  return spec?.model?.layers ? 'network of ' + plural(spec.model.layers.length, 'layer')
                             : 'no model';
}

/** @param {Api.Spec | undefined} spec */
export function dataName(spec) {
  return spec?.program ? 'its own data' : spec?.data?.path || spec?.data?.format || 'no data';
}

/* Every preset classifies into so many classes. */
const PRESET_CLASSES = 10;

/**
 * The number of classes; NaN if the network does not classify, or if it is not known.
 * @param {Api.Spec | undefined} spec
 */
export function classesOf(spec) {
  const {model} = spec || {};
  if (typeof model === 'string') {
    return PRESET_CLASSES;
  }
  const units = (model?.layers || []).map((layer) => layer.units).filter(Boolean);
  const classes = units[units.length - 1];
  return model?.loss !== 'mse' && classes !== undefined && classes > 1 ? classes : NaN;
}

/**
 * Whether the network chooses among one class, so that it is right whatever it learns.
 * @param {Api.Spec | undefined} spec
 */
export function knowsOneClass(spec) {
  const {model} = spec || {};
  const units =
      typeof model === 'object' ? (model.layers || []).flatMap(({units}) => units || []) : [];
  return typeof model === 'object' && model.loss !== 'mse' && units[units.length - 1] === 1;
}

/** @param {Api.Spec | undefined} spec */
export function strategyOf(spec) {
  return spec?.strategy?.type || 'sync';
}

/**
 * Its strategy in the catalogue.
 * @param {Api.CatalogEntry[]} strategies
 * @param {Api.Spec | undefined} spec
 */
export function entryOf(strategies, spec) {
  return strategies.find((s) => s.name === strategyOf(spec));
}

/** @param {Api.Spec | undefined} spec */
export function policyOf(spec) {
  return spec?.batching?.policy || 'dynamic';
}

/**
 * Samples of one step of all nodes; NaN: not known yet. A user's program reports it, and the
 * service's figure comes before the spec's, which may be more than the training set.
 * @param {Api.Job | undefined} job
 */
export function globalBatch(job) {
  return job?.program?.global_batch || job?.assignment?.global_batch ||
      job?.spec?.batching?.global_batch || NaN;
}

/**
 * A program's network, in words; '' for our own networks.
 * @param {Api.Job} job
 */
export function broughtBy({program}) {
  return program ? [
    plural(program.parameters, 'parameter'), program.optimizer,
    plural(program.samples, 'sample') + ' an epoch', program.framework
  ].filter(Boolean).join(', ') : '';
}

/**
 * Whether gradients go to parameter servers. Without any, a job's `servers` has its keeper alone;
 * only strategies with servers have the setting.
 * @param {Api.Job} job
 */
export function hasServers(job) {
  return (job.servers || []).length > 0 && isServed(job);
}

/**
 * The spec without seed, name, tags and note: the same for runs that differ only in their seeds.
 * @param {Api.Spec | undefined} spec
 */
export function withoutSeed(spec) {
  const {name, seed, tags, note, ...rest} = spec || {};
  return JSON.stringify(rest);
}

/** @param {unknown} v */
function isObject(v) {
  return v !== null && typeof v === 'object';
}

/**
 * Every value of a nested document with its path: [['optimizer/type', 'sgd'], …].
 * @param {any} value
 * @param {string} [at]
 * @returns {[string, string][]}
 */
export function flatten(value, at = '') {
  if (isObject(value) && !(Array.isArray(value) && !value.some(isObject))) {
    return Object.entries(value).flatMap(([k, v]) => flatten(v, at ? at + '/' + k : k));
  }
  if (Array.isArray(value)) {
    return [[at, value.join(', ')]];
  }
  return [[at, value === null ? 'none' : String(value)]];
}

/**
 * The id of the job whose checkpoint this one goes on from, or the folder beneath a data root where
 * one lies; '': it begins anew.
 * @param {Api.Job} job
 */
export function goesOnFrom({spec}) {
  const init = spec?.init;
  return typeof init === 'object' && init['continue'] ? init.path.split('/')[0] : '';
}

/**
 * Whether a server takes the gradients: the version after each update is what `step` counts there.
 * @param {Api.Job} job
 */
export const isServed = (job) => job.spec?.strategy?.servers !== undefined;

/**
 * The unit of the charts' axis.
 * @param {Api.Job} job
 */
export const stepWord = (job) => (isServed(job) ? 'update' : 'step');
