/* A folder as a tar archive (ustar; longer names in pax records), as the service takes programs.
   Pure, tested in tests/browser/test_pure.py. */
export const TAR = 'application/x-tar';

const BLOCK = 512;
const NAME_BYTES = 100;
const CHECKSUM_AT = 148;
const MAGIC_AT = 257;

/** @typedef {{name: string, bytes: Uint8Array | Blob}} PlainFile  a Blob is not read here */

/**
 * @param {number} value
 * @param {number} digits
 */
const octal = (value, digits) => value.toString(8).padStart(digits, '0');

/**
 * @param {Uint8Array} name at most 100 bytes
 * @param {string} type
 * @param {number} size
 */
function header(name, type, size) {
  const block = new Uint8Array(BLOCK);
  const put = (/** @type {string} */ text, /** @type {number} */ at) =>
      block.set(new TextEncoder().encode(text), at);
  block.set(name, 0);
  put('0000644', 100);
  put('0000000', 108);
  put('0000000', 116);
  put(octal(size, 11), 124);
  put('00000000000', 136);
  put('        ', CHECKSUM_AT);
  put(type, 156);
  put('ustar', MAGIC_AT);
  put('00', MAGIC_AT + 6);
  put(octal(block.reduce((sum, byte) => sum + byte, 0), 6) + '\0', CHECKSUM_AT);
  return block;
}

/** @param {number} size */
const filling = (size) => new Uint8Array((BLOCK - size % BLOCK) % BLOCK);

/**
 * "LENGTH path=NAME\n", whose length counts its own digits.
 * @param {Uint8Array} name
 */
function pathRecord(name) {
  const rest = new TextEncoder().encode(' path=');
  let size = name.length + rest.length + 1;
  while (size !== name.length + rest.length + 1 + String(size).length) {
    size = name.length + rest.length + 1 + String(size).length;
  }
  const record = new Uint8Array(size);
  record.set(new TextEncoder().encode(String(size)), 0);
  record.set(rest, String(size).length);
  record.set(name, String(size).length + rest.length);
  record.set([10], size - 1);
  return record;
}

/**
 * @param {PlainFile} file
 * @returns {(Uint8Array | Blob)[]}
 */
function entry({name, bytes}) {
  const full = new TextEncoder().encode(name);
  const size = bytes instanceof Blob ? bytes.size : bytes.length;
  const own = [header(full.slice(0, NAME_BYTES), '0', size), bytes, filling(size)];
  if (full.length <= NAME_BYTES) {
    return own;
  }
  const record = pathRecord(full);
  const before = header(new TextEncoder().encode('path'), 'x', record.length);
  return [before, record, filling(record.length), ...own];
}

/**
 * The pieces of the archive, in their order.
 * @param {PlainFile[]} files
 */
export function archive(files) {
  const sorted = [...files].sort((a, b) => (a.name < b.name ? -1 : 1));
  return [...sorted.flatMap(entry), new Uint8Array(2 * BLOCK)];
}

/**
 * Whether a file of a folder belongs to the program: nothing hidden, nothing that Python made.
 * @param {string} name with its folders
 */
function belongs(name) {
  return !name.split('/').some((part) => part.startsWith('.') || part === '__pycache__');
}

/**
 * Chosen files as an archive, which is not read here: names without the folder's own.
 * @param {File[]} chosen
 */
export function packed(chosen) {
  const files = chosen
                    .map((file) => ({
                      bytes: file,
                      name: file.webkitRelativePath.replace(/^[^/]*[/]/, '') || file.name
                    }))
                    .filter(({name}) => belongs(name));
  return new Blob(archive(files), {type: TAR});
}
