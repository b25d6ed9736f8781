/* What a user's program failed of, taken out of the message in which ranks tell it
   (worker/program/). Pure. */

const RANK = /the program of rank \d+ on '[^']*'/;
const ALL = /^the programs of all ranks ended in step (\d+) of epoch (\d+); here: /;
const CANNOT = new RegExp('^' + RANK.source + ' cannot go on: ');
const ENDED = new RegExp('^' + RANK.source + ' ended with exit code (\\d+)(: |; its last lines: )');
const LINES = ' | ';

/**
 * `all`: the programs of all ranks failed at one place, which `where` names; `how` it ended, if not
 * by an exception alone; `said`: the exception, with file and line, or the program's last line.
 * @typedef {{all: boolean, where: string, how: string, said: string}} ProgramFailure
 */

/**
 * Null where the message is of no program.
 * @param {string} message
 * @returns {ProgramFailure | null}
 */
export function programFailure(message) {
  const all = ALL.exec(message);
  const own = all ? message.slice(all[0].length) : message;
  const [cannot, ended] = [CANNOT.exec(own), ENDED.exec(own)];
  const told = cannot || ended;
  if (!told) {
    return null;
  }
  const said = own.slice(told[0].length).split(LINES).pop()?.trim() || '';
  const exception = cannot || ended?.[2] === ': ';
  return {
    all: Boolean(all),
    where: all ? ' in step ' + all[1] + ' of epoch ' + all[2] : '',
    how: exception ? '' : ' with exit code ' + ended?.[1],
    said
  };
}

/**
 * An error's words without who said them, so that those of several ranks can be compared.
 * @param {string} why
 */
export const wordsOf = (why) => programFailure(why)?.said ?? why.split(LINES).pop() ?? '';

/**
 * How many lines an exception has, the first of `lines`. Indented ones go on, and all behind one
 * that ends with a colon (worker/program/child/exception.c reads it by the same rule).
 * @param {string[]} lines
 */
function exceptionLength(lines) {
  if (lines[0]?.endsWith(':')) {
    return lines.length;
  }
  const other = lines.findIndex((line, i) => i > 0 && !/^\s/.test(line));
  return other < 0 ? lines.length : other;
}

/**
 * The traceback that a program printed last, with those that it was raised in; [] for none. Lines
 * that only underline another are left out: they do where it wraps.
 * @param {string[]} said what it printed
 */
export function tracebackIn(said) {
  const heads = said.flatMap((line, i) => (line.startsWith('Traceback (most recent') ? [i] : []));
  let from = heads.pop() ?? -1;
  if (from < 0) {
    return [];
  }
  const named = said.findIndex((line, i) => i > from && !line.startsWith(' '));
  const end = named < 0 ? said.length : named + exceptionLength(said.slice(named));
  while (heads.length && /exception/.test(said[from - 1] || '')) {
    from = /** @type {number} */ (heads.pop());
  }
  return said.slice(from, end).filter((line) => !/^\s+[~^]+$/.test(line));
}
