/* evenstep.h: calls that make your training program distributed.
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
 * A program that was not started by Evenstep runs alone (es_alone): the same calls hand out every
 * sample of every epoch in a shuffled order, es_gradients() answers ES_GO_STEP at once, and nothing
 * else happens.
 *
 * Calls return 0 or more on success and -1 on failure. Then es_error() says in a sentence what
 * failed, and the program cannot go on with the run. One thread calls at a time. A forked child
 * cannot use the library: its socket is closed there, and its calls fail. A signal does not end a
 * wait.
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

/* The error of the last call that failed, as a sentence; "": no call has failed. Valid until the
 * next call fails. */
const char *es_error(void);

/* 0: a rank started this program. 1: it runs alone, because EVENSTEP_SOCKET is not set or this is a
 * child of a program that has joined. Never fails. */
int es_alone(void);

/* ---- join ------------------------------------------------------------------------------------ */

struct es_tensor {
    const char *name;       /* UTF-8; NULL: the tensor's number is its name */
    int dims;               /* 0: a single number */
    const int64_t *shape;   /* [dims] */
    const int64_t *strides; /* NULL: row-major; else [dims], in floats, dense */
    const float *initial;   /* NULL, or its first values: es_join copies them into the block */
    int no_decay;           /* 1: weight decay does not apply to it */
    int mean_of;            /* statistics: 1 + the entry whose variance this is, 0: a mean */
};

struct es_optimizer {
    const char *name; /* "SGD", for people; may be NULL */
    int server;       /* 1: a parameter server can make the same update by the figures below: SGD
                         with one rate, one decay and no dampening */
    double learning_rate, momentum, weight_decay;
    int nesterov;
};

/* What a program says about itself. Set what you know, and zero the rest. The caller owns
 * everything in it, and may free it once es_join has returned. */
struct es_about {
    int abi;               /* ES_ABI */
    const char *framework; /* "torch 2.15.0"; may be NULL */
    int64_t samples;       /* in an epoch; 0: a stream of unknown length */
    int64_t global_batch;  /* samples of one step of all ranks together */
    int ahead;             /* slices that the program asks for before it works on them; 0: 1 */
    int drop_last;         /* 1: leaves out an epoch's last, smaller step */
    int in_order;          /* 1: samples are visited in their order, not shuffled */
    int sums;              /* 1: gradients are sums over samples; 0: means */
    int has_state;    /* 1: es_begin and its like may return ES_SAVE, es_gradients ES_GO_SAVE */
    int stack_signal; /* makes the program write its stacks to stderr; 0: there is none */
    double epochs;    /* 0: unknown yet, or until the job's own end */
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
    int64_t global_batch;      /* the job's, which may differ from the requested one */
    int64_t epoch, step;       /* where the run continues */
    uint64_t seed;             /* the same on all ranks */
    int64_t n_params, n_stats; /* floats */
    float *params, *grads;     /* [n_params]; the library's, until the process ends */
    float *stats;              /* [n_stats] */
    const void *state;         /* the program's last es_state, or NULL; valid until es_leave */
    size_t state_bytes;
};

/* Joins the run: describes the program to the rank, and fills *run. Blocks until the rank answers;
 * other ranks may still be starting. Calls es_start too if every parameter has `initial`. A process
 * may join once. Required: parameters and a global batch. */
int es_join(const struct es_about *about, struct es_run *run);

/* Call it when the block holds the program's own first parameters and statistics. On return the
 * block holds the values from which all ranks start. Blocks until all ranks have called it. */
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

/* Says how many epochs the program wants, if es_about did not. Call it before es_start. INFINITY:
 * the number that the job names; if it names none, slices continue until the program leaves
 * (es_leave). It must then leave at an epoch's end, after the same epoch on all ranks. */
int es_epochs(double epochs);

/* The same for a program that may make further epochs in a second phase. It must leave (es_leave)
 * at the end of its last epoch, after the same epoch on all ranks. The job's page shows the number.
 * Call it again between two epochs to change the number. */
