"""Programs that were not written for Evenstep, killed in the midst of their runs: they go on, and
end as if nothing had happened, or are told what differs."""

import pytest

from compare import bit_identical, difference
from real_rank import COLUMNS, rows_of, run_local
from stranger_runs import EACH_STEP, OFTEN, attempt_ends, on_ranks, run_killed, tensors_of


@pytest.mark.parametrize("strategy", ["sync", "asgd", "hpsgd", "local-sgd", "hier-sgd"])
def test_one_with_arrays_that_is_killed_goes_on(torch_programs, run_programs, tmp_path, strategy):
    alone = run_programs(torch_programs, "strangers.run", "numpy_mlp").results[0]
    done, results = on_ranks(torch_programs, "numpy_mlp", tmp_path, [20, 12],
                             {"type": strategy, **OFTEN.get(strategy, {})},
                             variables={"TEST_KILL": "5", "TEST_KILL_IN": "sum"})
    assert 'msg="goes on"' in done.stderr
    rows = [dict(zip(COLUMNS, row.split(","))) for row in rows_of(done)]
    assert sum(int(r["batch"]) for r in rows) == 4 * 96
    assert strategy != "sync" or difference(results[0], alone) < 2e-5


@pytest.mark.parametrize("step, again, loop", [
    (5, "none", "range"), (6, "none", "range"), (6, "0", "range"), (6, "20", "range"),
    (5, "20", "evenstep"), (6, "20", "evenstep")])
def test_a_look_at_a_batch_is_no_epoch_that_is_passed_over(torch_programs, run_programs, tmp_path,
                                                           step, again, loop):
    """One rank's program is killed in the third epoch, at its first or last step, and looks at a
    batch once more."""
    name = "looks_then_range"
    alone = run_programs(torch_programs, "strangers.run", name).results[0]
    done, results = on_ranks(torch_programs, name, tmp_path / "sync", [20, 12], {"type": "sync"},
                             variables={"TEST_KILL": str(step), "TEST_AGAIN": again,
                                        "TEST_EPOCHS": loop})
    assert 'msg="goes on"' in done.stderr
    assert ("the loop passes over" in done.stderr) == (again == "none")
    assert bit_identical(results) and difference(results[0], alone) < 2e-5


# a step's second batch, and its first; before the first step of all
@pytest.mark.parametrize("name, at", [("accumulate_rest", 9), ("steps", 8), ("steps", 7),
                                      ("accumulate_rest", 2), ("accumulate_rest", 3),
                                      ("by_hand", 2), ("by_hand", 3), ("accumulate", 2),
                                      ("accumulate", 5), ("accumulate_sum", 6)])
def test_one_that_is_killed_within_an_accumulation_ends_as_the_program_alone(
        torch_programs, run_programs, tmp_path, name, at):
    run_killed(torch_programs, run_programs, name, tmp_path, at, "backward")


def test_one_that_is_killed_within_an_epoch_continues_its_schedule_there(torch_programs,
                                                                         run_programs, tmp_path):
    """The new process's loop counts from 0, and its loader is as long as what is left."""
    done = run_killed(torch_programs, run_programs, "fractional_schedule", tmp_path, 5, "backward",
                      "none")
    assert "epoch 2 goes on after the first 1 of its 3 batches" in done.stderr


@pytest.mark.parametrize("at, within, again", [(2, "backward", ""), (5, "", ""), (5, "", "none"),
                                               (9, "backward", "")])
def test_a_schedule_that_prepare_was_not_given_goes_on_with_what_64_bits_say(
        torch_programs, run_programs, tmp_path, at, within, again):
    """Nobody but another rank's process knows how often it has stepped, and the block has 32
    bits."""
    run_killed(torch_programs, run_programs, "double_cycle", tmp_path, at, within, again)


def test_a_schedule_that_asks_for_the_loaders_length_in_each_step_has_an_epochs(
        torch_programs, run_programs, tmp_path):
    """Also in an epoch that goes on, whose loop is shorter."""
    run_killed(torch_programs, run_programs, "lazy_schedule", tmp_path, 5, "backward", "none")


