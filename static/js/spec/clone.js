/* Addresses of the form for a new job that begins from an earlier one. Pure. */

/**
 * The address of the form with an earlier job's spec and some changes: JSON pointers and their
 * values. The form shows what was changed.
 * @param {string} id
 * @param {{[pointer: string]: unknown}} changes
 */
export function cloneWith(id, changes) {
  return '#/new?' + new URLSearchParams({from: id, set: JSON.stringify(changes)});
}

/**
 * The changes of such an address; none where it has none or is malformed.
 * @param {string | null} text
 * @returns {[string, unknown][]}
 */
export function changesOf(text) {
  try {
    const all = JSON.parse(text || '{}');
    return Object.entries(all).filter(([pointer]) => pointer.startsWith('/'));
  } catch (e) {
    return [];
  }
}
