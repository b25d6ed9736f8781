"""The data of the tables: the first samples of a set, as npy, so that a job of 10,000 samples needs
no option of its own.

Where they come from: EVENSTEP_DATA, else data/ and ../shared/data beside the project. CIFAR-10 is
read in its binary version; where only `unpack.py` stands (it decodes JPEG copies), that is run
once. What is cut out goes into the work folder; nothing of it is ever committed."""
import gzip
import os
import shutil
import subprocess

from simulator import ROOT, give_up


def roots():
    found = os.environ.get("EVENSTEP_DATA", "").split(":") + [
        os.path.join(ROOT, "data"), os.path.join(os.path.dirname(ROOT), "shared", "data"),
        "/work/shared/data"]
    return [r for r in found if r and os.path.isdir(r)]


def find(name):
    for r in roots():
        if os.path.isdir(os.path.join(r, name)):
            return os.path.join(r, name)
    give_up(
        f"there is no data set '{name}': put it into data/{name}, or name its folder's folder in "
        f"EVENSTEP_DATA (looked in {', '.join(roots()) or 'nothing'})")


def write_npy(path, kind, shape, body):
    head = (
        f"{{'descr': '{kind}', 'fortran_order': False, 'shape': "
        f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''}), }}")
    head += " " * (-(len(head) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode() + body)


def idx(folder, part, n):
    def read(name, skip, each):
        path = os.path.join(folder, f"{part}-{name}-ubyte")
        with (gzip.open(path + ".gz") if os.path.exists(path + ".gz") else open(path, "rb")) as f:
            body = f.read()[skip:]
        return body[:n * each] if n else body
    x, y = read("images-idx3", 16, 784), read("labels-idx1", 8, 1)
    return x, y, (28, 28, 1)


def cifar(folder, part, n, unpacked):
    if not os.path.exists(os.path.join(folder, "data_batch_1.bin")):
        if not os.path.exists(os.path.join(folder, "unpack.py")):
            give_up(f"'{folder}' holds no data_batch_1.bin")
        if not os.path.exists(os.path.join(unpacked, "batches.meta.txt")):
            python = next(
                (p for p in ("/usr/bin/python3", shutil.which("python3")) if p
                 and subprocess.run([p, "-c", "import PIL"], capture_output=True).returncode == 0),
                None)
            if not python:
                give_up(
                    f"CIFAR-10 in '{folder}' has to be unpacked, which needs Pillow (Debian: "
                    "python3-pil); or put data_batch_1.bin … there")
            subprocess.run([python, os.path.join(folder, "unpack.py"), unpacked], check=True,
                           stdout=subprocess.DEVNULL)
        folder = unpacked
    names = ["test_batch.bin"] if part == "t10k" else [f"data_batch_{i}.bin" for i in range(1, 6)]
    records = b"".join(open(os.path.join(folder, f), "rb").read() for f in names)
    x, y = bytearray(), bytearray()
    for i in range(min(n or 1 << 30, len(records) // 3073)):
        r = records[3073 * i:3073 * (i + 1)]
        y.append(r[0])
        picture = bytearray(3072)
        for c in range(3):
            picture[c::3] = r[1 + 1024 * c:1 + 1024 * (c + 1)]
        x += picture
    return bytes(x), bytes(y), (32, 32, 3)


def cut(name, samples, test_samples, work):
    """The job's `data` for the first samples of a set (0: all), and the folder that it is found
    in."""
    if name == "glyphs":
        return {"format": "glyphs", "samples": samples, "test_samples": test_samples}
    folder = os.path.join(work, "data", f"{name}-{samples or 'all'}-{test_samples or 'all'}")
    if not os.path.exists(os.path.join(folder, "done")):
        source = find(name)
        os.makedirs(folder, exist_ok=True)
        for part, n, before in (("train", samples, ""), ("t10k", test_samples, "test_")):
            x, y, shape = (cifar(source, part, n, os.path.join(work, "data", "cifar-10-unpacked"))
                           if name == "cifar-10" else idx(source, part, n))
            write_npy(os.path.join(folder, before + "x.npy"), "|u1", (len(y), *shape), x)
            write_npy(os.path.join(folder, before + "y.npy"), "|u1", (len(y),), y)
        open(os.path.join(folder, "done"), "w").close()
    return {"format": "npy", "path": os.path.basename(folder)}
