/* Conditions on runs: strategy/type=asgd, metrics/test_accuracy>=90 %. A condition is a column's
   name, a comparison and a value; the address keeps it as this text. Pure. */
import {columnOf, textOf} from './columns.js';

/** @typedef {{id: string, how: string, value: string}} Condition */

/* Two signs before one, so that >= is not read as >. */
const FORM = /^([^=!<>~]+)(!=|>=|<=|=|<|>|~)(.*)$/;
/** @type {[string, string][]} comparison, words */
export const COMPARISONS =
    [['=', 'is'], ['!=', 'is not'], ['~', 'contains'], ['>=', 'at least'], ['<=', 'at most']];

/**
 * @param {string} text
 * @returns {Condition | null} null where the text is none
 */
export function parseCondition(text) {
  const found = FORM.exec(text.trim());
  return found && {id: found[1].trim(), how: found[2], value: found[3].trim()};
}

/** @param {Condition} condition */
export const printCondition = ({id, how, value}) => id + how + value;

/** @param {Condition} condition */
export function sayCondition({id, how, value}) {
  const words = COMPARISONS.find(([sign]) => sign === how)?.[1] || how;
  return columnOf(id).title + ' ' + words + ' ' + (value || 'none');
}

/**
 * What is wrong with a condition; '': nothing. A condition that no run could fulfil is a mistake.
 * @param {Condition} condition
 */
export function faultOf({id, how, value}) {
  const column = columnOf(id);
  return /[<>]/.test(how) && Number.isNaN(column.read(value))
      ? '“' + value + '” is no number that ' + column.title + ' could be compared with'
      : '';
}

/**
 * Whether a job meets a condition. Values are compared as numbers where both are, else as the texts
 * that the table shows, whatever their case; of several texts (tags) one is enough. What the table
 * shows alike is equal.
 * @param {Condition} condition
 * @param {Api.Job} job
 */
export function meets({id, how, value}, job) {
  const column = columnOf(id);
  const has = column.value(job);
  const number = column.read(value);
  const both = typeof has === 'number' && !Number.isNaN(number);
  const told = textOf(column, job).toLowerCase();
  const wanted = value.toLowerCase() || 'none';
  const same = told === wanted || (both && has === number) ||
      Boolean(column.parts?.(job).some((part) => part.toLowerCase() === wanted));
  switch (how) {
    case '=':
      return same;
    case '!=':
      return !same;
    case '~':
      return told.includes(value.toLowerCase());
    case '>':
      return both && has > number;
    case '<':
      return both && has < number;
    case '>=':
      return both && (has >= number || same);
    default:
      return both && (has <= number || same);
  }
}