# within the first epoch and within the second, and in the second's last step
@pytest.mark.parametrize("at", [4, 9, 12])
def test_a_loader_that_zip_has_beside_it_goes_on_as_well(torch_programs, tmp_path, at):
    """The other loader's order is drawn by PyTorch's random numbers, of the epoch's beginning."""
    plan = "side_by_side", [10, 6], {"type": "sync"}
    _, whole = on_ranks(torch_programs, plan[0], tmp_path / "whole", *plan[1:])
    done, ends = on_ranks(torch_programs, plan[0], tmp_path / "killed", *plan[1:],
                          variables={"TEST_KILL": str(at), "TEST_KILL_IN": "backward"})
    assert 'msg="goes on"' in done.stderr
    assert bit_identical(ends) and difference(ends[0], whole[0]) < 2e-6


# in a loop's first step and its second, within an epoch and behind its end
@pytest.mark.parametrize("at", [5, 6, 7])
def test_loops_over_parts_of_the_loader_go_on_where_they_were(torch_programs, tmp_path, at):
    _, whole = on_ranks(torch_programs, "cut_short", tmp_path / "whole", [20, 12],
                        {"type": "sync"})
    done, ends = on_ranks(torch_programs, "cut_short", tmp_path / "killed", [20, 12],
                          {"type": "sync"},
                          variables={"TEST_KILL": str(at), "TEST_KILL_IN": "backward"})
    assert 'msg="goes on"' in done.stderr
    assert bit_identical(ends) and difference(ends[0], whole[0]) < 2e-6


# an epoch's last step, and the run's, whose parameters and optimizer only the others have then
@pytest.mark.parametrize("name, at", [("class_weights", 6), ("class_weights", 9), ("trainer", 3),
                                      ("averaged", 3), ("skip_gram", 17), ("early_stopping", 3)])
def test_one_that_is_killed_in_its_last_step_ends_as_the_program_alone(
        torch_programs, run_programs, tmp_path, name, at):
    run_killed(torch_programs, run_programs, name, tmp_path, at, checkpoint={"every_steps": 3})


# the second: in the step with which an epoch ends
@pytest.mark.parametrize("name, at", [("mingpt", 4), ("steps_not_epochs", 2),
                                      ("steps_not_epochs", 3), ("steps_not_epochs", 7)])
def test_a_loop_that_counts_its_steps_ends_where_the_others_do_once_it_was_killed(
        torch_programs, run_programs, tmp_path, name, at):
    """Its own count begins anew, so it would make more steps than the others."""
    done = run_killed(torch_programs, run_programs, name, tmp_path, at, "backward", "none")
    assert "the run ends where the other programs have left" in done.stderr
    lacks = at > 2  # of one step it does not hear: the end comes in that one
    assert not lacks or "so a loop that counts steps itself began at 0 there" in done.stderr


# in an epoch's first step and within it, of a program that counts updates for its schedule; of a
# loader that zip() asks behind another one, which ends an epoch before it; of loops over steps
@pytest.mark.parametrize("name, at", [("like_timm", 4), ("like_timm", 8), ("like_timm", 9),
                                      ("other_first", 6), ("other_first", 7), ("mingpt", 4),
                                      ("steps_not_epochs", 7)])
def test_one_that_is_killed_counts_as_if_nothing_had_happened(torch_programs, run_programs,
                                                              tmp_path, name, at):
    """It goes through the batches that the run has made once more, without a step."""
    done = run_killed(torch_programs, run_programs, name, tmp_path, at, "backward")
    assert "its loops go through the %d batches" % (at - 1) in done.stderr
    assert "the run ends where the other programs have left" not in done.stderr


@pytest.mark.parametrize("strategy", ["local-sgd", "hier-sgd", "hpsgd"])
def test_where_parameters_are_averaged_a_loop_over_steps_goes_on(torch_programs, tmp_path,
                                                                 strategy):
    done, ends = on_ranks(torch_programs, "steps_not_epochs", tmp_path, [20, 12],
                          {"type": strategy, **OFTEN[strategy]},
                          variables={"TEST_KILL": "5", "TEST_KILL_IN": "backward"})
    assert "its loops go through the" in done.stderr
    assert len(rows_of(done)) == 2 * 10 and len(ends) == 2


def test_where_parameters_are_averaged_a_count_that_began_anew_is_told(torch_programs, tmp_path):
    command = torch_programs.command("strangers.run", "steps_not_epochs", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "local-sgd", "k": 3}, tmp_path,
                     variables={"TEST_KILL": "5", "TEST_KILL_IN": "backward",
                                "TEST_AGAIN": "none"})
    assert done.returncode != 0 and "make the same number of steps" in done.stderr
    assert "a program that was started again counts its own steps from 0" in done.stderr


