/* Fields of the form. A field belongs to a JSON pointer; a number that was typed is passed on as a
   number, anything else as a text, so that the service's own check says what is wrong. An error
   stays at the field until it is corrected. */
import {fill, h} from '../elements/dom.js';
import {icon} from '../elements/icons.js';
import {capital, whole} from '../text/format.js';

/** @typedef {(pointer: string, value: unknown) => void} OnChange */
/**
 * @typedef {{kind?: 'text' | 'number' | 'list' | 'names' | 'words', help?: string, aside?: string,
 *            placeholder?: string, list?: string, onChange: OnChange}} InputOptions
 */
/** @typedef {{choices: [string, string][], help?: string, onChange: OnChange}} SelectOptions */

let serial = 0;

/**
 * Whether JavaScript's number equals the written one. A number out of range would be sent as null
 * or 0, and a whole number with many digits as its neighbour.
 * @param {string} text of a number
 */
function exact(text) {
  const n = Number(text);
  if (/^[-+]?\d+$/.test(text)) {
    return Number.isFinite(n) && BigInt(text.replace('+', '')) === BigInt(n);
  }
  return Number.isFinite(n) && (n !== 0 || !/[1-9]/.test(text.split(/e/i)[0]));
}

/**
 * A number where the text is one, undefined where there is none, else the text.
 * @param {string} text
 */
export function parseNumber(text) {
  const t = text.trim();
  if (t === '') {
    return undefined;
  }
  return /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(t) && exact(t) ? Number(t) : t;
}

/**
 * @template T
 * @param {string} text
 * @param {(item: string) => T} item
 */
function parseList(text, item) {
  const parts = (text.match(/\{[^}]*\}|[^,]+/g) || []).map((p) => p.trim()).filter(Boolean);
  return parts.length ? parts.map(item) : undefined;
}

/* How a text is read, by the kind of its field. */
/** @type {{[kind: string]: (text: string) => unknown}} */
const READ = {
  text: (t) => (t === '' ? undefined : t),
  number: parseNumber,
  list: (t) => parseList(t, parseNumber),
  names: (t) => parseList(t, String),
  words: (t) => t.match(/\S+/g) || undefined
};

