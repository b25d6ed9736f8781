/* The lines that load a trained model in PyTorch: the same network of torch.nn modules, named as
   the file's tensors are, the file read into it, and what its input looks like. Made of the file's
   own header, so they fit any network that can be trained here. Pure, tested in
   tests/browser/test_pytorch.py, where PyTorch runs them. */

/**
 * @typedef {{type: string, name: string, inputs?: string[], [parameter: string]: unknown}} Layer
 */
/** @typedef {{input: number[], layers: Layer[]}} Network */
/** @typedef {{[tensor: string]: {shape: number[]}}} Tensors */
/** @typedef {{network: Network, normalize: unknown, tensors: Tensors}} ModelFile */
/** @typedef {{layer: Layer, inputs: string[], id: string, make: string, flat: boolean}} Made */

/* conv1, dense2, …: names that no attribute of torch.nn.Module has, but for one. */
const NUMBERED = /^(?!bfloat16$)[A-Za-z_]+\d+$/;
const HEADER = 8; /* bytes of its length */

/**
 * Reads a file's first bytes. file null: `needed` bytes are needed.
 * @param {ArrayBuffer} bytes
 * @returns {{file: ModelFile | null, needed: number}}
 */
export function headerOf(bytes) {
  const needed = HEADER + Number(new DataView(bytes).getBigUint64(0, true));
  if (bytes.byteLength < needed) {
    return {file: null, needed};
  }
  const text = new TextDecoder().decode(new Uint8Array(bytes, HEADER, needed - HEADER));
  const {__metadata__: meta, ...tensors} = JSON.parse(text);
  const json = (/** @type {string} */ t) => {
    try {
      return JSON.parse(t);
    } catch (e) {
      return t;
    }
  };
  const file = {network: json(meta.network), normalize: json(meta.normalize), tensors};
  return {file, needed};
}

/** @param {unknown} v a number, a flag, or a pair of numbers */
function python(v) {
  if (typeof v === 'boolean') {
    return v ? 'True' : 'False';
  }
  return Array.isArray(v) ? '(' + v.join(', ') + ')' : String(v);
}

/**
 * The arguments of a window.
 * @param {Layer} l
 * @param {string} size
 */
const windowOf = (l, size) => [l[size], l.stride, l.padding].map(python).join(', ');

/**
 * How each layer is made: of the layer, its weight's shape, and whether its input has rows and
 * columns.
 * @type {{[type: string]: (l: Layer, shape: number[], flat: boolean) => string}}
 */
const MODULES = {
  conv2d: (l, [out, input]) => 'nn.Conv2d(' + input + ', ' + out + ', ' + windowOf(l, 'kernel') +
      ', bias=' + python(l.bias) + ')',
  dense: (l, [out, input], flat) => {
    const made = 'nn.Linear(' + input + ', ' + out + ', bias=' + python(l.bias) + ')';
    return flat ? made : 'Flat(' + input + ', ' + out + ', bias=' + python(l.bias) + ')';
  },
  batch_norm: (l, [channels], flat) => 'nn.BatchNorm' + (flat ? '1d' : '2d') + '(' + channels +
      ', eps=' + python(l.eps) + ', momentum=' + python(l.momentum) + ')',
  max_pool: (l) => 'nn.MaxPool2d(' + windowOf(l, 'size') + ')',
  average_pool: (l) => 'nn.AvgPool2d(' + windowOf(l, 'size') + ')',
  global_average_pool: () => 'nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())',
  relu: () => 'nn.ReLU()',
  tanh: () => 'nn.Tanh()',
  sigmoid: () => 'nn.Sigmoid()',
  leaky_relu: (l) => 'nn.LeakyReLU(' + python(l.slope) + ')',
  dropout: (l) => 'nn.Dropout(' + python(l.rate) + ')',
  flatten: () => 'nn.Flatten()',
  lrn: (l) =>
      'nn.LocalResponseNorm(' + [l.window, l.alpha, l.beta, l.k].map(python).join(', ') + ')',
  add: () => '',
  concat: () => ''
};
const FLATTENS = ['flatten', 'dense', 'global_average_pool'];

/**
 * Layers as modules, in their order.
 * @param {ModelFile} file
 * @returns {Made[]}
 */
function modulesOf({network, tensors}) {
  /** @type {Map<string, boolean>} */
  const flat = new Map([['input', network.input.length === 1]]);
  let last = 'input';
  return network.layers.map((layer) => {
    const inputs = layer.inputs || [last];
    const isFlat = inputs.every((i) => flat.get(i));
    const make = MODULES[layer.type];
    if (!make) {
      throw new Error('a layer of type ' + layer.type + ' is not known here');
    }
    last = layer.name;
    flat.set(last, isFlat || FLATTENS.includes(layer.type));
    return {
      layer,
      inputs,
      flat: isFlat,
      id: idOf(layer.name),
      make: make(layer, tensors[layer.name + '.weight']?.shape || [], isFlat)
    };
  });
}