def test_a_rate_by_a_count_that_began_anew_is_told(torch_programs, tmp_path):
    """Its program would end with other parameters than the others'."""
    command = torch_programs.command("strangers.run", "steps_next", tmp_path / "rank")
    done = run_local(command, [10, 6], {"type": "sync"}, tmp_path,
                     variables={"TEST_KILL": "7", "TEST_KILL_IN": "backward", "TEST_AGAIN": "0"})
    assert "its loops do not go through the" in done.stderr
    assert done.returncode != 0 and "has other parameters than the others" in done.stderr
    assert "if it computes its rate by a count of its own" in done.stderr


# the second of a step's two passes; the second and third of three, of which two precede one step
@pytest.mark.parametrize("name, at", [("gan_lists", 4), ("gan_lists", 6), ("gan", 5), ("gan", 6)])
def test_a_gan_that_is_killed_between_two_passes_ends_as_the_program_alone(
        torch_programs, run_programs, tmp_path, name, at):
    run_killed(torch_programs, run_programs, name, tmp_path, at, "backward")


# in the second pass of a step that has two, behind the only pass of an epoch's last step, and in
# the second one of an epoch's last step, where the two steps before had other numbers
@pytest.mark.parametrize("at, where", [("6", "backward"), ("4", ""), ("9", "backward")])
def test_one_whose_steps_have_one_pass_or_two_comes_back_with_its_own_count(
        torch_programs, run_programs, tmp_path, at, where):
    run_killed(torch_programs, run_programs, "wgan_gp", tmp_path, at, where)


@pytest.mark.parametrize("strategy", ["local-sgd", "hier-sgd", "hpsgd"])
def test_one_that_is_killed_where_parameters_are_averaged_goes_on_with_its_own(torch_programs,
                                                                              tmp_path, strategy):
    """Its rank has kept them; the others wait for it at the next average, and all samples count."""
    done, results = on_ranks(torch_programs, "gan_lists", tmp_path, [20, 12],
                             {"type": strategy, **OFTEN[strategy]},
                             variables={"TEST_KILL": "6", "TEST_KILL_IN": "backward"})
    assert 'msg="goes on"' in done.stderr and bit_identical(results)
    rows = [dict(zip(COLUMNS, row.split(","))) for row in rows_of(done)]
    assert sum(int(r["batch"]) for r in rows) == 3 * 96


def test_a_gan_goes_on_from_a_checkpoint_as_if_nothing_had_happened(torch_programs, run_programs,
                                                                    tmp_path):
    """Its attempt ends between two passes of the fifth step of nine."""
    alone = run_programs(torch_programs, "strangers.run", "gan_lists").results[0]
    attempt_ends(torch_programs, "gan_lists", tmp_path, [20, 12], 10)
    done, results = on_ranks(torch_programs, "gan_lists", tmp_path, [20, 12], {"type": "sync"},
                             **EACH_STEP)
    assert len(rows_of(done)) == 2 * 5
    assert bit_identical(results) and difference(results[0], alone) < 2e-5


def goes_on_from_a_file_of_its_own(programs, folder, more):
    """From a checkpoint in the third of four epochs. The finished process of that attempt."""
    (folder / "files").mkdir()
    sizes = [20, 12]
    more = {"TEST_FOLDER": str(folder / "files"), **more}
    attempt_ends(programs, "own_resume", folder, sizes, 8, **more)
    command = programs.command("strangers.run", "own_resume", folder / "rank")
    return run_local(command, sizes, {"type": "sync"}, folder, ["--out", str(folder / "job")],
                     variables=more, **EACH_STEP)


def test_a_loop_that_begins_at_the_epoch_of_its_own_file_is_refused(torch_programs, tmp_path):
    """It would have ended well without the run's last epochs."""
    done = goes_on_from_a_file_of_its_own(torch_programs, tmp_path, {})
    assert done.returncode != 0 and "begins at the epoch of a file" in done.stderr


def test_a_file_of_its_own_does_no_harm_where_the_loop_knows_the_epoch(torch_programs, tmp_path):
    done = goes_on_from_a_file_of_its_own(torch_programs, tmp_path, {"TEST_KNOWS": "1"})
    assert done.returncode == 0 and len(rows_of(done)) == 2 * 5


