"""Compare without its page: functions of its modules over runs of our own."""

import json

import pytest

from test_pure import NARROW, call, page  # noqa: F401  (a fixture)


def run(seed, accuracies, rate=0.05, seconds=10):
    tests = [{"time": seconds * (i + 1), "accuracy": a} for i, a in enumerate(accuracies)]
    return {"job": {"state": "succeeded",
                    "spec": {"name": f"run {seed}", "seed": seed,
                             "optimizer": {"learning_rate": rate}}}, "tests": tests}


def test_a_level_counts_once_it_is_held(page):
    held = json.dumps(run(1, [0.5, 0.91, 0.7, 0.92, 0.93]))
    assert call(page, "/js/views/compare/model.js",
                f"[m.timeTo({held}, 0.9), m.heldAccuracy({held})]") == [40, 0.92]
    assert call(page, "/js/views/compare/model.js",
                f"m.heldAccuracy({json.dumps(run(1, [0.8]))})") == 0.8


def test_a_lead_is_held_against_what_seeds_make(page):
    def note(*runs):
        return call(page, "/js/views/compare/seeds.js", f"m.seedNote({json.dumps(runs)}, 0.9)")
    fast, other = run(1, [0.9, 0.9]), run(2, [0.9, 0.9], seconds=14)
    assert "One run each" in note(fast, run(3, [0.9, 0.9], rate=0.1))
    assert note(fast, other, run(3, [0.9, 0.9], rate=0.1, seconds=13)) == (
        f" A and B differ in their seeds alone: 10.0{NARROW}s to 14.0{NARROW}s. The lead of the "
        "better settings is within what seeds make.")
    assert "beyond what seeds make" in note(fast, other, run(3, [0.9, 0.9], rate=0.1, seconds=30))


@pytest.mark.parametrize("runs, wanted", [
    ([run(1, [0.9, 0.9]), run(2, [0.9, 0.9], 0.1)], None),
    ([run(1, [0.9, 0.9]), run(2, [0.9, 0.9], seconds=14)],
     f"0 and 1 differ in their seeds alone: they reach 90{NARROW}% in 10.0{NARROW}s to "
     f"14.0{NARROW}s."),
    ([run(1, [0.9, 0.9]), run(1, [0.9, 0.9], seconds=14)],
     f"0 and 1 have the same settings and seed: they reach 90{NARROW}% in 10.0{NARROW}s to "
     f"14.0{NARROW}s."),
    ([run(1, [0.9, 0.9]), run(2, [0.9, 0.9], seconds=14), run(1, [0.9, 0.9], 0.1, 13)],
     f"No settings are faster beyond what seeds make: 0 and 1 reach 90{NARROW}% in 12.0{NARROW}s "
     f"on average, 2 in 13.0{NARROW}s."),
    ([run(1, [0.9, 0.9]), run(2, [0.9, 0.9], seconds=14), run(1, [0.9, 0.9], 0.1, 5),
      run(2, [0.2, 0.2], 0.1)],
     f"0 and 1 differ in their seeds alone: they reach 90{NARROW}% in 10.0{NARROW}s to "
     f"14.0{NARROW}s; of other settings not every run does."),
    ([run(1, [0.9, 0.9], 0.1, 30), run(1, [0.9, 0.9]), run(2, [0.9, 0.9], seconds=14)],
     f"1 and 2 reach 90{NARROW}% in 12.0{NARROW}s on average, 18.0{NARROW}s before 0."),
])
def test_settings_that_ran_with_several_seeds_are_compared_as_such(page, runs, wanted):
    """The sentence named the seed with the best luck the winner."""
    words = call(page, "/js/views/compare/seeds.js", f"m.seedWords({json.dumps(runs)}, 0.9)")
    assert (words and "".join(map(str, words))) == wanted


@pytest.mark.parametrize("key, value, wanted",
                         [("strategy/weighting", "sample", True),
                          ("strategy/weighting", "plain", False), ("epochs", "3", False),
                          ("optimizer/momentum", "0", True)])
def test_what_is_at_its_default_is_no_difference(page, key, value, wanted):
    catalog = {"strategy": [
        {"name": "asgd", "parameters": [{"name": "weighting", "default": "sample"}]}],
               "optimizer": [{"name": "sgd", "parameters": [{"name": "momentum", "default": 0}]}]}
    spec = {"strategy": {"type": "asgd"}, "optimizer": {"type": "sgd"}}
    asked = f"m.isDefault({json.dumps(catalog)}, {json.dumps(spec)}, '{key}', '{value}')"
    assert call(page, "/js/views/compare/differences.js", asked) is wanted


