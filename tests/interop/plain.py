"""Artifacts and networks in plain NumPy, in PyTorch's conventions: what docs and other programs may
rely on, written down a second time.

    head, tensors = load(path)                 safetensors, read byte by byte
    network = json.loads(head["network"])      layers with every default, from the metadata
    logits = forward(network, tensors, x)      x: [n, h, w, c] or [n, k], normalised as
                                               head["normalize"] says

Convolutions are O,I,H,W; a dense layer's input is flattened C,H,W; batch norm uses the running
statistics; average pools count their padding; lrn is torch.nn.LocalResponseNorm's. Nothing here
shares a line with the C code: that is what makes agreement worth something."""
import json
import struct

import numpy as np


def load(path):
    blob = path.read_bytes() if hasattr(path, "read_bytes") else bytes(path)
    n = struct.unpack("<Q", blob[:8])[0]
    head = json.loads(blob[8:8 + n])
    meta = head.pop("__metadata__", {})
    tensors, covered = {}, 0
    for name, t in sorted(head.items(), key=lambda item: item[1]["data_offsets"]):
        first, last = t["data_offsets"]
        assert t["dtype"] == "F32" and first == covered, f"{name} leaves a gap"
        tensors[name] = np.frombuffer(blob, "<f4", (last - first) // 4, 8 + n + first).reshape(
            t["shape"])
        covered = last
    assert covered == len(blob) - 8 - n
    return meta, tensors


def save(path, tensors, meta=None):
    """As another program would: no checksum, no kind."""
    head, at = {"__metadata__": {"format": "pt", **(meta or {})}}, 0
    for name, t in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + 4 * t.size]}
        at += 4 * t.size
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text
                     + b"".join(np.ascontiguousarray(t, "<f4").tobytes() for t in tensors.values()))


def normalise(x, meta):
    """Bytes [n, h, w, c] as the artifact's metadata says: crop from the middle, then x/255, then
    mean and deviation."""
    if meta.get("crop"):
        h, w = json.loads(meta["crop"])
        top, left = (x.shape[1] - h) // 2, (x.shape[2] - w) // 2
        x = x[:, top:top + h, left:left + w]
    x = x.astype(np.float32) / np.float32(255)
    if meta["normalize"] == "unit":
        return x
    if meta["normalize"] == "picture":
        axes = tuple(range(1, x.ndim))
        count = x[0].size
        x = x.astype(np.float64)
        deviation = np.maximum(x.std(axis=axes, keepdims=True), 1 / (255 * np.sqrt(count)))
        return ((x - x.mean(axis=axes, keepdims=True)) / deviation).astype(np.float32)
    n = json.loads(meta["normalize"])
    return (x - np.float32(n["mean"])) / np.float32(n["deviation"])


# ---- layers: [n, c, h, w] or [n, k] --------------------------------------------------------------


def pair(v):
    return (v, v) if np.isscalar(v) else tuple(v)


def windows(x, size, stride, padding, fill):
    (kh, kw), (sh, sw), (ph, pw) = pair(size), pair(stride), pair(padding)
    x = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)), constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(x, (kh, kw), (2, 3))[:, :, ::sh, ::sw]


def conv2d(l, p, x):
    w = windows(x, l["kernel"], l["stride"], l["padding"], 0)
    n, c, h, k = w.shape[:4]
    rows = np.ascontiguousarray(w.transpose(0, 2, 3, 1, 4, 5)).reshape(n * h * k, -1)
    out = rows @ p["weight"].reshape(p["weight"].shape[0], -1).T
    if "bias" in p:
        out = out + p["bias"]
    return out.reshape(n, h, k, -1).transpose(0, 3, 1, 2)


def dense(l, p, x):
    out = x.reshape(len(x), -1) @ p["weight"].T
    return out + p["bias"] if "bias" in p else out


