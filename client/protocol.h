/* The protocol between a user's program and its rank: what libevenstep (client/lib) and the rank's
 * side of it (worker/program) agree on. Nothing but libc is needed to include it.
 *
 *   program                                   rank (evenstep-worker started the program)
 *   JOIN + description (memfd) ─────────────►
 *              ◄───────────── WELCOME + block (memfd) + state of the program (memfd, or none)
 *   READY  (block holds its parameters) ────►
 *              ◄───────────── START  (block holds everybody's parameters)
 *   ┌          ◄───────────── SLICE  (which samples; comes ahead of its step)
 *   │ BEGIN  (the step before is complete) ─►   held: SAVE, STATE …, CONTINUE
 *   │ BUCKET … BUCKET, GRADIENTS ───────────►   sums them over all ranks, or pushes them
 *   │          ◄───────────── GO  (make your optimizer step, or leave it out)
 *   └ next step
 *   EPOCH_END, LEAVE ───────────────────────►
 *              ◄───────────── SAVE, CONTINUE
 *   LOG (at any time) ──────────────────────►
 *
 * The rank sends at least one slice in advance: SLICE n + 1 leaves before GO n, so that a BEGIN can
 * follow every GO. EPOCH_END is sent once for each epoch, after the step of the slice with
 * WIRE_EPOCH_LAST and before any BEGIN of the next epoch, and is always answered. LEAVE is answered
 * only while held.
 *
 * The socket is AF_UNIX, SOCK_SEQPACKET, at the path in EVENSTEP_SOCKET: one message is one packet
 * of sizeof(struct wire_message) bytes; a file descriptor travels with SCM_RIGHTS. Texts longer
 * than a message travel in a memfd of their own. The rank owns the block, a memfd that cannot
 * shrink or grow, and both sides map it. The block has the floats and the positions of samples;
 * everything else is in messages. Byte order and layout are those of the machine, since both sides
 * run on one host.
 *
 * A step takes one blocking round trip (GRADIENTS to GO): slices come in advance, and BEGIN and
 * BUCKET are not answered. With one bucket it is one packet each way: GRADIENTS can stand for its
 * BEGIN (WIRE_WITH_BEGIN), and GO can bring a slice (WIRE_WITH_SLICE). A rank that is alone can
 * spare the program the wait (WIRE_MADE). A program must expect a SLICE between any two messages
 * from the rank.
 */
#ifndef CLIENT_PROTOCOL_H
#define CLIENT_PROTOCOL_H

#include <stdatomic.h>
#include <stdint.h>

/* Raised when a message, the block or the description changes its meaning. */
#define WIRE_VERSION 4
#define WIRE_MAGIC 0x45564e53u /* "EVNS" */

enum wire_type {
    /* ---- program to rank ---- */
    WIRE_JOIN = 1,  /* first message; fd: the description, JSON text (see below) */
    WIRE_READY,     /* the block's parameters and statistics are the program's initial ones */
    WIRE_BEGIN,     /* .slice: the program begins to work on this slice; everything that it does
                       after a step (optimizer, scheduler) is done for the step before */
    WIRE_BUCKET,    /* .bucket: its gradients are in the block; any order. None comes for a slice
                       whose GRADIENTS says WIRE_HELD_BACK, and none need come for those that are
                       complete with GRADIENTS */
    WIRE_GRADIENTS, /* all of them are there: .gradients. Answered by GO */
    WIRE_EPOCH_END, /* .slice.epoch: the program's loop over that epoch's slices ended. Answered by
                       CONTINUE, so that what follows (evaluation) sees the averaged parameters.
                       -1: a loop that counts steps ended within an epoch */
    WIRE_EPOCHS,    /* .epochs: how many the program wants in all; before the first slice is asked.
                    Infinite: it does not know. Where the job names none either, or with WIRE_MORE,
                    the program LEAVEs in place of the BEGIN that would follow its last epoch's
                    end */
    WIRE_LOG,       /* fd: JSON object of metrics, as es_log takes it */
    WIRE_STATE,     /* answers SAVE; fd: the program's own state, any bytes; no fd: it has none */
    WIRE_LEAVE,     /* training is done and nothing follows. Answered by CONTINUE if held */
    WIRE_FAILED,    /* fd: a sentence; the program cannot go on. Of an exception also .failed, and
                       what it says behind the sentence, after a NUL */
    /* ---- rank to program ---- */
    WIRE_WELCOME = 64, /* .welcome; fd: the block, and after it the state to go on from if
                          WIRE_HAS_STATE */
    WIRE_START,        /* the block's parameters are those to start from */
    WIRE_SLICE,        /* .slice: the samples of a step of this rank */
    WIRE_GO,           /* answers GRADIENTS: flags say what the program does now */
    WIRE_SAVE,         /* only after BEGIN, EPOCH_END or LEAVE while held, or, where JOIN's "state"
                          is true, after GRADIENTS (another rank's program is started again and
                          goes on from this one's state): give your state */
    WIRE_CONTINUE,     /* ends a hold */
    WIRE_REFUSED       /* fd: a sentence: why the program cannot join or go on. The rank closes */
};

