/* What a program logs: numbers by name (WIRE_LOG). All go into the rank's log. test_accuracy and
 * test_loss are an evaluation; so are val_accuracy, eval_loss and their like, if a log has no
 * figure of a test set beside them. Every other number is a metric of the job
 * (job/documents/ranks/logged.h), and so is an accuracy outside 0 to 1, such as a percentage.
 *
 * In lockstep strategies an evaluation is every rank's business: the strategy puts the average into
 * place, each program may measure it, and the mean over those that did is the result, which decides
 * about `target` and the best checkpoint. A program that measures within an epoch asks for an
 * evaluation after the next step (lockstep_note_measured). Server strategies know no such point:
 * there the server takes what rank 0's program measures, on the weights that it was given, as it
 * comes.
 */
#ifndef WORKER_PROGRAM_STEP_METRICS_H
#define WORKER_PROGRAM_STEP_METRICS_H

#include "worker/engine.h"

/* Of the test set, as a strategy counts it: a program says means and not how many samples, so a
 * rank that measured stands for so many. A float holds their sum over 16 ranks exactly. */
enum { METRICS_SAMPLES = 1 << 20 };

/* How many evaluations wait at most; the oldest makes room for one more. */
enum { METRICS_WAITING = 64 };

/* The evaluations that nobody has taken yet, the oldest first. An evaluation has each figure once:
 * a second test_accuracy begins the next evaluation. A program logs several between two of its
 * steps where the others had all the samples of an epoch. */
struct metrics {
    struct logged_value logged[LOGGED_NAMES]; /* [n_logged] */
    int n_logged;
    bool told_percent, told_dropped; /* the log has said so */
    int n;
    struct measured {
        double accuracy, loss; /* NaN: not told */
        bool has_accuracy, has_loss;
    } waiting[METRICS_WAITING];
};

void metrics_init(struct metrics *m);
/* A JSON object of numbers, and of "nan", "inf", "-inf"; fd is closed. */
void metrics_take(struct metrics *m, int fd);
/* The oldest evaluation that waits, as sums over METRICS_SAMPLES samples: returns that number, or 0
 * if none waits. A loss that is NaN or infinite stays so; an accuracy that is, or was not told, is
 * a negative sum. */
int64_t metrics_take_oldest(struct metrics *m, struct dev_result *sum);
/* The newest one, in the same way; older ones are dropped. */
int64_t metrics_take_newest(struct metrics *m, struct dev_result *sum);

/* The metrics since the last call, borrowed until the next metrics_take(); returns how many. */
int metrics_take_logged(struct metrics *m, const struct logged_value **out);

#endif
