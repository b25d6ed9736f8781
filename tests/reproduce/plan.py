"""What runs next, and with which learning rate a row is shown.

    rates of a row ─► "select" runs (validation samples) ─► the best rate ─► "final" runs (test set)
       walked from the middle outwards                        a run for each seed

Every rule has the same grid. Its rates are tried from the middle towards both ends, and a direction
is given up when its rate is worse than the one before it: a rate that has lost costs nothing more
(`every_rate` in the settings switches this off). The test set is seen by the chosen rate alone.

Runs come in the order in which a table is worth reading early: rates of all rows, with one seed;
then the chosen rate of each row; then more seeds.
"""
import statistics

import datasets
from simulator import final_accuracy


def best_rate(scores):
    """Of rates that are level, the smaller one."""
    return max(scores, key=lambda r: (scores[r], -r))


def next_rate(rates, scores):
    """The rate to try next; None when the best one and both of its neighbours are known.
    scores: rate → score of those that were tried."""
    if not scores:
        return rates[(len(rates) - 1) // 2]
    at = rates.index(best_rate(scores))
    return next((r for r in rates[max(at - 1, 0):at + 2] if r not in scores), None)


class Known:
    """The results of one setting of a table, as far as there are any."""

    def __init__(self, table, setting, runs, work):
        self.table, self.setting, self.runs, self.work = table, setting, runs, work

    def case(self, row, form, rate, seed):
        """None as long as it depends on a row that has not run."""
        c = self.setting
        made = self.table.make(c, row, self)
        if made is None:
            return None
        changes, cluster = made
        job = {"name": "reproduce", "model": c["model"], "epochs": c["epochs"], "seed": seed,
               "data": datasets.cut(c["data"], c["samples"], c["test_samples"], form, self.work),
               "evaluate": {"every_epochs": c["evaluate_every_epochs"]},
               **changes}
        job["optimizer"] = {"type": "sgd", "learning_rate": rate, **c.get("optimizer", {}),
                            **changes.get("optimizer", {})}
        return {"table": self.table.name, "setting": c["name"], "row": row, "form": form,
                "rate": rate, "seed": seed, "data": c["data"], "job": job, "cluster": cluster}

    def result(self, row, form, rate, seed):
        case = self.case(row, form, rate, seed)
        return case and self.runs.get(case)

    def selected(self, row):
        """rate → result on the validation samples, of the rates that were tried."""
        seed = self.setting["seeds"][0]
        found = {r: self.result(row, "select", r, seed) for r in self.setting["rates"]}
        return {r: result for r, result in found.items() if result}

    def scores(self, row):
        """rate → score of those that were tried."""
        return {r: self.table.score(self.setting, row, result, self)
                for r, result in self.selected(row).items()}

    def next_rate(self, row):
        scores, rates = self.scores(row), self.setting["rates"]
        if self.setting.get("every_rate"):
            return next((r for r in rates if r not in scores), None)
        return next_rate(rates, scores)

    def rate(self, row):
        """The best rate among those that were tried; None if none was."""
        scores = self.scores(row)
        return best_rate(scores) if scores else None

    def shown_rate(self, row):
        rate = self.rate(row)
        return "–" if rate is None else f"{rate:g}"

    def by_rate(self, get, form):
        """(columns, lines): what each row has on the validation samples, by rate."""
        lines, rates = [], self.setting["rates"]
        for row in self.table.rows(self.setting):
            found = self.selected(row)
            lines.append([row, *[shown([found[r]], get, form) if r in found else "–"
                                 for r in rates]])
        return ["", *[f"rate {r:g}" for r in rates]], lines

    def accuracies(self):
        """The accuracy in %."""
        return self.by_rate(lambda r: percent(r["metrics"]["test_accuracy"]), "{:.1f}")

    def losses(self):
        return self.by_rate(lambda r: r["metrics"]["test_loss"], "{:.3f}")

    def final(self, row):
        """The results of the chosen rate, those of the seeds that have run."""
        rate = self.rate(row)
        if rate is None:
            return []
        found = [self.result(row, "final", rate, seed) for seed in self.setting["seeds"]]
        return [result for result in found if result]

    def todo(self):
        """(stage, case) of each run that can be made now, most wanted first within a row."""
        c = self.setting
        for row in self.table.rows(c):
            rate = self.next_rate(row)
            if rate is not None:
                case, stage = self.case(row, "select", rate, c["seeds"][0]), len(self.selected(row))
                if case:
                    yield stage, case
                continue
            for i, seed in enumerate(c["seeds"]):
                if not self.result(row, "final", self.rate(row), seed):
                    yield 100 + i, self.case(row, "final", self.rate(row), seed)
                    break


class Table:
    """What a table tells of itself; each script makes one.

    rows(c)              its rows, strings, in order
    make(c, row, known) (what the job has beside the setting, cluster) of a row; None while it waits
                       for a result of another row
    fill(c, known, page) the section of a setting
    """

    def __init__(self, name, rows, make, fill, score=None):
        self.name, self.rows, self.make, self.fill = name, rows, make, fill
        self.score = score or (lambda c, row, result, known: final_accuracy(result))


# ---- means over seeds ---------------------------------------------------------------------------


def mean_of(results, get):
    """None if there is none, or a seed has no value."""
    values = [None if "diverged" in r else get(r) for r in results]
    return statistics.fmean(values) if values and None not in values else None


def shown(results, get, form="{:.2f}"):
    """The mean, ± the deviation where there are several seeds."""
    mean = mean_of(results, get)
    if mean is None:
        return "diverged" if any("diverged" in r for r in results) else "–"
    if len(results) == 1:
        return form.format(mean)
    return f"{form.format(mean)} ± {form.format(statistics.stdev(map(get, results)))}"


def percent(share):
    return 100 * share


def accuracy(results):
    return shown(results, lambda r: percent(r["metrics"]["test_accuracy"]))