enum wire_flags {
    WIRE_HAS_STATE = 1,    /* WELCOME: a second fd is the state that the program saved */
    WIRE_RESUMED = 2,      /* WELCOME: the run goes on from a checkpoint, or after a crash of the
                            program; START's parameters are newer than the program's */
    WIRE_SKIP_STEP = 4,    /* GO: the parameters are new already: leave the optimizer step out */
    WIRE_HOLD = 8,         /* GO, CONTINUE: after the next BEGIN, EPOCH_END or LEAVE wait for
                            CONTINUE */
    WIRE_DIFFERENCE = 16,  /* GO: make the step now, put (parameters before - after) in place of the
                            gradients and the parameters back to what they were before, send
                            GRADIENTS again with the same flag; a GO with WIRE_SKIP_STEP follows */
    WIRE_EPOCH_LAST = 32,  /* SLICE: the last one of its epoch for this rank */
    WIRE_RUN_LAST = 64,    /* SLICE: nothing comes after it */
    WIRE_STOP = 128,       /* SLICE, GO, CONTINUE: the job was stopped or paused: leave */
    WIRE_NOT_FINITE = 256, /* GRADIENTS: the loss is NaN or infinite */
    WIRE_NO_STEP = 512,    /* SLICE: no step belongs to it, and no number; it only says EPOCH_LAST,
                              RUN_LAST or STOP. Without it a count of 0 is a step with gradients of
                              zero, in which the optimizer uses what the other ranks had */
    WIRE_AGAIN = 1024,     /* BEGIN: one more backward pass over the slice before (.slice.number is
                              its own): its gradients alone are summed like a step's, and the
                              program adds what the GO before left in the block; no new samples
                              count. All ranks do it, or none. For strategies that sum gradients;
                              others answer GO at once where gradients stay local, or refuse */
    WIRE_HELD_BACK = 2048, /* GRADIENTS: the program keeps what this slice gave and adds a later
                              slice's to it (no_sync): nothing is summed, the samples count as done.
                              The program makes no optimizer step before a slice without it */
    WIRE_VOID = 4096,      /* GRADIENTS: the backward pass failed half way. Where gradients are
                              summed nobody makes this step: GO says VOID and SKIP_STEP on every
                              rank, and the parameters stay; else this rank alone leaves its step
                              out. The samples count as done */
    WIRE_WITH_BEGIN = 8192,  /* GRADIENTS: this slice's BEGIN, without flags, stands before it */
    WIRE_WITH_SLICE = 16384, /* GO: a SLICE stands before it: .slice, and its flags beside GO's */
    WIRE_OWN_GRADIENTS = 32768, /* WELCOME: the rank is the only one of a strategy that sums, so it
                                   reads and changes gradients only of a pass that weighs 0: no
                                   BUCKET need come */
    WIRE_MADE =
        65536, /* GRADIENTS: the program makes this step by `granted` (struct wire_shared): no
                         GO answers it. No other flag but WITH_BEGIN stands beside it */
    WIRE_FINAL = 131072, /* FAILED: it would fail in the same way if it were started again */
    WIRE_MORE = 262144,  /* EPOCHS: so many at least; more may follow, and then EPOCHS comes again,
                          between two epochs, with their number */
    WIRE_SUMS = 1048576, /* WELCOME: several ranks sum the gradients of each pass before GO, those
                            of one that says WIRE_HELD_BACK as zeros */
    WIRE_KEEP = 524288   /* WELCOME: nobody else has the parameters, and they are few. The program
                          copies parameters and statistics to the end of the block before each step
                          of its own (wire_keep_at, struct wire_shared) */
};

