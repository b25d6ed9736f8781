/* How a user's program ended, in words, and the traceback in what it printed. Pure. */

/**
 * A program's last words: its reason, its exception with file and line, or its last line; '': none.
 * @param {Api.ProgramEnd} end
 */
export function saidOf({exception, file, line, reason, last_line: last}) {
  const place = file && line ? ' (' + file + ', line ' + line + ')' : '';
  return reason || (exception ? exception + place : last) || '';
}

/**
 * How it ended, after "the program".
 * @param {Api.ProgramEnd} end
 */
export function howOf({exception, exit_code: code, signal}) {
  return signal                    ? 'was ended by ' + signal
      : exception || code === null ? 'failed'
                                   : 'ended with exit code ' + code;
}

/**
 * An error's words without who said them, so that those of several ranks can be compared.
 * @param {Api.JobError | null | undefined} error
 */
export const wordsOf = (error) => (error?.program && saidOf(error.program)) || error?.message || '';

/**
 * How many of `lines` belong to an exception that begins with the first. Indented lines continue
 * it, and so do all lines after one that ends with a colon (worker/program/child/exception.c has
 * the same rule).
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
 * The last traceback that a program printed, with those in which it was raised; []: none. Lines
 * that only underline another are left out, since they would not match wrapped lines.
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
