/* evenstep.h: what makes a training program of yours distributed.
 *
 * A rank of Evenstep starts the program and owns a block of shared memory: parameters, gradients
 * and running statistics, each one flat array of floats in the order in which the program names its
 * tensors. The program computes gradients for the samples that the rank names, puts them into the
 * block and makes its own optimizer step on what the rank leaves there. The library knows no MPI,
 * starts no thread, and needs nothing but libc.
 *
 *   struct es_run run;
 *   struct es_slice slice;
 *   es_join(&about, &run);                       parameters are in run.params from here on
 *   while (es_step(&slice) == 1) {               the samples of this rank's next step
 *       … gradients of slice.indices[0 .. slice.count) into run.grads, their mean …
 *       if (es_gradients(&result) == ES_GO_STEP) {
 *           … optimizer step on run.params with run.grads, now summed over all ranks …
 *       }
 *   }
 *
 * A program that nobody started for Evenstep runs alone: the same calls then hand out every sample
 * of every epoch in an order of their own, es_gradients() answers ES_GO_STEP at once, and nothing
 * else happens (es_alone).
 *
 * Calls return 0 or more, or -1, and es_error() then says in a sentence what failed; after that the
 * program cannot go on with the run. One thread calls at a time. A forked child has none of this:
 * the library closes its socket there, and its calls fail. A signal does not end a wait.
 */
#ifndef EVENSTEP_H
#define EVENSTEP_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a call or a struct changes its meaning; the library's soname has it too. */
#define ES_ABI 1
int es_abi(void); /* the library's */

/* The sentence of the last call that failed, "" before one did. The library's until the next call
 * fails. */
const char *es_error(void);

/* 1: no rank started this program (EVENSTEP_SOCKET is not set, or is in a child of a program that
 * joined); 0: one did. Never fails. */
int es_alone(void);

/* ---- join ------------------------------------------------------------------------------------ */

struct es_tensor {
    const char *name;       /* UTF-8; may be NULL: then its number */
    int dims;               /* 0: a single number */
    const int64_t *shape;   /* [dims] */
    const int64_t *strides; /* NULL: row-major; else [dims], in floats, dense */
    const float *initial;   /* NULL, or its first values: es_join copies them into the block */
    int no_decay;           /* 1: weight decay leaves it alone */
    int mean_of;            /* statistics: 1 + the entry whose variance this is, 0: a mean */
};

struct es_optimizer {
    const char *name; /* "SGD": for people; may be NULL */
    int server;       /* 1: a parameter server can make the same update by the figures below: SGD
                         with one rate, one decay and no dampening */
    double learning_rate, momentum, weight_decay;
    int nesterov;
};

/* All of it is the caller's and may go when es_join has returned. Set what you know, zero else. */
struct es_about {
    int abi;               /* ES_ABI */
    const char *framework; /* "torch 2.15.0"; may be NULL */
    int64_t samples;       /* in an epoch; 0: a stream whose length is not known */
    int64_t global_batch;  /* samples of one step of all ranks together */
    int ahead;             /* slices that the program asks for before it works on them; 0: 1 */
    int drop_last;         /* 1: an epoch's last, smaller step is left out */
    int in_order;          /* 1: samples are visited in their order, not shuffled */
    int sums;              /* 1: gradients are sums over samples; 0: means */
    int has_state;    /* 1: es_begin and its like may answer ES_SAVE, es_gradients ES_GO_SAVE */
    int stack_signal; /* makes the program write its stacks to stderr; 0: nothing does */
    double epochs;    /* 0: not known yet, or until the job's own end */
    uint64_t seed;    /* of the order of samples when alone */
    struct es_optimizer optimizer;
    int n_params, n_stats;
    const struct es_tensor *params; /* [n_params] */
    const struct es_tensor *stats;  /* [n_stats]: running means and variances; may be NULL */
};

struct es_run {
    int rank, workers;
    int resumed;               /* 1: parameters are those of a checkpoint or of the other ranks */
    int ahead;                 /* slices that es_next gives before es_begin of the first of them */
    int64_t global_batch;      /* the job's, which may differ from what was asked */
    int64_t epoch, step;       /* where the run goes on */
    uint64_t seed;             /* the same on all ranks */
    int64_t n_params, n_stats; /* floats */
    float *params, *grads;     /* [n_params]; the library's, until the process ends */
    float *stats;              /* [n_stats] */
    const void *state; /* what the program gave to es_state before, or NULL; until es_leave */
    size_t state_bytes;
};