struct wire_message {
    uint32_t type, flags;
    union {
        struct {
            uint32_t magic, version;  /* of both sides */
            int32_t pid, incarnation; /* the program's; how many joined before it in this rank */
        } join;
        struct {
            uint32_t magic, version;
            int32_t rank, workers;
            int64_t global_batch; /* the job's: what the program's loader asked, or the spec's */
            int64_t block_bytes;
            /* where in the block, in bytes; all aligned to 64 */
            int64_t params, grads, stats, buckets, indices;
            int64_t n_params, n_stats; /* floats */
            int32_t n_buckets;         /* struct wire_bucket [n_buckets] at `buckets` */
            int32_t slots, ahead;      /* int64 [slots][global_batch] at `indices`; slices that
                                           come ahead of their step at most */
            int64_t epoch, step;       /* where the run goes on; 0, 0: a fresh run */
            uint64_t seed;             /* the job's: for what all ranks draw alike */
        } welcome;
        struct {
            int64_t epoch, number; /* number: counts this rank's slices, from 0 */
            int64_t start, count;  /* start: where in its epoch it begins, in steps of the global
                                      batch each; count may be 0 (see WIRE_NO_STEP) */
            int64_t step_count;    /* samples of all ranks in this step; 0: not known (a server) */
            int32_t slot;          /* of the indices, [count] of them */
        } slice;
        struct {
            int64_t number;       /* of its slice */
            int64_t samples;      /* what the program really had in it */
            double weight;        /* what its gradient weighs: samples, or tokens (weight(n)); 0 or
                                     more, and 0: it is left out */
            double loss;          /* mean over the samples; NaN: not known */
            double correct;       /* samples classified correctly; negative: not known */
            double learning_rate; /* of the first parameter group; NaN: not known */
            double loading;       /* seconds of the pass in which it waited for its samples */
            double at;            /* when it is sent: seconds of CLOCK_MONOTONIC */
        } gradients;
        struct {
            double weight; /* as .gradients.weight; it is known before the first bucket */
            int32_t index;
        } bucket;
        struct {
            int32_t line;  /* of the file, where the exception was raised; 0: not known */
            char file[96]; /* without a NUL if it fills this */
        } failed;
        double epochs;
        uint8_t room[128];
    };
};

/* The block begins with it.
 * `begun`: number of the slice that the program begins; -1 before the first. The program writes it
 *     before BEGIN, and does not change its parameters from there to GO; so a rank may read them
 *     before it is told.
 * `granted`: the rank's, -1 at first: steps of slices up to this number may be made without GO
 *     (WIRE_MADE), since nothing but the next step follows each of them. The rank may grant several
 *     and then hear of them late. With WIRE_OWN_GRADIENTS alone. Not for a pass that weighs 0, is
 *     not finite, or is one more over its slice.
 * `copied`: with WIRE_KEEP, the slice before whose step the program has copied its parameters; -1
 *     before the first. It writes the number behind the copy, and before it says MADE or steps.
 * `kept`: the program's own figures, 0 at first, which the rank neither reads nor changes. */
struct wire_shared {
    _Atomic int64_t begun, granted, copied;
    double kept[6];
};

/* Where the copy of WIRE_KEEP stands in the block: floats [n_params], [n_stats]. */
static inline int64_t wire_keep_at(const struct wire_message *welcome)
{
    int64_t floats = welcome->welcome.n_params + welcome->welcome.n_stats,
            bytes = (floats * (int64_t)sizeof(float) + 63) / 64 * 64;
    return welcome->welcome.block_bytes - bytes;
}

/* A contiguous range of the flat gradients. Bucket 0 is ready first: the last tensors. */
struct wire_bucket {
    int64_t first, count; /* floats */
};

/* The description in JOIN, a JSON object:
 *   {"framework": "torch 2.15.0", "samples": 60000, "global_batch": 64, "ahead": 2,
 *    "drop_last": false, "shuffle": true, "epochs": null, "reduction": "mean",
 *    "state": true, "stack_signal": 12,
 *    "optimizer": {"type": "sgd", "name": "SGD", "learning_rate": 0.1, "momentum": 0.9,
 *                  "nesterov": false, "weight_decay": 0.0005},
 *    "parameters": [{"name": "fc1.weight", "shape": [128, 784], "decay": true}, …],
 *    "statistics": [{"name": "bn1.running_mean", "shape": [64], "mean_of": -1},
 *                   {"name": "bn1.running_var", "shape": [64], "mean_of": 0}, …]}
 * "samples" null: a stream without a known length. "reduction": with "mean" the sum over ranks is
 * sum(weight x gradient) / sum(weight); with "sum" it is sum(weight x gradient), where a weight is
 * 1 unless the program says otherwise; where gradients stay local, or are pushed, the sum over a
 * slice is made that of the whole step, by samples. A program whose slice is empty sends zeros with
 * weight 0. "state": SAVE is worth asking.
 * "stack_signal": this signal makes the program write its stacks to stderr (0: none does).
 * "optimizer"."type" is "sgd" where the server's rule can make the same update (one rate, one decay
 * for all that decays, no dampening), else "other". "statistics" of a variance name the entry that
 * is its mean. A tensor that is not in row-major order has "strides" (floats). Tensors stand in the
 * block in this order, one after the other, without gaps. All ranks' descriptions must be alike but
 * for "samples" of sharded data.
 */

#endif