/**
 * The attribute of a layer in a class of its own: no name of nn.Module begins so.
 * @param {string} name
 */
const idOf = (name) => 'layer_' + name.replace(/[^A-Za-z0-9_]/g, '_');

/** @param {Made[]} made */
function sequential(made) {
  const rows = made.map(({layer, make}) => '    ("' + layer.name + '", ' + make + '),');
  return ['net = nn.Sequential(OrderedDict([', ...rows, ']))'];
}

/** @param {Made} made */
function forwardLine({layer, inputs, id}) {
  const [first, ...rest] = inputs.map((i) => (i === 'input' ? 'x' : 'y_' + idOf(i)));
  const joined = {
    add: [first, ...rest].join(' + '),
    concat: 'torch.cat([' + [first, ...rest].join(', ') + '], 1)'
  }[layer.type];
  return '        y_' + id + ' = ' + (joined || 'self.' + id + '(' + first + ')');
}

/** @param {Made[]} made */
function graph(made) {
  const last = made[made.length - 1];
  return [
    'class Net(nn.Module):', '    def __init__(self):', '        super().__init__()',
    ...made.filter((m) => m.make).map((m) => '        self.' + m.id + ' = ' + m.make), '',
    '    def forward(self, x):', ...made.map(forwardLine), '        return y_' + last.id, '',
    'net = Net()'
  ];
}

/* A dense layer that takes its input with rows and columns. */
const FLAT = [
  'class Flat(nn.Linear):', '    def forward(self, x):',
  '        return super().forward(x.flatten(1))', ''
];

/**
 * Reading the file into the modules. Running statistics come with a count in PyTorch, which the
 * file does not have.
 * @param {Made[]} made
 * @param {string} name
 * @param {boolean} chain whether modules have the names of the layers
 */
function loading(made, name, chain) {
  const counted = made.some((m) => m.layer.type === 'batch_norm');
  return [
    'with open("' + name + '", "rb") as f:  # a safetensors file',
    '    size = int.from_bytes(f.read(8), "little")',
    '    header, data = json.loads(f.read(size)), f.read()', 'tensors = {}',
    'for key, t in header.items():', '    if key != "__metadata__":',
    '        values = bytearray(data[slice(*t["data_offsets"])])', ...(chain ? [] : [
      '        layer, _, leaf = key.rpartition(".")',
      '        key = "layer_" + re.sub(r"[^A-Za-z0-9_]", "_", layer) + "." + leaf'
    ]),
    '        tensors[key] = torch.frombuffer(values, dtype=torch.float32).reshape(t["shape"])',
    ...(counted ? [
      'missing, unexpected = net.load_state_dict(tensors, strict=False)',
      'assert not unexpected and all("num_batches_tracked" in key for key in missing)'
    ]
                : ['net.load_state_dict(tensors)']),
    'net.eval()'
  ];
}

/**
 * How samples become the network's input, in a comment.
 * @param {ModelFile} file
 */
function inputNote({network, normalize}) {
  const [rows, columns, channels] = network.input;
  const shape = columns ? [channels, rows, columns] : [rows];
  const said = {unit: 'bytes divided by 255'}[String(normalize)] ||
      'normalised as in training: ' + JSON.stringify(normalize);
  return '# x: floats [samples, ' + shape.join(', ') + '], ' + said;
}

/**
 * The whole program.
 * @param {ModelFile} file
 * @param {string} name of the file
 */
export function pytorchLines(file, name) {
  const made = modulesOf(file);
  const chain = made.every((m, i) => m.make && NUMBERED.test(m.layer.name) &&
          m.inputs.length === 1 && m.inputs[0] === (i ? made[i - 1].layer.name : 'input'));
  const flat = made.some((m) => m.make.startsWith('Flat('));
  return [
    'import json', chain ? 'from collections import OrderedDict' : 'import re', '', 'import torch',
    'from torch import nn', '', ...(flat ? FLAT : []), ...(chain ? sequential(made) : graph(made)),
    ...loading(made, name, chain), '', inputNote(file),
    '# net(x): one row of ' + lastUnits(file) + ' outputs for each sample'
  ].join('\n') +
      '\n';
}

/** @param {ModelFile} file */
function lastUnits({network, tensors}) {
  const last = network.layers[network.layers.length - 1];
  return tensors[last.name + '.weight']?.shape[0] ?? 'its';
}