def test_times_of_one_sentence_have_one_unit(page):
    """It read "88 ms, 0.11 s before B"."""
    def told(*times):
        return call(page, "/js/text/format.js", f"m.spans(...{json.dumps(times)})")
    assert told(0.088, 0.11) == [f"0.088{NARROW}s", f"0.110{NARROW}s"]
    assert told(45, 0.03) == [f"45{NARROW}s", f"30{NARROW}ms"], "none of them reads 0"
    assert told(4000, 30) == [f"1{NARROW}h 7{NARROW}min", f"30{NARROW}s"]
    runs = [run(1, [0.9, 0.9], seconds=0.05), run(2, [0.9, 0.9], seconds=0.06),
            run(1, [0.9, 0.9], 0.1, 0.3)]
    words = call(page, "/js/views/compare/seeds.js", f"m.seedWords({json.dumps(runs)}, 0.9)")
    assert "".join(map(str, words)) == (
        f"0 and 1 reach 90{NARROW}% in 0.055{NARROW}s on average, 0.245{NARROW}s before 2.")


def test_a_run_that_is_first_at_a_level_and_ends_far_below_another_is_not_the_winner(page):
    """It read "B reaches 47 %, 36 s before A", and nothing of A's 83 %."""
    def told(*runs):
        asked = f"m.furtherNote({json.dumps(runs)}, 0.4)"
        return call(page, "/js/views/compare/sentence.js", asked)
    quick, far = run(1, [0.4, 0.6], seconds=1), run(2, [0.4, 0.8], seconds=5)
    assert told(far, quick) == (
        f" A gets further: 80.0{NARROW}% at best; B 60.0{NARROW}%.")
    assert told(quick, run(2, [0.4, 0.605], seconds=5)) == ""
    assert told(run(1, [0.4, 0.9], seconds=1), far) == ""


DEEP = {"input": [28, 28, 1], "layers": [{"type": "dense", "units": 10 + i} for i in range(20)]}
WIDE = {**DEEP, "layers": [{"type": "dense", "units": 90 + i} for i in range(20)]}


@pytest.mark.parametrize("models, wanted", [
    (["mlp", DEEP], ["mlp", "network of 20 layers"]), (["mlp", "lenet5"], ["mlp", "lenet5"]),
    ([DEEP, WIDE, DEEP], ["network of 20 layers (A’s)", "network of 20 layers (B’s)",
                          "network of 20 layers (A’s)"]),
    ([DEEP, {**DEEP, "input": [1, 2, 3]}], [None, None]),
])
def test_a_network_that_is_written_out_is_one_difference(page, models, wanted):
    """It was a line for each of its layers' settings."""
    specs = json.dumps([{"model": m} for m in models])
    assert call(page, "/js/views/compare/differences.js",
                f"m.settingsOf({specs}).map(f => f.get('model') ?? null)") == wanted


def test_a_virtual_cluster_beside_real_nodes_is_one_difference(page):
    """It was three lines for each of its nodes."""
    nodes = [{"name": f"n{i}", "fixed_seconds": i, "count": 1 + i % 2} for i in range(4)]
    virtual = {"cluster": {"nodes": nodes}}
    asked = f"m.settingsOf({json.dumps([virtual, {}])}).map(f => [...f.entries()])"
    assert call(page, "/js/views/compare/differences.js", asked) == [
        [["cluster", "6 virtual nodes"]], [["cluster", "none"]]]


def test_runs_are_not_compared_at_a_level_that_guessing_reaches(page):
    good, better, bad = (run(i, a) for i, a in enumerate(([0.4, 0.4], [0.6, 0.6], [0.12, 0.12])))
    for one in (good, better, bad):
        one["job"]["spec"]["model"] = "mlp"
    asked = f"[m.goalOf({json.dumps([good, bad, better])}), m.guesses({json.dumps(bad)})]"
    assert call(page, "/js/views/compare/model.js", asked) == [0.4, True]
    asked = f"Number.isNaN(m.goalOf({json.dumps([good, bad])}))"
    assert call(page, "/js/views/compare/model.js", asked) is True


def test_a_speed_is_that_of_the_whole_run(page):
    """That of the last seconds, when a neighbour had ended, won by three times over runs that were
    faster."""
    runs = [run(1, [0.9, 0.9]), run(2, [0.9, 0.9])]
    for one, samples, seconds, last in zip(runs, (128000, 96000), (64, 96), (1116, 3697)):
        one["job"].update(progress={"samples": samples}, seconds=seconds,
                          metrics={"samples_per_second": last})
    told = call(page, "/js/views/compare/results.js", f"""(() => {{
        const made = new m.Results({{runs: {json.dumps(runs)}, commonGoal: () => 0.9}});
        made.update();
        return [...made.node.querySelectorAll('tbody tr')].map(
            (line) => [...line.cells].map((c) => [c.textContent, !!c.querySelector('.best')]));
    }})()""")
    assert [["Samples per second, over the run", False], ["2,000", True], ["1,000", False]] in told
