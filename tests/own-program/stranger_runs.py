"""The programs in strangers/ and their runs on real ranks: what test_strangers.py and
test_strangers_killed.py have in common."""

import json

import numpy as np

from compare import bit_identical, difference
from real_rank import run_local

# batch, and how far rounding may carry parameters
PROGRAMS = {
    "accumulate": (24, 5e-6),
    "accumulate_rest": (16, 5e-6),
    "accumulate_sum": (16, 2e-5),
    "adapters": (32, 2e-5),
    "alternating": (16, 2e-5),
    "amp": (96, 5e-3),
    "annotated": (32, 2e-5),
    "averaged": (96, 2e-5),
    "bare_lookahead": (32, 2e-5),
    "boxes": (32, 2e-5),
    "by_hand": (96, 2e-6),
    "chosen_mean": (32, 2e-5),
    "class_weights": (32, 2e-5),
    "closure_step": (32, 2e-5),
    "crf": (32, 2e-5),
    "ctc_speech": (32, 2e-5),
    "data_prefetcher": (32, 2e-5),
    "distill": (32, 2e-5),
    "double_cycle": (32, 2e-6),
    "dqn": (32, 2e-5),
    "early_stopping": (96, 2e-6),
    "filtered": (32, 2e-5),
    "forward_forward": (32, 2e-5),
    "fourier": (32, 2e-5),
    "fractional_schedule": (32, 2e-5),
    "functional": (24, 2e-5),
    "gan": (96, 2e-5),
    "gan_lists": (32, 2e-5),
    "graph_nodes": (96, 2e-5),
    "hand_ema": (32, 2e-5),
    "ignored_labels": (32, 2e-5),
    "in_thread": (32, 2e-5),
    "lazy_schedule": (32, 2e-5),
    "lbfgs": (96, 1e-3),
    "lbfgs_search": (48, 2e-5),
    "like_timm": (32, 2e-5),
    "like_yolo": (32, 2e-5),
    "like_nanogpt": (32, 2e-5),
    "look_first": (32, 2e-5),
    "lookahead": (32, 2e-5),
    "lstm_packed": (32, 2e-5),
    "marks_last": (16, 2e-5),
    "masked_mean": (32, 2e-5),
    "maml": (16, 2e-5),
    "micro_batches": (32, 2e-5),
    "micro_batches_scaled": (32, 2e-5),
    "mingpt": (32, 2e-5),
    "mnist_argparse": (192, 2e-6),
    "molecules": (32, 2e-5),
    "new_optimizer": (32, 2e-5),
    "numpy_mlp": (32, 2e-5),
    "other_first": (32, 2e-5),
    "packed_texts": (32, 2e-5),
    "padded": (96, 2e-5),
    "parametrized": (32, 2e-5),
    "pcgrad": (32, 2e-5),
    "pictures": (32, 2e-5),
    "pinn": (32, 2e-5),
    "polyak": (32, 2e-5),
    "ppo": (32, 2e-5),
    "pruned": (32, 2e-5),
    "pseudo_labels": (32, 2e-5),
    "ranking": (32, 2e-5),
    "sam": (32, 2e-5),
    "seq2seq": (32, 5e-5),
    "skip_gram": (32, 2e-5),
    "sliced": (24, 2e-5),
    "spectral_gan": (32, 2e-5),
    "ssd_multibox": (32, 2e-5),
    "staged": (32, 2e-5),
    "steps": (16, 5e-6),
    "steps_next": (16, 2e-5),
    "steps_not_epochs": (32, 2e-5),
    "tbptt": (32, 2e-5),
    "td3": (32, 2e-5),
    "text_bags": (32, 2e-5),
    "tied_lm": (32, 2e-5),
    "token_batches": (24, 2e-5),
    "trainer": (96, 2e-5),
    "transe": (32, 2e-5),
    "transfer": (96, 2e-5),
    "two_heads": (32, 2e-5),
    "unet": (32, 2e-5),
    "vae_sum": (32, 2e-5),
    "vector_loss": (32, 2e-5),
    "wgan_gp": (32, 5e-5),
    "whole_batches": (32, 2e-5),
    "word_lm": (32, 2e-5),
}
# of an epoch
SAMPLES = {"mnist_argparse": 192, "ppo": 64, "sliced": 90, "look_first": 64, "token_batches": 96,
           "steps_next": 48, "maml": 48}
