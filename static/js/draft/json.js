/* JSON as text that people edit: printing it compactly, finding the line of a pointer, colouring.
   Pure, tested in tests/browser/test_pure.py. */
const WIDE = 54;

/**
 * @param {any} value
 * @returns {string}
 */
function inline(value) {
  if (Array.isArray(value)) {
    return '[' + value.map(inline).join(', ') + ']';
  }
  if (value !== null && typeof value === 'object') {
    return '{' +
        Object.entries(value).map(([k, v]) => JSON.stringify(k) + ': ' + inline(v)).join(', ') +
        '}';
  }
  /* as 1e+20, since the service reads no whole number with so many digits */
  return typeof value === 'number' && Math.abs(value) > 2 ** 53 ? value.toExponential()
                                                                : JSON.stringify(value);
}

/**
 * Short objects on one line, long ones a line for each key.
 * @param {any} value
 * @param {string} [indent]
 * @param {boolean} [top]
 * @returns {string}
 */
export function print(value, indent = '', top = true) {
  const short = inline(value);
  if (value === null || typeof value !== 'object' ||
      (!top && short.length + indent.length <= WIDE) || Object.keys(value).length === 0) {
    return short;
  }
  const inner = indent + '  ';
  const parts = Array.isArray(value) ? value.map((v) => inner + print(v, inner, false))
                                     : Object.entries(value).map(([k, v]) => inner +
                                               JSON.stringify(k) + ': ' + print(v, inner, false));
  return (Array.isArray(value) ? '[' : '{') + '\n' + parts.join(',\n') + '\n' + indent +
      (Array.isArray(value) ? ']' : '}');
}

/** @param {string} key */
const escape = (key) => key.replace(/~/g, '~0').replace(/\//g, '~1');

/* Walks over a JSON text and remembers where each value begins. */
class Walker {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.line = 0;
    /** @type {Map<string, number>} */
    this.lines = new Map([['', 0]]);
  }

  space() {
    while (this.at < this.text.length && /\s/.test(this.text[this.at])) {
      this.line += this.text[this.at] === '\n' ? 1 : 0;
      this.at++;
    }
  }

  /** @param {RegExp} pattern */
  take(pattern) {
    const found = pattern.exec(this.text.slice(this.at));
    if (!found) {
      throw new Error('no JSON at ' + this.at);
    }
    this.at += found[0].length;
    return found[0];
  }

  /** @returns {string} */
  string() {
    return JSON.parse(this.take(/^"(?:[^"\\\n]|\\.)*"/));
  }

  /** @param {string} pointer */
  value(pointer) {
    this.space();
    if (!this.lines.has(pointer)) {
      this.lines.set(pointer, this.line);
    }
    const c = this.text[this.at];
    if (c === '{' || c === '[') {
      this.members(pointer, c === '{' ? '}' : ']');
    } else if (c === '"') {
      this.string();
    } else {
      this.take(/^[-+\w.]+/);
    }
  }

  /**
   * @param {string} pointer
   * @param {string} close
   */
  members(pointer, close) {
    this.at++;
    this.space();
    for (let i = 0; this.text[this.at] !== close; i++) {
      if (i > 0) {
        this.take(/^,/);
        this.space();
      }
      if (close === '}') {
        this.member(pointer);
      } else {
        this.value(pointer + '/' + i);
      }
      this.space();
    }
    this.at++;
  }

  /** @param {string} pointer of the object */
  member(pointer) {
    const line = this.line;
    const inside = pointer + '/' + escape(this.string());
    this.lines.set(inside, line);
    this.space();
    this.take(/^:/);
    this.value(inside);
  }
}

/**
 * Map from pointer to line (from 0) of where its value, or its key, begins. Forgiving: stops where
 * the text is no JSON.
 * @param {string} text
 */
export function places(text) {
  const walker = new Walker(text);
  try {
    walker.value('');
  } catch (e) { /* the places found so far are right */
  }
  return walker.lines;
}

/**
 * The line of a pointer, or of the nearest parent that stands in the text.
 * @param {Map<string, number>} found
 * @param {string} pointer
 * @returns {number}
 */
export function lineOf(found, pointer) {
  for (let p = pointer;; p = p.slice(0, p.lastIndexOf('/'))) {
    const line = found.get(p);
    if (line !== undefined) {
      return line;
    }
    if (!p.includes('/')) {
      return found.get('') ?? 0;
    }
  }
}

/**
 * [[class, text]] of one line.
 * @param {string} line
 */
export function colour(line) {
  const out = [];
  const token = /("(?:[^"\\]|\\.)*"?)(\s*:)?|-?\d[\d.eE+-]*|true|false|null|\s+|./g;
  for (const found of line.matchAll(token)) {
    const [all, text, colon] = found;
    if (text !== undefined) {
      out.push([colon ? 'j-key' : 'j-string', text]);
      if (colon) {
        out.push(['j-punct', colon]);
      }
    } else {
      const word = /^[tfn]\w/.test(all) ? 'j-word' : 'j-punct';
      out.push([/^-?\d/.test(all) ? 'j-number' : word, all]);
    }
  }
  return out;
}

/**
 * @param {any} value
 * @param {string} pointer
 * @returns {any}
 */
export function getAt(value, pointer) {
  return pointer.split('/').slice(1).reduce(
      (v, k) => (
          v === null || v === undefined ? undefined : v[k.replace(/~1/g, '/').replace(/~0/g, '~')]),
      value);
}

/**
 * A list or an object like it; an empty object where it is neither.
 * @param {any} value
 */
function copyOf(value) {
  if (Array.isArray(value)) {
    return value.slice();
  }
  return value !== null && typeof value === 'object' ? {...value} : {};
}

/**
 * A copy with a value put in (undefined: taken out, with parents that become empty).
 * @param {any} value
 * @param {string} pointer
 * @param {unknown} wanted
 * @returns {any}
 */
export function setAt(value, pointer, wanted) {
  const keys = pointer.split('/').slice(1);
  const copy = copyOf(value);
  const [key] = keys;
  if (keys.length === 1) {
    if (wanted === undefined) {
      delete copy[key];
    } else {
      copy[key] = wanted;
    }
    return copy;
  }
  const inner = setAt(copy[key], '/' + keys.slice(1).join('/'), wanted);
  if (wanted === undefined && Object.keys(inner).length === 0) {
    delete copy[key];
  } else {
    copy[key] = inner;
  }
  return copy;
}
