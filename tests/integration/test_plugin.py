"""A plug-in is accepted only if it was built from the same interface as the worker
(kernels/plugin.h).

The plug-ins here are a few lines of C whose `open` says that it was called. Each is built against a
copy of the headers, with the identity that kernels/plugin.mk computes for that copy; some copies
are changed first, in ways that leave every struct as large as it was."""
import json
import os
import shutil
import subprocess

import pytest

from programs import BUILD, ROOT

FAKE = """
#include <stdio.h>
#include "kernels/plugin.h"
static struct device *open_fake(const char *args, struct err *e)
{
    e->code = ERR_DEVICE;
    snprintf(e->message, sizeof e->message, "the fake was asked for '%s'", args);
    return NULL;
}
const struct plugin evenstep_device_plugin = {PLUGIN_IDENTITY, open_fake};
"""

FETCH = (
    "int (*fetch)(struct dev_replica *r, enum dev_block b, size_t first, size_t n, struct err *e);")
CHANGES = {
    "two function pointers are swapped": ("kernels/device.h", FETCH,
                                          FETCH.replace("fetch", "store")),
    "two fields are swapped": ("kernels/device.h", "enum dev_block { DEV_PARAMS, DEV_GRADS,",
                               "enum dev_block { DEV_GRADS, DEV_PARAMS,"),
    "a field means something else": ("kernels/device.h", "/* sum over the samples;",
                                     "/* mean over the samples;"),
    "a name of the catalogue moved": ("job/spec/catalog.def", "ENTRY(LAYER, TANH, ",
                                      "ENTRY(LAYER, TANG, "),
    "random choices are drawn otherwise": ("kernels/mask.h", "#endif",
                                           "#define MASK_OTHER 1\n#endif"),
}


def build(folder, change=None):
    """A fake plug-in from a copy of the headers with this `change`."""
    for room in ("common", "job", "kernels"):
        shutil.copytree(ROOT / room, folder / room)
    if change:
        file, old, new = change
        text = (folder / file).read_text()
        assert old in text, f"{file} has no {old!r}"
        if new == FETCH.replace("fetch", "store"):  # and the other way round
            assert text.count(new) == 1
            text = text.replace(new, "OTHER")
        text = text.replace(old, new).replace("OTHER", old)
        (folder / file).write_text(text)
    (folder / "fake.c").write_text(FAKE)
    (folder / "makefile").write_text("CC := gcc\nBUILD := build\ninclude kernels/plugin.mk\n")
    env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL", "BUILD")}
    make = subprocess.run(["make", "-s", "plugin-identity"], cwd=folder, env=env,
                          capture_output=True, text=True, check=True)
    identity = make.stdout.strip()
    assert len(identity) == 64
    subprocess.run(["gcc", "-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-I.",
                    f'-DPLUGIN_IDENTITY="{identity}"', "fake.c", "-o", "fake.so"],
                   cwd=folder, check=True)
    return folder / "fake.so"


def probe(plugin):
    env = {**os.environ, "EVENSTEP_CUDA_PLUGIN": str(plugin), "EVENSTEP_CUDA_DRIVER": str(plugin)}
    done = subprocess.run([BUILD / "evenstep-worker", "--probe", "cuda:3"], env=env,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["error"]


def test_a_plug_in_of_the_same_interface_is_loaded(tmp_path):
    assert probe(build(tmp_path / "same")) == "the fake was asked for '3'"


@pytest.mark.parametrize("what", CHANGES)
def test_a_plug_in_of_another_interface_is_refused_in_a_sentence(tmp_path, what):
    plugin = build(tmp_path / "other", CHANGES[what])
    assert probe(plugin) == (
        f"no GPU can be used here: the plug-in '{plugin}' is of another version than this program "
        "(the headers that both share differ)")


def test_the_same_headers_give_the_same_identity_wherever_they_are(tmp_path):
    one, two = build(tmp_path / "one"), build(tmp_path / "two")
    assert probe(one) == probe(two)