def batch_norm(l, p, x):
    side = (1, -1) + (1,) * (x.ndim - 2)
    scale = p["weight"] / np.sqrt(p["running_var"] + np.float32(l["eps"]))
    return (x - p["running_mean"].reshape(side)) * scale.reshape(side) + p["bias"].reshape(side)


def lrn(l, p, x):
    n, half = l["window"], l["window"] // 2
    squares = np.pad(x * x, ((0, 0), (half, (n - 1) // 2), (0, 0), (0, 0)))
    total = sum(squares[:, i:i + x.shape[1]] for i in range(n))
    return x / (np.float32(l["k"]) + np.float32(l["alpha"] / n) * total) ** np.float32(l["beta"])


LAYERS = {
    "dense": dense, "conv2d": conv2d, "batch_norm": batch_norm, "lrn": lrn, "max_pool": lambda l, p,
    x: windows(x, l["size"], l["stride"], l["padding"], -np.inf).max((4, 5)),
    "average_pool": lambda l, p,
    x: windows(x, l["size"], l["stride"], l["padding"], 0).mean((4, 5)),
    "global_average_pool": lambda l, p, x: x.mean((2, 3)),
    "relu": lambda l, p, x: np.maximum(x, 0),
    "leaky_relu": lambda l, p, x: np.where(x > 0, x, np.float32(l["slope"]) * x),
    "tanh": lambda l, p, x: np.tanh(x),
    "sigmoid": lambda l, p, x: 1 / (1 + np.exp(-x)),
    "dropout": lambda l, p, x: x,
    "flatten": lambda l, p, x: x.reshape(len(x), -1),
    "add": lambda l, p, *xs: sum(xs[1:], xs[0]),
    "concat": lambda l, p, *xs: np.concatenate(xs, 1),
}


def forward(network, tensors, x, chunk=256):
    """Logits [n, outputs]."""
    out = [run(network, tensors, x[i:i + chunk]) for i in range(0, len(x), chunk)]
    return np.concatenate(out)


def run(network, tensors, x):
    x = np.asarray(x, np.float32)
    values = {"input": x.transpose(0, 3, 1, 2) if x.ndim == 4 else x}
    last = "input"
    for l in network["layers"]:
        name = l["name"]
        own = {k[len(name) + 1:]: v for k, v in tensors.items() if k.rsplit(".", 1)[0] == name}
        values[name] = LAYERS[l["type"]](l, own, *[values[i] for i in l.get("inputs", [last])])
        last = name
    return values[last].reshape(len(x), -1)


def count_right(logits, labels, tie=1e-4):
    """Right answers, and how many pictures have two best answers within `tie`: there, two programs
    may differ."""
    best = np.sort(logits, 1)
    return int((logits.argmax(1) == labels).sum()), int((best[:, -1] - best[:, -2] < tie).sum())


# ---- data ----------------------------------------------------------------------------------------


def read_idx(folder, part):
    """(pictures [n, h, w, 1], labels) of an IDX data set; part: "train" or "t10k"."""
    import gzip
    arrays = []
    for kind in ("images-idx3", "labels-idx1"):
        file = folder / f"{part}-{kind}-ubyte"
        blob = file.read_bytes() if file.exists() else gzip.decompress(
            (folder / (file.name + ".gz")).read_bytes())
        rank = blob[3]
        arrays.append(
            np.frombuffer(blob, np.uint8, offset=4 + 4 * rank).reshape(
                struct.unpack(f">{rank}I", blob[4:4 + 4 * rank])))
    return arrays[0][..., None], arrays[1].astype(int)


def write_idx(folder, part, x, y):
    folder.mkdir(parents=True, exist_ok=True)
    for kind, a in (("images-idx3", x.reshape(x.shape[:3])),
                    ("labels-idx1", np.asarray(y, np.uint8))):
        (folder / f"{part}-{kind}-ubyte").write_bytes(
            bytes([0, 0, 8, a.ndim]) + struct.pack(f">{a.ndim}I", *a.shape)
            + a.astype(np.uint8).tobytes())
