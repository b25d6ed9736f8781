/* Ages go on growing between two messages. */
export function dataAge(data, reported) {
  return typeof reported === 'number' ?
      reported + (data.receivedAt ? (performance.now() - data.receivedAt) / 1000 : 0) :
      NaN;
}