# of a server's slices none has the rows of the one before
KEEPS_ROWS = {"word_lm"}
# the server's rule of plain SGD has a step's first pass already
STEPS_WITHIN = {"tbptt", "pcgrad", "two_heads"}
# the rule knows no scale
SCALED = {"micro_batches_scaled"}
# a node with smaller slices has more of them, and zip() ends with the other loader
ZIPPED = {"pseudo_labels", "other_first"}
# a server says late which slice comes next
AHEAD = {"data_prefetcher", "marks_last", "like_nanogpt"}
# averages within an epoch of three steps
OFTEN = {"local-sgd": {"k": 2}, "hier-sgd": {"k1": 1, "k2": 2}, "hpsgd": {"k": 2}}
BY_STEPS = {"mingpt", "like_nanogpt", "steps_next", "steps_not_epochs"}


def on_ranks(nursery, name, folder, sizes, strategy, **more):
    """The finished process, and what each program ended with."""
    folder.mkdir(exist_ok=True)
    command = nursery.command("strangers.run", name, folder / "rank")
    done = run_local(command, sizes, strategy, folder, ["--out", str(folder / "job")],
                     **more)
    assert done.returncode == 0, (done.returncode, done.stderr[-4000:])
    return done, [dict(np.load(folder / f"rank-{i}.npz")) for i in range(len(sizes))]


EACH_STEP = {"checkpoint": {"every_steps": 1}}


def attempt_ends(nursery, name, folder, sizes, at, **variables):
    """The attempt of a `sync` run ends behind a checkpoint of each step, since the last rank's
    program says that it would fail again, in its pass number `at` or as `variables` have it
    (strangers/run.py). on_ranks() in the same folder with EACH_STEP goes on from there."""
    folder.mkdir(exist_ok=True)
    command = nursery.command("strangers.run", name, folder / "rank")
    variables = {"TEST_KILL": str(at), "TEST_KILL_IN": "refuse", **variables}
    failed = run_local(command, sizes, {"type": "sync"}, folder, ["--out", str(folder / "job")],
                       variables=variables, **EACH_STEP)
    assert failed.returncode != 0 and "it would fail again" in failed.stderr


def tensors_of(file):
    """Of a model that the job has saved, by name."""
    content = file.read_bytes()
    length = int.from_bytes(content[:8], "little")
    described = json.loads(content[8:8 + length])
    described.pop("__metadata__", None)
    places = {key: tensor["data_offsets"] for key, tensor in described.items()}
    return {key: np.frombuffer(content[8 + length + first:8 + length + last], "f4")
            for key, (first, last) in places.items()}


def run_killed(nursery, run_programs, name, folder, at, within="", again="", variables=None,
               **more):
    """The finished process of a `sync` run on 5/8 and 3/8 of the batch in which one rank's program
    is killed at its step number `at`, or as TEST_KILL_IN=`within` has it, with TEST_AGAIN=`again`
    (strangers/run.py). It goes on and ends as the program alone."""
    batch, off = PROGRAMS[name]
    alone = run_programs(nursery, "strangers.run", name).results[0]
    variables = {**(variables or {}), "TEST_KILL": str(at)}
    variables.update({"TEST_KILL_IN": within} if within else {})
    variables.update({"TEST_AGAIN": again} if again else {})
    done, results = on_ranks(nursery, name, folder / "sync", [batch * 5 // 8, batch * 3 // 8],
                             {"type": "sync"}, variables=variables, **more)
    assert 'msg="goes on"' in done.stderr
    assert bit_identical(results) and difference(results[0], alone) < off
    return done