/* Joins the run: tells the rank what the program is, and gives the block. Blocks until the rank
 * answers (the others may still be starting). If every parameter has `initial`, es_start is part of
 * it. Twice in one process is an error. Needs: parameters, a global batch. */
int es_join(const struct es_about *about, struct es_run *run);

/* The block holds the program's own first parameters and statistics; returns when it holds those
 * that everybody starts from. Blocks until all ranks are there. */
int es_start(void);

/* ---- a step ---------------------------------------------------------------------------------- */

struct es_slice {
    int64_t epoch, number;  /* number counts this rank's slices; -1: no step belongs to it, it only
                               says that the epoch is over: do not begin it */
    int64_t start, count;   /* start: where in its epoch it begins if each step has the global
                               batch (where a worker was lost, later ones have a little more); count
                               may be 0 */
    int64_t step_count;     /* samples of all ranks in this step; 0: not known (a server) */
    const int64_t *indices; /* [count]: which samples; the library's until es_begin of the slice
                               `ahead` numbers later */
    int epoch_last;         /* 1: the epoch's last one for this rank; where the run's end was not
                               known yet, one of number -1 may follow */
};

/* How many epochs the program wants, if es_about did not say. Before es_start. INFINITY: the job's
 * epochs hold if it names some; else slices go on to come until the program leaves (es_leave),
 * which it does at an epoch's end, and all ranks after the same one. */
int es_epochs(double epochs);

/* The same of a program that may make more epochs, in a second phase: it leaves (es_leave) at the
 * end of its last one, and all ranks after the same. The number is for the job's page; it may be
 * told again, between two epochs. */
int es_epochs_at_least(double epochs);

/* 1 and the next slice; 0: none comes any more, the job is done or stopped. Blocks until the rank
 * has one; up to run.ahead of them may be taken before es_begin of the first, and one more behind
 * it, but under a server. */
int es_next(struct es_slice *slice);

enum { ES_SAVE = 1, ES_OVER = 2 };
/* The program now works on this slice, and all that belongs to the step before (optimizer, rates)
 * is done: parameters may be averaged or saved meanwhile, and have their new values when it
 * returns. Blocks if the rank holds the program for that. 0: go on. ES_SAVE: give the program's own
 * state by es_state, then call the same function again. ES_OVER: the job was stopped; make no step,
 * and leave. A pass that is still open is given up as by es_abort: a program whose optimizer steps
 * once for several slices calls es_gradients or es_held_back for each of them. */
int es_begin(int64_t number);

/* 1: the next es_begin (or es_leave) waits for the rank, which then reads the block's parameters
 * and may change them; 0: it does not. es_epoch_end always does. For a program that keeps its
 * parameters elsewhere and copies them. */
int es_holds(void);

enum { ES_KEPT = 6 };
/* Figures of the program's own in the block, *figures[ES_KEPT]: 0 at first, and a process that the
 * same rank starts again finds them as the one before left them. For a few that are newer than the
 * last state that the rank has asked for; nobody else reads them. They stay the library's. */
int es_kept(double **figures);

/* One more backward pass over the slice begun last, before its optimizer step: its gradients alone
 * go into run.grads and are summed too, and the program adds what es_gradients left there before.
 * All ranks make the same number of passes. It weighs the slice's samples, or what es_weight says.
 * For strategies in which the optimizer steps on gradients; others end the job with a sentence. */
int es_again(void);

/* What this pass's gradient weighs in the mean over ranks, if not its number of samples (tokens).
 * Before es_ready. 0: it is left out. With a loss that is a sum, what it is multiplied with: 1
 * unless it is set. */
int es_weight(double weight);

/* The program waited `seconds` for the samples of the slice begun last (its loader was slow): they
 * are shown as loading data, not as computing. Several calls add up. Between es_begin and
 * es_gradients; a program that loads before es_begin tells it after. */
int es_loading(double seconds);

/* Gradients of parameter tensor `index` are in the block; once for each, in any order. The exchange
 * of a bucket begins when the last of its tensors is ready; that of the bucket that is ready last
 * begins with es_gradients. Never blocks for other ranks. */
int es_ready(int index);

/* 1: es_gradients needs the gradients in run.grads. 0: this rank is the only one of a strategy that
 * sums (or the program runs alone), and what it would find there afterwards is what it put there: a
 * program that has its gradients elsewhere need not copy them in and out, as long as a pass does
 * not weigh 0. The same during a run. */
int es_takes_gradients(void);

/* 1: es_gradients sums over several ranks, and es_held_back costs the same exchange, so a program
 * that accumulates may let each slice's gradients be summed. 0: a server takes what es_gradients
 * gives as a step, or nodes step by themselves. The same during a run. */