def test_a_file_of_an_earlier_run_that_was_complete_is_a_sentence(torch_programs, tmp_path):
    sizes, variables = [20, 12], {"TEST_FOLDER": str(tmp_path)}
    on_ranks(torch_programs, "own_resume", tmp_path / "first", sizes, {"type": "sync"},
             variables=variables)
    command = torch_programs.command("strangers.run", "own_resume", tmp_path / "rank")
    done = run_local(command, sizes, {"type": "sync"}, tmp_path / "second", variables=variables)
    assert done.returncode != 0 and "ends without having taken a batch" in done.stderr


@pytest.mark.parametrize("how, why", [
    ("hook", "RuntimeError: a hook of the program's own"), ("exit", "ended with exit code 3")])
def test_one_that_fails_within_a_pass_ends_as_the_program_alone(torch_programs, run_programs,
                                                                tmp_path, how, why):
    """It looks at the loss behind each loop over batches, those that are passed over included."""
    done = run_killed(torch_programs, run_programs, "padded", tmp_path, 3, how)
    assert why in done.stderr


@pytest.mark.parametrize("at", [5, 9])
def test_a_target_network_that_prepare_has_comes_back(torch_programs, run_programs, tmp_path, at):
    """And what it has not is told: a program may keep such a thing beside it."""
    done = run_killed(torch_programs, run_programs, "dqn", tmp_path, at, "backward")
    assert "began anew in this process" in done.stderr


def test_batches_of_so_many_tokens_go_on_within_an_epoch(torch_programs, run_programs, tmp_path):
    """In the third of seven batches of unequal sizes of the second epoch."""
    run_killed(torch_programs, run_programs, "token_batches", tmp_path, 10, "backward")


@pytest.mark.parametrize("at", [6, 9])
def test_items_that_are_batches_go_on_within_an_epoch(torch_programs, run_programs, tmp_path, at):
    """In the smaller one of the second epoch, and where the third begins."""
    run_killed(torch_programs, run_programs, "whole_batches", tmp_path, at, "backward")


# one of two passes over a batch, whose first one moves buffers; masks that come with a later epoch
@pytest.mark.parametrize("name", ["spectral_gan", "pruned", "fourier"])
def test_buffers_that_move_come_back_as_the_step_began(torch_programs, run_programs, tmp_path,
                                                       name):
    done = run_killed(torch_programs, run_programs, name, tmp_path, 5, "backward")
    assert "has none" not in done.stderr


def test_buffers_of_a_size_that_the_first_batch_makes_come_back(torch_programs, tmp_path):
    """Observers of weights, by channel; those of activations are each node's own."""
    done, ends = on_ranks(torch_programs, "quantized", tmp_path, [20, 12], {"type": "sync"},
                          variables={"TEST_KILL": "5", "TEST_KILL_IN": "backward"})
    assert 'msg="goes on"' in done.stderr
    observed = "0.1.weight_fake_quant.activation_post_process.min_val"
    assert ends[0][observed].shape == (12,) and bit_identical([{observed: e[observed]}
                                                               for e in ends])


def test_a_buffer_that_the_new_process_does_not_make_is_told(torch_programs, tmp_path):
    """Its loop begins behind the epoch in which the program prunes."""
    command = torch_programs.command("strangers.run", "pruned", tmp_path / "rank")
    done = run_local(command, [20, 12], {"type": "sync"}, tmp_path,
                     variables={"TEST_KILL": "8", "TEST_KILL_IN": "backward"})
    assert "the run's model has a buffer '0.weight_mask'" in done.stderr


def test_a_state_that_is_carried_from_pass_to_pass_is_told_where_they_are_made_again(
        torch_programs, tmp_path):
    """In the second of a batch's three passes, whose first one the new process makes with the
    parameters of now."""
    done, results = on_ranks(torch_programs, "tbptt", tmp_path / "sync", [20, 12],
                             {"type": "sync"},
                             variables={"TEST_KILL": "5", "TEST_KILL_IN": "backward"})
    assert bit_identical(results) and "goes through passes of this step again" in done.stderr


