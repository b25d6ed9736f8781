"""Rows as the programs pack and print them, by the same table as the C code (job/row.def). Only
dtype() needs numpy, so that benchmarks can use this under an interpreter without it."""
import re
import struct

from programs import ROOT

FORMATS = {"INT64": "<q", "UINT64": "<Q", "INT32": "<i", "INT16": "<h", "DOUBLE": "<d",
           "FLOAT": "<f", "FLOAT_OR_NULL": "<f"}
COLUMNS = [(name, FORMATS[kind], int(byte))
           for name, kind, byte in re.findall(r"^COLUMN\((\w+), (\w+), (\d+),",
                                              (ROOT / "job" / "row.def").read_text(), re.M)]
BYTES = max(byte + struct.calcsize(form) for _, form, byte in COLUMNS)


def dtype():
    """The numpy type of a packed row, for numpy.fromfile."""
    import numpy as np
    names, formats, offsets = zip(*COLUMNS)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": BYTES})


def packed(blob):
    """The rows of a history's file, as dicts."""
    return [{name: struct.unpack_from(form, blob, at + byte)[0] for name, form, byte in COLUMNS}
            for at in range(0, len(blob) - BYTES + 1, BYTES)]


def printed(lines):
    """The rows among the lines of `evenstep-worker --local`, which are split at their commas, as
    dicts."""
    return [{name: int(text) if form[1] in "qQih" else float(text)
             for (name, form, _), text in zip(COLUMNS, line[1:])}
            for line in lines if line[0] == "row"]
