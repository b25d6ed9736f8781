/* The columns that a table of runs can have: what a job is (dates, priority, its network), every
   setting of the specs that were read, and every figure that the list gives. A setting's or a
   figure's name is its path in the job's document, optimizer/learning_rate or
   metrics/test_accuracy; the address keeps the names. Pure. */
import {isVirtual, tookSeconds} from '../../measures/measures.js';
import {serviceNow} from '../../service/servicetime.js';
import {dataName, flatten, modelName, policyOf, strategyOf} from '../../spec/spec.js';
import {projectOf} from '../../spec/tags.js';
import {
  bytes,
  capital,
  known,
  loss,
  NARROW,
  percent,
  plain,
  three,
  whole
} from '../../text/format.js';
import {seconds, span, when} from '../../text/times.js';
import {instantOf, numberOf} from '../../text/written.js';


/** @typedef {string | number | undefined} Value  undefined: the job has none */
/**
 * `text` is how a value is told, `read` the way back from what somebody wrote (NaN: it is none);
 * `told` how a job's own value is, where that says more; `parts` the texts of which it is made.
 * @typedef {{id: string, title: string, kind: 'job' | 'setting' | 'figure', numeric: boolean,
 *            value: (job: Api.Job) => Value, text: (value: number) => string,
 *            read: (text: string) => number, told?: (job: Api.Job) => string,
 *            parts?: (job: Api.Job) => string[]}} Column
 */

/* Parts of a job's document whose numbers are figures. */
/** @type {('metrics' | 'progress' | 'staleness' | 'staleness_recent' | 'logged')[]} */
const PARTS = ['metrics', 'progress', 'staleness', 'staleness_recent', 'logged'];
/** Before the name of a metric that a program logged, which may have any characters. */
export const LOGGED = 'logged/';
/* Figures that are counts, shown with all their digits. */
const COUNTS = ['progress/step', 'progress/samples', 'progress/epochs'];
/* Figures that are 0 before they are known. */
const UNKNOWN_AS_0 = ['metrics/samples_per_second', 'metrics/step_seconds'];
/* Titles of paths whose last word says too little. */
/** @type {{[id: string]: string}} */
const TITLES = {
  'metrics/samples_per_second': 'Samples/s, last 5\u00a0s',
  'metrics/step_seconds': 'One step',
  'progress/fraction': 'Done',
  'batching/policy': 'Minibatches',
  'data/format': 'Format',
  'data/path': 'Data path'
};
export const FIRST = [
  'job/loss', 'strategy/type', 'batching/policy', 'job/nodes', 'metrics/test_accuracy',
  'metrics/samples_per_second', 'job/took', 'job/created'
];
/** The column with a curve in place of a value (table.js draws it). */
export const CURVE = 'job/loss';

/** @param {string | null | undefined} time */
const instant = (time) => (time ? Date.parse(time) : undefined);

/** @param {number} time in milliseconds since 1970 */
const date = (time) => when(new Date(time).toISOString());

const dates = {
  text: date,
  read: (/** @type {string} */ text) => instantOf(text, new Date(serviceNow()))
};

const VIRTUAL = ' of virtual time';

/** @param {string} spoken */
const words = (spoken) => capital(spoken.replace(/[_/]/g, ' '));

/**
 * How the number of a path is read: its name has the unit.
 * @param {string} id
 * @returns {(value: number) => string}
 */
function formatOf(id) {
  const has = (/** @type {string} */ end) => id.endsWith(end);
  if (id.startsWith(LOGGED)) { /* its unit is the program's */
    return plain;
  }
  if (has('_seconds')) {
    return seconds;
  }
  if (has('accuracy') || has('fraction')) {
    return (v) => percent(v);
  }
  if (has('_loss')) {
    return loss;
  }
  if (COUNTS.includes(id)) {
    return whole;
  }
  return has('bytes') ? bytes : has('_second') ? three : plain;
}

/**
 * @param {string} id
 * @param {string} title
 * @param {(job: Api.Job) => Value} value
 * @param {Partial<Column>} [more]
 * @returns {Column}
 */
function ofJob(id, title, value, more) {
  const column = {title, value, text: plain, read: numberOf, numeric: true};
  return {id: 'job/' + id, kind: 'job', ...column, ...more};
}

/** @param {Api.Job} job */
function took(job) {
  const all = tookSeconds(job);
  return known(all) ? all : undefined;
}

/** @type {Column[]} */
const OF_JOB = [
  ofJob('loss', 'Loss', (j) => j.metrics?.train_loss ?? undefined, {text: loss, numeric: false}),
  ofJob('model', 'Network', (j) => modelName(j.spec), {numeric: false}),
  ofJob('data', 'Data', (j) => dataName(j.spec), {numeric: false}),
  ofJob('nodes', 'Nodes', (j) => (j.workers || []).length || j.spec?.workers || 1),
  ofJob('took', 'Took', took,
      {text: span, told: (j) => span(tookSeconds(j)) + (isVirtual(j) ? VIRTUAL : '')}),
  ofJob('trained', 'Trained', (j) => j.seconds,
      {text: span, told: (j) => span(j.seconds ?? NaN) + (isVirtual(j) ? VIRTUAL : '')}),
  ofJob('created', 'Created', (j) => instant(j.created), dates),
  ofJob('started', 'Started', (j) => instant(j.started), dates),
  ofJob('finished', 'Ended', (j) => instant(j.finished), dates),
  ofJob('priority', 'Priority', (j) => j.priority),
  ofJob('restarts', 'Restarts', (j) => j.restarts),
  ofJob('owner', 'By', (j) => j.owner ?? undefined, {numeric: false}),
  ofJob('project', 'Project', (j) => projectOf(j) || undefined, {numeric: false}),
  ofJob('tags', 'Tags', (j) => j.tags?.join(', ') || undefined,
      {numeric: false, parts: (j) => j.tags || []}),
  ofJob('note', 'Note', (j) => j.note ?? undefined, {numeric: false}),
  ofJob('error', 'Error', (j) => j.error?.message, {numeric: false}),
];