# in the epoch that makes the optimizer, at its first step and its second, and in the one behind it
@pytest.mark.parametrize("at, again", [(7, "20"), (8, "20"), (11, "20"), (8, "none"), (11, "none")])
def test_one_that_has_made_an_optimizer_since_comes_back_with_it(torch_programs, run_programs,
                                                                 tmp_path, at, again):
    run_killed(torch_programs, run_programs, "new_optimizer", tmp_path, at, "backward", again)


def test_a_server_steps_at_the_rate_of_an_optimizer_that_was_made_since(torch_programs, tmp_path):
    of_server, own = (on_ranks(torch_programs, "new_optimizer", tmp_path / strategy, [32],
                               {"type": strategy}, variables={"TEST_OPTIMIZER": "sgd"})[1][0]
                      for strategy in ("asgd", "sync"))
    assert difference(of_server, own) < 2e-5


@pytest.mark.parametrize("at", [5, 8])
@pytest.mark.parametrize("name", ["lookahead", "bare_lookahead"])
def test_an_optimizer_within_another_comes_back_with_its_state_and_rate(
        torch_programs, run_programs, tmp_path, name, at):
    run_killed(torch_programs, run_programs, name, tmp_path, at, "backward")


def test_one_that_has_added_a_group_since_comes_back_with_it(torch_programs, run_programs,
                                                            tmp_path):
    """It adds the group in its fourth epoch, and is killed in its fifth."""
    run_killed(torch_programs, run_programs, "transfer", tmp_path, 5, "backward")


@pytest.mark.parametrize("strategy", ["local-sgd", "hpsgd"])
def test_a_loop_over_steps_may_end_within_an_epoch_where_parameters_are_averaged(
        torch_programs, tmp_path, strategy):
    """Fourteen batches of three epochs of six; what follows sees the average, on each node."""
    _, results = on_ranks(torch_programs, "steps", tmp_path, [10, 6], {"type": strategy, "k": 3},
                          variables={"TEST_STEPS": "7"})
    assert bit_identical(results)


def test_an_attempt_that_begins_at_the_runs_end_has_what_the_run_has_made(torch_programs, tmp_path):
    """As after a node that is lost while programs save what they have: they save it once more."""
    often, sizes = {"checkpoint": {"every_steps": 1}}, [60, 36]
    on_ranks(torch_programs, "padded", tmp_path, sizes, {"type": "sync"}, **often)
    done, again = on_ranks(torch_programs, "padded", tmp_path, sizes, {"type": "sync"}, **often)
    assert not rows_of(done) and bit_identical(again)
    for key, tensor in tensors_of(tmp_path / "job/artifacts/model.safetensors").items():
        assert (again[0]["0." + key].ravel() == tensor).all()


# within an accumulation and behind its step, in an epoch's first batch, its last two, and the run's
@pytest.mark.parametrize("name, at, where, ahead", [
    *(("data_prefetcher", at, "backward", "") for at in (2, 3, 4, 9, 12)),
    *(("marks_last", at, "backward", "") for at in (3, 4, 5, 6, 11, 15)),
    *(("like_nanogpt", at, "backward", ahead) for at in (3, 4, 6) for ahead in ("", "1")),
    ("data_prefetcher", 3, "", ""), ("marks_last", 3, "", ""), ("like_nanogpt", 2, "", ""),
    ("like_nanogpt", 2, "", "1")])
def test_one_that_has_a_batch_in_hand_comes_back_with_it(torch_programs, run_programs, tmp_path,
                                                         name, at, where, ahead):
    run_killed(torch_programs, run_programs, name, tmp_path, at, where,
               variables={"TEST_AHEAD": ahead})


@pytest.mark.parametrize("at", [3, 6, 8, 11, 20])
def test_one_that_has_a_batch_in_hand_goes_on_from_a_checkpoint(torch_programs, run_programs,
                                                                tmp_path, at):
    """All programs begin anew, and pass over the epochs that were made."""
    alone = run_programs(torch_programs, "strangers.run", "marks_last").results[0]
    attempt_ends(torch_programs, "marks_last", tmp_path, [10, 6], at)
    done, ends = on_ranks(torch_programs, "marks_last", tmp_path, [10, 6], {"type": "sync"},
                          **EACH_STEP)
    assert len(rows_of(done)) == 2 * (20 - at + 1)
    assert bit_identical(ends) and difference(ends[0], alone) < 2e-5
