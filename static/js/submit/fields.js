/* Fields of the form. A field belongs to a JSON pointer; what was typed is handed over as a number where it is one and
   as it is where it is not, so that the service's own check says what is wrong. Errors stay at the field until it is
   right. */
import {fill, h} from '../dom.js';
import {capital} from '../format.js';
import {icon} from '../icons.js';

let serial = 0;

function frame(pointer, label, aside, help, control) {
  const id = 'f' + ++serial;
  control.id = id;
  const fault = h('p', {class: 'fault', id: id + '-fault', hidden: true});
  const note = h('p', {class: 'help', id: id + '-help', text: help || ''});
  control.setAttribute('aria-describedby', id + '-help ' + id + '-fault');
  const node = h('div', {class: 'field', data: {pointer}}, h('label', {for: id
                 }, h('span', {text: label}), aside && h('span', {class: 'quiet', text: aside})), control, note, fault);
  return {
    node,
    pointer,
    control,
    note,
    fault(messages) {
      const bad = messages.length > 0;
      node.classList.toggle('bad', bad);
      control.setAttribute('aria-invalid', String(bad));
      fault.hidden = !bad;
      fill(fault, bad && [icon('cross', 10), h('span', {text: messages.join(' ')})]);
    }
  };
}

export function parseNumber(text) {
  const t = text.trim();
  return t === '' ? undefined : /^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$/.test(t) ? Number(t) : t;
}

export function parseList(text, item = parseNumber) {
  const parts = text.split(',').map((p) => p.trim()).filter(Boolean);
  return parts.length ? parts.map(item) : undefined;
}

/* kinds: text, number, list, names */
export function input(pointer, label, {kind = 'text', help = '', aside = '', placeholder = '', list, onChange}) {
  const control = h('input', {
    type: 'text',
    autocomplete: 'off',
    spellcheck: 'false',
    inputmode: kind === 'number' ? 'decimal' : null,
    placeholder,
    list,
    on: {
      input: () => {
        const read = {
          text: (t) => (t === '' ? undefined : t),
          number: parseNumber,
          list: (t) => parseList(t),
          names: (t) => parseList(t, String)
        }[kind];
        onChange(pointer, read(control.value));
      }
    }
  });
  const f = frame(pointer, label, aside, help, control);
  f.show = (value) => {
    const text = value === undefined || value === null ? '' :
        Array.isArray(value)                           ? value.join(', ') :
        typeof value === 'object'                      ? JSON.stringify(value) :
                                                         String(value);
    if (document.activeElement !== control && control.value !== text) {
      control.value = text;
    }
  };
  return f;
}

export function select(pointer, label, {choices, help = '', onChange}) {
  const control =
      h('select', {on: {change: () => onChange(pointer, control.value)}},
        choices.map(([value, text]) => h('option', {value, text})));
  const f = frame(pointer, label, '', help, control);
  f.show = (value) => {
    if (value !== undefined && ![...control.options].some((o) => o.value === value)) {
      control.append(h('option', {value, text: value}));
    }
    control.value = value;
  };
  return f;
}

export function check(pointer, label, {help = '', onChange}) {
  const control = h('input', {type: 'checkbox', on: {change: () => onChange(pointer, control.checked)}});
  const f = frame(pointer, label, '', help, control);
  f.node.classList.add('tick');
  f.show = (value, fallback) => {
    control.checked = value === undefined ? Boolean(fallback) : Boolean(value);
  };
  return f;
}

/* A parameter of the catalogue. */
export function parameter(pointer, p, onChange) {
  const label = capital(p.name.replace(/_/g, ' '));
  const range =
      typeof p.min === 'number' && typeof p.max === 'number' && p.max < 1e9 ? 'from ' + p.min + ' to ' + p.max : '';
  if (p.type === 'boolean') {
    const f = check(pointer, label, {help: p.help, onChange});
    const show = f.show;
    f.show = (v) => show(v, p.default);
    return f;
  }
  if (p.type === 'enum') {
    const f = select(pointer, label, {
      choices: p.choices.map((c) => [c, c]),
      help: p.help,
      onChange: (at, v) => onChange(at, v === p.default ? undefined : v)
    });
    const show = f.show;
    f.show = (v) => show(v ?? p.default);
    return f;
  }
  const kind = p.type === 'names' ? 'names' : p.type === 'integers' ? 'list' : 'number';
  return input(
      pointer, label,
      {kind, help: p.help, aside: range, placeholder: p.default === undefined ? '' : String(p.default), onChange});
}
