"""Keras programs that were not written for Evenstep, with its line added; as test_strangers.py."""

import re

import pytest

from compare import bit_identical, difference
from real_rank import rows_of, run_local
from stranger_runs import on_ranks

# batch, and how far rounding may carry parameters
PROGRAMS = {
    "keras_accumulates": (32, 2e-5),
    "keras_backup": (32, 2e-5),
    "keras_callbacks": (96, 2e-5),
    "keras_checkpoints": (32, 2e-5),
    "keras_gan": (32, 2e-5),
    "keras_leaves_out": (32, 2e-5),
    "keras_loop": (24, 2e-5),
    "keras_masked": (32, 2e-5),
    "keras_moving_average": (32, 2e-5),
    "keras_pipeline": (32, 2e-5),
    "keras_plateau": (32, 2e-5),
    "keras_sequential": (32, 2e-5),
    "keras_siamese": (32, 2e-5),
    "keras_split": (32, 2e-5),
    "keras_sum": (32, 2e-5),
    "keras_transformer": (32, 2e-5),
    "keras_train_step": (32, 2e-5),
    "keras_two_inputs": (32, 2e-5),
    "keras_two_networks": (32, 2e-5),
    "keras_vae": (32, 2e-5),
    "keras_weighted_mean": (32, 2e-5),
}
# what they are for is in `sync`
WEIGHED = {"keras_masked", "keras_weighted_mean", "keras_backup", "keras_pipeline", "keras_vae"}