/** Settings by job: a spec does not change. */
/** @type {WeakMap<Api.Spec, Map<string, string>>} */
const flat = new WeakMap();

/** @param {Api.Job} job */
function settingsOf({spec}) {
  const known = flat.get(spec);
  if (known) {
    return known;
  }
  const made = new Map(flatten(spec));
  /* the job's own are shown: those of the spec may have been changed since */
  made.delete('tags');
  made.delete('note');
  flat.set(spec, made);
  return made;
}

/** The values of keys that a spec leaves out. */
/** @type {{[id: string]: (spec: Api.Spec) => string}} */
const MEANT = {
  'strategy/type': strategyOf,
  'batching/policy': policyOf
};

/**
 * A number where the text is one.
 * @param {string | undefined} text
 * @returns {Value}
 */
function read(text) {
  return text !== undefined && text !== '' && known(Number(text)) ? Number(text) : text;
}

/** @param {string} id */
function titleOf(id) {
  const path = id.split('/');
  const last = path[path.length - 1];
  if (id.startsWith(LOGGED)) {
    return id.slice(LOGGED.length);
  }
  if (TITLES[id]) {
    return TITLES[id];
  }
  if (last === 'type') {
    return words(path[path.length - 2] || last);
  }
  const staleness = path[0].startsWith('staleness');
  return staleness ? words(path[0]) + ', ' + last.replace(/_/g, ' ') : words(last);
}

/**
 * @param {string} id
 * @returns {Column}
 */
function setting(id) {
  const value = (/** @type {Api.Job} */ job) =>
      read(settingsOf(job).get(id) ?? MEANT[id]?.(job.spec));
  const title = titleOf(id);
  return {id, title, kind: 'setting', numeric: false, value, text: String, read: numberOf};
}

/**
 * @param {string} id
 * @returns {Column}
 */
function figure(id) {
  const part = id.split('/', 1)[0];
  const name = id.slice(part.length + 1);
  const none = UNKNOWN_AS_0.includes(id) ? 0 : undefined;
  const value = (/** @type {any} */ job) => {
    const v = job[part]?.[name];
    return known(v) && v !== none ? v : undefined;
  };
  const title = titleOf(id), text = formatOf(id);
  return {id, title, kind: 'figure', numeric: true, value, text, read: numberOf};
}

/**
 * The column of a name, also of one that no job which was read has.
 * @param {string} id
 */
export function columnOf(id) {
  const isFigure = PARTS.some((part) => id.startsWith(part + '/'));
  return OF_JOB.find((c) => c.id === id) || (isFigure ? figure(id) : setting(id));
}

/**
 * Names of figures that these jobs have.
 * @param {any[]} jobs
 */
function figuresOf(jobs) {
  return PARTS.flatMap(
      (part) => jobs.flatMap((job) => Object.entries(job[part] || {})
                                          .filter(([, v]) => typeof v === 'number' || v === null)
                                          .map(([name]) => part + '/' + name)));
}

/**
 * Every column that these jobs could have.
 * @param {Api.Job[]} jobs
 * @returns {Column[]}
 */
export function columnsOf(jobs) {
  const settings = [...Object.keys(MEANT), ...jobs.flatMap((job) => [...settingsOf(job).keys()])];
  const names = (/** @type {string[]} */ all) => [...new Set(all)].sort();
  return [
    ...OF_JOB, ...names(figuresOf(jobs)).map(figure),
    ...names(settings).filter((id) => id !== 'name').map(setting)
  ];
}

/**
 * A job's value in a column, in words.
 * @param {Column} column
 * @param {Api.Job} job
 */
export function textOf(column, job) {
  const value = column.value(job);
  if (value === undefined) {
    return 'none';
  }
  if (typeof value === 'string') {
    return value;
  }
  return column.told ? column.told(job) : column.text(value);
}

/**
 * The value of several jobs: the common one; else mean and range of numbers, or the number of
 * values.
 * @param {Column} column
 * @param {Api.Job[]} jobs
 */
export function textOfAll(column, jobs) {
  const texts = new Set(jobs.map((job) => textOf(column, job)));
  if (texts.size === 1) {
    return [...texts][0];
  }
  const clock = column.told && jobs.every(isVirtual) ? VIRTUAL : '';
  const values = jobs.map(column.value);
  const numbers = values.filter(known);
  if (numbers.length < values.length || column.kind === 'setting') {
    return texts.size + NARROW + 'values';
  }
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)].map(column.text);
  if (['job/created', 'job/started', 'job/finished'].includes(column.id)) {
    return least + ' to ' + most;
  }
  const mean = numbers.reduce((sum, v) => sum + v, 0) / numbers.length;
  return column.text(mean) + ' (' + least + ' to ' + most + ')' + clock;
}