int es_epochs_at_least(double epochs);

/* Gives the next slice. 1: here it is; 0: there is none, because the job is done or was stopped.
 * Blocks until the rank has one. Before es_begin of the first slice, up to run.ahead slices may be
 * taken; after each es_begin one more, except under a server. */
int es_next(struct es_slice *slice);

enum { ES_SAVE = 1, ES_OVER = 2 };
/* Begins slice `number`. Call it when the previous step is complete (optimizer, rates): the rank
 * may now average or save parameters, which have their new values on return. Blocks while the rank
 * needs them. 0: continue. ES_SAVE: give the program's own state by es_state, then call the same
 * function again. ES_OVER: the job was stopped; make no step, and leave. If the pass over the
 * previous slice is still open, es_begin abandons it like es_abort. So a program whose optimizer
 * steps once for several slices must call es_gradients or es_held_back for each of them. */
int es_begin(int64_t number);

/* For a program that keeps its parameters elsewhere and copies them. 1: in the next es_begin (or
 * es_leave) the rank reads the parameters in the block, and may change them; 0: it does not. In
 * es_epoch_end it always reads them. */
int es_holds(void);

enum { ES_KEPT = 6 };
/* *figures[ES_KEPT]: some numbers in the block for the program's own use, 0 at first. A process
 * that the same rank starts again finds the values of the process before it, which may be newer
 * than the last state that the rank has asked for. Nobody else reads them. The library owns
 * them. */
int es_kept(double **figures);

/* Begins a further backward pass over the current slice, before its optimizer step. The program
 * puts only the gradients of this pass into run.grads; they are summed over ranks too. It then adds
 * the gradients that the previous es_gradients left there. All ranks make the same number of
 * passes. The weight is the slice's samples, or that of es_weight. Only for strategies whose
 * optimizer steps on gradients; others end the job with an error. */
int es_again(void);

/* Sets the weight of this pass's gradient in the mean over ranks, if it is not the number of
 * samples (tokens, for example). Call it before es_ready. 0 leaves the gradient out. If the loss is
 * a sum, the weight is the gradient's factor, 1 by default. */
int es_weight(double weight);

/* Says that the program has waited `seconds` for the samples of the current slice. They count as
 * loading data, not as computing. Several calls add up. Call it between es_begin and es_gradients,
 * even if the samples were loaded before es_begin. */
int es_loading(double seconds);

/* Says that the gradients of parameter tensor `index` are in the block. Call it once per tensor, in
 * any order. The exchange of a bucket begins when all its tensors are ready; that of the last
 * bucket begins with es_gradients. Never blocks for other ranks. */
int es_ready(int index);

/* 1: es_gradients needs the gradients in run.grads. 0: es_gradients would not change them, because
 * the program runs alone or on the only rank of a strategy that sums. A program with its gradients
 * elsewhere then need not copy them, except in a pass of weight 0. The answer is the same during
 * the whole run. */
int es_takes_gradients(void);

/* 1: es_gradients sums over several ranks. es_held_back then costs the same exchange, so a program
 * that accumulates may have the gradients of each slice summed. 0: a server makes a step from each
 * es_gradients, or nodes step by themselves. The answer is the same during the whole run. */
int es_sums_gradients(void);

/* If only the loss is known: {.samples = -1, .loss = loss, .correct = -1, .learning_rate = NAN}. */
struct es_result {
    int64_t samples;      /* in the slice, if it really had fewer; -1: its count */
    double loss;          /* mean over the samples; NaN: unknown */
    double correct;       /* classified correctly; negative: unknown */
    double learning_rate; /* of the next step; NaN: unknown */
};