def sizes_of(name):
    batch, _ = PROGRAMS[name]
    return [batch * 5 // 8, batch * 3 // 8]


def told(done):
    """What Evenstep says in the log of one program."""
    return "\n".join(line for line in done.stderr.splitlines()
                     if "rank=1 " in line and "evenstep: " in line)


@pytest.mark.parametrize("name", PROGRAMS)
def test_sync_on_unequal_ranks_equals_the_program_alone(keras_programs, run_programs, tmp_path,
                                                        name):
    alone = run_programs(keras_programs, "strangers.run", name).results[0]
    done, results = on_ranks(keras_programs, name, tmp_path / "sync", sizes_of(name),
                             {"type": "sync"})
    assert bit_identical(results)
    found = difference(results[0], alone)
    print("%s: %.1e" % (name, found))
    assert all("is read once" in line or "BackupAndRestore" in line
               for line in told(done).splitlines()), "nothing is told of what is the same"
    assert found < PROGRAMS[name][1] and rows_of(done)


@pytest.mark.parametrize("name", sorted(set(PROGRAMS) - WEIGHED))
@pytest.mark.parametrize("strategy", ["dbs-sgd", "local-sgd"])
def test_other_strategies_train_it(keras_programs, tmp_path, name, strategy):
    if strategy == "local-sgd" and name == "keras_callbacks":
        pytest.skip("ranks that average decide by figures of their own")
    done, results = on_ranks(keras_programs, name, tmp_path, sizes_of(name), {"type": strategy})
    assert rows_of(done) and len(results) == 2


def figures(log):
    """(loss, rate) of each epoch that a program told, by its number."""
    told = re.findall(r"epoch (\d+) loss ([\d.]+) rate ([\d.]+)", log)
    return {int(epoch): (float(loss), float(rate)) for epoch, loss, rate in told}


@pytest.mark.parametrize("name", ["keras_callbacks", "keras_split"])
def test_callbacks_decide_alike_by_the_figures_of_all_ranks(keras_programs, run_programs, tmp_path,
                                                            name):
    """What fit() tells of an epoch is that of the program alone, to rounding, on every rank."""
    alone = figures(run_programs(keras_programs, "strangers.run", name).logs[0])
    done, _ = on_ranks(keras_programs, name, tmp_path / "sync", sizes_of(name), {"type": "sync"})
    of = [figures("\n".join(line for line in done.stderr.splitlines() if f"rank={i} " in line))
          for i in range(2)]
    assert of[0] == of[1] and 3 < len(alone) < 40 and set(of[0]) == set(alone)
    assert len({rate for _, rate in alone.values()}) > 1, "a plateau was met"
    for epoch, told in alone.items():
        assert of[0][epoch] == pytest.approx(told, rel=1e-4)


# the ninth exchange is the first one of its step, the eighth the second
@pytest.mark.parametrize("name, at", [
    ("keras_loop", 6), ("keras_train_step", 5), ("keras_gan", 9), ("keras_gan", 8),
    ("keras_moving_average", 7), ("keras_transformer", 5), ("keras_transformer", 11),
    ("keras_two_networks", 9), ("keras_plateau", 8), ("keras_backup", 8),
    ("keras_accumulates", 8)])
def test_one_that_is_killed_ends_as_the_program_alone(keras_programs, run_programs, tmp_path, name,
                                                      at):
    """The others give its next process the parameters of now, which Keras keeps outside of the
    block."""
    alone = run_programs(keras_programs, "strangers.run", name).results[0]
    done, results = on_ranks(keras_programs, name, tmp_path / "sync", sizes_of(name),
                             {"type": "sync"},
                             variables={"TEST_KILL": str(at), "TEST_KILL_IN": "exchange"})
    assert 'msg="goes on"' in done.stderr
    assert bit_identical(results) and difference(results[0], alone) < PROGRAMS[name][1]


@pytest.mark.parametrize("strategy, killed", [("sync", "0"), ("sync", "6"), ("dbs-sgd", "0")])
def test_a_module_of_tensorflows_own_is_trained(keras_programs, run_programs, tmp_path, request,
                                                strategy, killed):
    if "[tensorflow" not in request.node.name:
        pytest.skip("of TensorFlow alone")
    alone = run_programs(keras_programs, "strangers.run", "tf_module").results[0]
    done, ends = on_ranks(keras_programs, "tf_module", tmp_path / "ranks", [20, 12],
                          {"type": strategy},
                          variables={"TEST_KILL": killed, "TEST_KILL_IN": "exchange"})
    assert ('msg="goes on"' in done.stderr) == (killed != "0")
    if strategy == "sync":
        assert "after 12 steps" in done.stderr, "its own count goes on too"
        assert bit_identical(ends) and difference(ends[0], alone) < 2e-5


def test_a_loop_that_never_applies_gradients_is_told_so(keras_programs, run_programs):
    job = run_programs(keras_programs, "keras_cases", "never_applies", [1], fails=True)
    assert job.codes == [1]
    assert "no gradients of 3 batches in a row reached optimizer.apply()" in job.logs[0]


def test_what_an_optimizer_does_with_an_embeddings_rows_is_told(keras_programs, run_programs,
                                                                tmp_path, request):
    """TensorFlow's squares each use of a row by itself, alone."""
    alone = run_programs(keras_programs, "strangers.run", "keras_rows").results[0]
    done, ends = on_ranks(keras_programs, "keras_rows", tmp_path / "sync", [20, 12],
                          {"type": "sync"})
    own = "[tensorflow" in request.node.name
    assert told(done).count("Adam of a program alone squares an embedding's gradient") == own
    assert bit_identical(ends) and (difference(ends[0], alone) < 2e-5) != own


@pytest.mark.parametrize("loss, said", [
    ("mean", None), ("rows", None), ("own_mean", None),
    ("masked", "'masked' gives one number for a batch"),
    ("own_masked", "'compute_loss' gives one number for a batch"),
    ("compared", "'compared' of a sample depends on the other samples")])
def test_a_loss_that_is_no_mean_over_samples_is_told(keras_programs, tmp_path, loss, said):
    done, _ = on_ranks(keras_programs, "keras_one_number", tmp_path, [20, 12], {"type": "sync"},
                       variables={"TEST_LOSS": loss})
    told = [line for line in done.stderr.splitlines() if "the loss '" in line]
    assert len(told) == 2 * bool(said) and all(said in line for line in told)


@pytest.mark.parametrize("name, said", [
    ("keras_vae", "what a layer adds by add_loss() is not the mean"),
    ("keras_two_sums", "the loss 'near' gives one number for a batch"),
    ("keras_tags", "of the losses of several outputs each is divided by a number of its own"),
    ("keras_contrast", "the gradients that train_step() gives to apply() are not the mean"),
    ("keras_clipped", "gradients are changed before they reach apply()")])
def test_what_is_another_gradient_on_a_part_of_a_batch_is_told(keras_programs, tmp_path, name,
                                                               said):
    done, _ = on_ranks(keras_programs, name, tmp_path, [20, 12], {"type": "sync"},
                       variables={"TEST_KL": "sum"})
    assert told(done).count(said) == 1


@pytest.mark.parametrize("name, how, said", [
    ("keras_vector", "fit", 'a loss with reduction="none" is one number for each sample'),
    ("keras_vector", "loop", "tape.gradient() was given a loss of one number for each sample"),
    ("keras_vector", "global", "compute_average_loss(global_batch_size=…) divides by the samples"),
    ("keras_saved", "", "fit() of a second model: one run trains one")])
def test_what_would_train_something_else_is_refused(keras_programs, tmp_path, request, name, how,
                                                    said):
    if "[torch" in request.node.name and how in ("loop", "global"):
        pytest.skip("PyTorch takes no gradient of several numbers")
    command = keras_programs.command("strangers.run", name, tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path,
                     variables={"TEST_VECTOR": how})
    assert done.returncode != 0 and "evenstep.Error: " + said in done.stderr.replace(
        '\\"', '"')


def test_a_sum_in_a_function_of_a_loop_is_told(tmp_path, keras_programs, request):
    if "[torch" in request.node.name:
        pytest.skip("only TensorFlow has a graph of a step")
    done, _ = on_ranks(keras_programs, "keras_vector", tmp_path, [20, 12], {"type": "sync"},
                       variables={"TEST_VECTOR": "sum"})
    assert told(done).count("is a sum over the rows of the batch, perhaps divided by") == 1


# by how many rows a mask leaves, as a tensor, as a number of Python's, by an index, and by Keras
@pytest.mark.parametrize("loss, function", [
    ("own", ""), ("rows", ""), ("counted", ""), ("chosen", ""), ("padded", ""), ("said", ""),
    ("masked", "1"), ("padded", "1")])
def test_a_loop_weighs_what_its_loss_is_a_mean_over(keras_programs, tmp_path, request, loss,
                                                    function):
    if "[torch" in request.node.name and function:
        pytest.skip("a tf.function")
    plan = {"TEST_LOSS": loss, "TEST_FUNCTION": function}
    one, two = (on_ranks(keras_programs, "keras_loop_losses", tmp_path / str(len(sizes)), sizes,
                         {"type": "sync"}, variables=plan) for sizes in ([32], [20, 12]))
    assert bit_identical(two[1]) and difference(two[1][0], one[1][0]) < 2e-6
    assert all("is read once" in line for line in told(two[0]).splitlines())


# on PyTorch, as there, a sum is refused
@pytest.mark.parametrize("loss, said", [
    ("sum", "is a sum"), ("batch", "is a sum"), ("two", "means over several numbers")])
def test_a_loop_is_told_of_a_loss_that_nodes_cannot_make(keras_programs, tmp_path, request, loss,
                                                        said):
    command = keras_programs.command("strangers.run", "keras_loop_losses", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path, variables={"TEST_LOSS": loss})
    refused = "[torch" in request.node.name and loss != "two"
    assert (done.returncode != 0) == refused and said in done.stderr


def test_a_server_keeps_what_constraints_hold(keras_programs, tmp_path):
    """Keras' step holds them, so a server takes the step's difference."""
    done, _ = on_ranks(keras_programs, "keras_constrained", tmp_path, [20, 12], {"type": "asgd"})
    least, norm = re.search(r"least (-?[\d.]+) norm ([\d.]+)", done.stderr).groups()
    assert float(least) > -0.05 and float(norm) < 0.55


def test_a_server_leaves_weights_that_no_optimizer_steps(keras_programs, run_programs, tmp_path):
    """A moving average that the program assigns itself, one step behind what a server makes."""
    def away(log):
        return float(re.search(r"the average is ([\d.]+) away", log)[1])

    alone = run_programs(keras_programs, "strangers.run", "keras_moving_average").logs[0]
    done, _ = on_ranks(keras_programs, "keras_moving_average", tmp_path, [32], {"type": "asgd"})
    assert 0.9 * away(alone) < away(done.stderr) < 1.5 * away(alone)