int es_sums_gradients(void);

/* Of nothing but a loss: {.samples = -1, .loss = loss, .correct = -1, .learning_rate = NAN}. */
struct es_result {
    int64_t samples;      /* that the slice really had; -1: its count */
    double loss;          /* mean over them; NaN: not known */
    double correct;       /* classified correctly; negative: not known */
    double learning_rate; /* that the next step uses; NaN: not known */
};

enum es_go {
    ES_GO_STEP = 0,       /* make the optimizer step with what is in run.grads now */
    ES_GO_SKIP = 1,       /* leave it out: run.params are new already */
    ES_GO_DIFFERENCE = 2, /* make it with your own gradients, then put parameters before minus after
                            into run.grads and the parameters back to what they were before, and
                            call es_difference. Under hpsgd with momentum, and under a server
                            where the optimizer is not plain SGD (es_optimizer.server) */
    ES_GO_VOID = 3, /* leave it out: the backward pass failed on some rank. run.params stay, and
                      run.grads mean nothing */
    ES_GO_SAVE = 4 /* with has_state: a program of another rank is started again and needs the state
                      as this slice found it, which that program makes once more: without its
                      step, and without its gradients where they are kept (es_held_back). Give it
                      by es_state, then call the same function again */
};
/* All gradients are in the block: tensors of which es_ready was not called count as ready. Blocks
 * until the rank answers (sync: until all ranks' gradients are summed). result may be NULL. */
int es_gradients(const struct es_result *result);

/* Answers ES_GO_DIFFERENCE; run.params are the new ones when it returns. */
int es_difference(void);

/* Instead of es_gradients: the program keeps this slice's gradients and adds a later slice's
 * (accumulation). It makes no optimizer step before that. 0, or ES_GO_SAVE. What was kept goes out
 * with the later slice and weighs what that one weighs: if it has another part of its step, scale
 * what was kept by count / step_count of its own slice over that of the later one. A process that
 * is started again gets, with another rank's state, what that rank has kept; where each slice's
 * gradients are summed and the sums are added (es_gradients, and a step after some of them) nothing
 * is lost. */
int es_held_back(const struct es_result *result);

/* Instead of es_gradients: the pass failed half way. Where gradients are summed no rank makes this
 * step, else this one alone leaves it out; always ES_GO_SKIP. */
int es_abort(void);

/* The loop over an epoch's slices has ended. Blocks until what follows (an evaluation) sees
 * averaged parameters. Returns as es_begin does. A program that evaluates after each epoch:
 *
 *   while (es_next(&slice) == 1) {
 *       if (slice.number >= 0) { es_begin(slice.number); … es_gradients(&result); … }
 *       if (slice.epoch_last && es_epoch_end(slice.epoch) == 0) { … es_log(json); }
 *   }
 *   es_leave();
 */
int es_epoch_end(int64_t epoch);

/* es_next and es_begin in one, es_epoch_end after an epoch's last slice, and es_leave when there
 * are none any more; for a program that takes no slice ahead and has no state of its own. Slices
 * without samples come too: put zeros into run.grads. Returns as es_next, in the next epoch
 * already: what is logged in this loop counts for the evaluation behind that one (es_epoch_end). */
int es_step(struct es_slice *slice);

/* ---- telling, saving, leaving ---------------------------------------------------------------- */

/* Metrics for the job's page, a JSON object of numbers by name: {"test_accuracy": 0.98}. They may
 * be a job's target. JSON has no NaN: such a value is the text "nan", "inf" or "-inf". Never blocks
 * for other ranks. */
int es_log(const char *json);

/* Answers ES_SAVE and ES_GO_SAVE: the program's own state (optimizer, random numbers), any bytes;
 * it gets them back as run.state when it is started again. Copied; NULL, 0: it has none. */
int es_state(const void *bytes, size_t n);

/* The program is done with training. Blocks for a last save; returns as es_begin does. The block
 * stays mapped. Leaving twice is harmless; ending without it counts as a crash. */
int es_leave(void);

/* The program cannot go on, and says why; instead of es_leave. It is started again, up to three
 * times in a row. */
int es_failed(const char *sentence);
/* The same of an exception: what it says ("KeyError: 'x'"), and the file and line of the program
 * that raised it (NULL, 0: not known), which are then fields of the job's error. */
int es_raised(const char *sentence, const char *exception, const char *file, int line);
/* As es_failed, where another try would end in the same way (what the program wants cannot be
 * done): it is not started again, and the job fails with this sentence. */
int es_refused(const char *sentence);

#ifdef __cplusplus
}
#endif

#endif