/** @param {unknown} value */
function textOf(value) {
  if (value === undefined || value === null) {
    return '';
  }
  if (Array.isArray(value)) {
    return value.map((v) => (typeof v === 'object' ? JSON.stringify(v) : v)).join(', ');
  }
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** @typedef {'bad' | 'warn'} Tone of an error, of a warning */

/* The place of a field's errors and warnings. */
export class FaultText {
  /** @param {string} [id] */
  constructor(id) {
    this.node = h('p', {class: 'fault', id, hidden: true});
  }

  /**
   * @param {string[]} messages those of several values of a field may be the same
   * @param {Tone} [tone]
   */
  show(messages, tone = 'bad') {
    const some = messages.length > 0;
    const text = [...new Set(messages)].join(' ');
    this.node.hidden = !some;
    this.node.dataset.tone = tone;
    fill(this.node,
        some && [tone === 'bad' ? icon('cross', 10) : icon('warn', 12), h('span', {text})]);
  }
}

/**
 * A field with its label, help and errors.
 * @template {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} C
 */
export class Field {
  /**
   * @param {string} pointer
   * @param {string} label
   * @param {string} aside
   * @param {string} help
   * @param {C} control
   */
  constructor(pointer, label, aside, help, control) {
    const id = 'f' + ++serial;
    control.id = id;
    control.setAttribute('aria-describedby', id + '-help ' + id + '-fault');
    this.pointer = pointer;
    this.control = control;
    /** The kind of catalogue entry whose parameter this field is. */
    this.kind = '';
    this.errors = new FaultText(id + '-fault');
    this.note = h('p', {class: 'help', id: id + '-help', text: help});
    const name = h('label', {'for': id}, h('span', {text: label}),
        aside && h('span', {class: 'quiet', text: aside}));
    this.node =
        h('div', {class: 'field', data: {pointer}}, name, control, this.note, this.errors.node);
  }

  /**
   * @param {string[]} messages
   * @param {Tone} [tone]
   */
  fault(messages, tone = 'bad') {
    const bad = messages.length > 0 && tone === 'bad';
    this.node.classList.toggle('bad', bad);
    this.control.setAttribute('aria-invalid', String(bad));
    this.errors.show(messages, tone);
  }

  /** @param {any} value */
  show(value) {
    this.control.value = textOf(value);
  }
}

/** @extends {Field<HTMLInputElement>} */
export class Input extends Field {
  /**
   * @param {string} pointer
   * @param {string} label
   * @param {InputOptions} options
   */
  constructor(pointer, label, options) {
    const {kind = 'text', help = '', aside = '', placeholder = '', list, onChange} = options;
    const input = () => onChange(pointer, READ[kind](control.value));
    /** @type {HTMLInputElement} */
    const control = h('input', {
      type: 'text',
      autocomplete: 'off',
      spellcheck: 'false',
      inputmode: kind === 'number' ? 'decimal' : null,
      placeholder,
      list,
      on: {input}
    });
    super(pointer, label, aside, help, control);
  }

  /* Never while somebody types there. */
  /** @param {unknown} value */
  show(value) {
    const text = textOf(value);
    if (document.activeElement !== this.control && this.control.value !== text) {
      this.control.value = text;
    }
  }
}

/** @extends {Field<HTMLSelectElement>} */
export class Select extends Field {
  /**
   * @param {string} pointer
   * @param {string} label
   * @param {SelectOptions} options
   */
  constructor(pointer, label, {choices, help = '', onChange}) {
    const change = () => onChange(pointer, control.value);
    /** @type {HTMLSelectElement} */
    const control =
        h('select', {on: {change}}, choices.map(([value, text]) => h('option', {value, text})));
    super(pointer, label, '', help, control);
  }

  /**
   * A value that is no choice becomes one.
   * @param {string | undefined} value
   */
  show(value) {
    if (value !== undefined && ![...this.control.options].some((o) => o.value === value)) {
      this.control.append(h('option', {value, text: value}));
    }
    this.control.value = String(value);
  }
}

/** @extends {Field<HTMLInputElement>} */
class Check extends Field {
  /**
   * @param {string} pointer
   * @param {string} label
   * @param {string} help
   * @param {boolean} fallback
   * @param {OnChange} onChange
   */
  constructor(pointer, label, help, fallback, onChange) {
    const change = () => onChange(pointer, control.checked);
    /** @type {HTMLInputElement} */
    const control = h('input', {type: 'checkbox', on: {change}});
    super(pointer, label, '', help, control);
    this.fallback = fallback;
    this.node.classList.add('tick');
  }

  /** @param {unknown} value */
  show(value) {
    this.control.checked = value === undefined ? this.fallback : Boolean(value);
  }
}

/* A choice whose default stays out of the spec. */
class Choice extends Select {
  /**
   * @param {string} pointer
   * @param {string} label
   * @param {Api.Parameter} p
   * @param {OnChange} onChange
   */
  constructor(pointer, label, p, onChange) {
    super(pointer, label, {
      choices: (p.choices || []).map((c) => [c, c]),
      help: p.help,
      onChange: (at, v) => onChange(at, v === p.default ? undefined : v)
    });
    this.fallback = String(p.default);
  }

  /** @param {string} value */
  show(value) {
    super.show(value ?? this.fallback);
  }
}

/** @param {Api.Parameter} p */
function rangeText({min, max}) {
  return typeof min === 'number' && typeof max === 'number' && max < 1e9
      ? 'from ' + min + ' to ' + (max < 1000 ? max : whole(max))
      : '';
}

/**
 * The field of a parameter of the catalogue.
 * @param {string} pointer
 * @param {Api.Parameter} p
 * @param {OnChange} onChange
 */
export function parameter(pointer, p, onChange) {
  const label = capital(p.name.replace(/_/g, ' '));
  if (p.type === 'boolean') {
    return new Check(pointer, label, p.help || '', Boolean(p.default), onChange);
  }
  if (p.type === 'enum') {
    return new Choice(pointer, label, p, onChange);
  }
  const lists = p.type === 'integers' ? 'list' : 'number';
  return new Input(pointer, label, {
    kind: p.type === 'names' ? 'names' : lists,
    help: p.help,
    aside: rangeText(p),
    placeholder: p.default === undefined ? '' : String(p.default),
    onChange
  });
}
