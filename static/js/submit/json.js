/* JSON as text that people edit: printing it compactly, finding the line of a pointer, colouring. Pure, tested in
 * tests/browser/test_pure.py. */
const WIDE = 54;

function inline(value) {
  if (Array.isArray(value)) {
    return '[' + value.map(inline).join(', ') + ']';
  }
  if (value !== null && typeof value === 'object') {
    return '{' + Object.entries(value).map(([k, v]) => JSON.stringify(k) + ': ' + inline(v)).join(', ') + '}';
  }
  return JSON.stringify(value);
}

/* Short objects on one line, long ones a line for each key. */
export function print(value, indent = '', top = true) {
  const short = inline(value);
  if (value === null || typeof value !== 'object' || (!top && short.length + indent.length <= WIDE) ||
      Object.keys(value).length === 0) {
    return short;
  }
  const inner = indent + '  ';
  const parts = Array.isArray(value) ?
      value.map((v) => inner + print(v, inner, false)) :
      Object.entries(value).map(([k, v]) => inner + JSON.stringify(k) + ': ' + print(v, inner, false));
  return (Array.isArray(value) ? '[' : '{') + '\n' + parts.join(',\n') + '\n' + indent +
      (Array.isArray(value) ? ']' : '}');
}

const escape = (key) => key.replace(/~/g, '~0').replace(/\//g, '~1');

/* Map from pointer to line (from 0) of where its value, or its key, begins. Forgiving: stops where the text is no JSON.
 */
export function places(text) {
  const out = new Map([['', 0]]);
  let at = 0;
  let line = 0;
  const space = () => {
    while (at < text.length && /\s/.test(text[at])) {
      line += text[at] === '\n' ? 1 : 0;
      at++;
    }
  };
  const string = () => {
    const found = /^"(?:[^"\\\n]|\\.)*"/.exec(text.slice(at));
    if (!found) {
      throw new Error('string');
    }
    at += found[0].length;
    return JSON.parse(found[0]);
  };
  const expect = (c) => {
    space();
    if (text[at] !== c) {
      throw new Error(c);
    }
    at++;
  };
  const value = (pointer) => {
    space();
    if (!out.has(pointer)) {
      out.set(pointer, line);
    }
    if (text[at] === '{' || text[at] === '[') {
      const close = text[at] === '{' ? '}' : ']';
      at++;
      space();
      for (let i = 0; text[at] !== close; i++) {
        if (i > 0) {
          expect(',');
          space();
        }
        if (close === '}') {
          const keyLine = line;
          const inside = pointer + '/' + escape(string());
          out.set(inside, keyLine);
          expect(':');
          value(inside);
        } else {
          value(pointer + '/' + i);
        }
        space();
      }
      at++;
    } else if (text[at] === '"') {
      string();
    } else {
      const found = /^[-+\w.]+/.exec(text.slice(at));
      if (!found) {
        throw new Error('value');
      }
      at += found[0].length;
    }
  };
  try {
    value('');
  } catch (e) { /* what was found so far is right */
  }
  return out;
}

/* The line of a pointer, or of the nearest parent that stands in the text. */
export function lineOf(found, pointer) {
  for (let p = pointer;; p = p.slice(0, p.lastIndexOf('/'))) {
    if (found.has(p)) {
      return found.get(p);
    }
    if (p === '' || !p.includes('/')) {
      return found.get('') ?? 0;
    }
  }
}

/* [[class, text]] of one line. */
export function colour(line) {
  const out = [];
  for (const found of line.matchAll(/("(?:[^"\\]|\\.)*"?)(\s*:)?|-?\d[\d.eE+-]*|true|false|null|\s+|./g)) {
    const [all, text, colon] = found;
    if (text !== undefined) {
      out.push([colon ? 'j-key' : 'j-string', text]);
      if (colon) {
        out.push(['j-punct', colon]);
      }
    } else {
      out.push([/^-?\d/.test(all) ? 'j-number' : /^[tfn]\w/.test(all) ? 'j-word' : 'j-punct', all]);
    }
  }
  return out;
}

export function getAt(value, pointer) {
  return pointer.split('/').slice(1).reduce(
      (v, k) => (v === null || v === undefined ? undefined : v[k.replace(/~1/g, '/').replace(/~0/g, '~')]), value);
}

/* A copy with a value put in (undefined: taken out, with parents that become empty). */
export function setAt(value, pointer, wanted) {
  const keys = pointer.split('/').slice(1);
  const copy = value !== null && typeof value === 'object' ? (Array.isArray(value) ? value.slice() : {...value}) : {};
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