enum es_go {
    ES_GO_STEP = 0,       /* make the optimizer step with the gradients in run.grads */
    ES_GO_SKIP = 1,       /* make no step: run.params are new already */
    ES_GO_DIFFERENCE = 2, /* make the step with your own gradients; then put parameters before minus
                            after into run.grads, set the parameters back, and call es_difference.
                            Under hpsgd with momentum, and under a server if the optimizer is not
                            plain SGD (es_optimizer.server) */
    ES_GO_VOID = 3, /* leave it out: the backward pass failed on some rank. run.params stay, and
                      run.grads mean nothing */
    ES_GO_SAVE = 4  /* with has_state: the program of another rank was started again, repeats this
                      slice, and needs the state from the slice's beginning: without this step, and
                      without the gradients of this slice if you accumulate (es_held_back). Give it
                      by es_state, then call the same function again */
};
/* Says that all gradients are in the block; tensors without es_ready count as ready. Blocks until
 * the rank answers (sync: until the gradients of all ranks are summed). Returns enum es_go. result
 * may be NULL. */
int es_gradients(const struct es_result *result);

/* Call it after ES_GO_DIFFERENCE. On return run.params are the new ones. */
int es_difference(void);

/* Call it instead of es_gradients to accumulate. The program keeps the gradients of this slice and
 * adds them to those of a later one; until then it makes no optimizer step. Returns 0, or
 * ES_GO_SAVE. The kept gradients are sent with the later slice and have its weight. If that slice
 * is a different part of its step, scale the kept ones: by count / step_count of their own slice,
 * over that of the later one. A process that is started again gets another rank's state, and with
 * it what that rank has kept. Summing the gradients of each slice instead (es_gradients for each,
 * and a step after some of them) loses nothing. */
int es_held_back(const struct es_result *result);

/* Call it instead of es_gradients when the pass has failed. If gradients are summed, no rank makes
 * this step; otherwise only this rank leaves it out. Returns ES_GO_SKIP. */
int es_abort(void);

/* Says that the loop over an epoch's slices has ended. Blocks until an evaluation that follows
 * would see averaged parameters. Returns as es_begin does. A program that evaluates after each
 * epoch:
 *
 *   while (es_next(&slice) == 1) {
 *       if (slice.number >= 0) { es_begin(slice.number); … es_gradients(&result); … }
 *       if (slice.epoch_last && es_epoch_end(slice.epoch) == 0) { … es_log(json); }
 *   }
 *   es_leave();
 */
int es_epoch_end(int64_t epoch);

/* es_next and es_begin in one, for a program that takes no slice ahead and has no state of its own.
 * It calls es_epoch_end after an epoch's last slice, and es_leave after the run's last one. For
 * slices without samples, put zeros into run.grads. Returns as es_next does. After an epoch it
 * returns in the next one, so metrics logged in this loop count for the next evaluation. */
int es_step(struct es_slice *slice);

/* ---- logging, saving, leaving ---------------------------------------------------------------- */

/* Logs metrics: a JSON object of numbers by name, {"test_accuracy": 0.98}. test_accuracy and
 * test_loss, or val_accuracy and the like, are an evaluation of the job, which may have one as its
 * target; every other number is a metric of the job, of which rank 0's values are shown. JSON has
 * no NaN: write such a value as the text "nan", "inf" or "-inf". Never blocks for other ranks. */
int es_log(const char *json);

/* Call it after ES_SAVE and ES_GO_SAVE with the program's own state (optimizer, random numbers), in
 * any format. The bytes are copied. The program gets them back as run.state when it is started
 * again. NULL, 0: it has no state. */
int es_state(const void *bytes, size_t n);

/* Says that the program has finished training. Blocks for a last save; returns as es_begin does.
 * The block stays mapped. Leaving twice is harmless; ending without leaving counts as a crash. */
int es_leave(void);

/* Call it instead of es_leave when the program cannot continue, with the reason. It is started
 * again, up to three times in a row. */
int es_failed(const char *sentence);
/* The same for an exception: its text ("KeyError: 'x'"), and the program's file and line that
 * raised it (NULL, 0: unknown). They become fields of the job's error. */
int es_raised(const char *sentence, const char *exception, const char *file, int line);
/* As es_failed, when another try would fail in the same way. The program is not started again; the
 * job fails with this sentence. */
int es_refused(const char *sentence);

#ifdef __cplusplus
}
#endif

#endif
