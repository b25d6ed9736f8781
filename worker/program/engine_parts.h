/* The engine that a user's program computes for: the state that its files share, and what each of
 * them does. A file calls only those below it:
 *
 *     engine.c        the functions of engine_ops: start, evaluation, end
 *     state.c         fetches the program's own state
 *     settle.c        waits until the program stands still, so that its parameters may be read
 *     start/return.c  starts the program of a worker that comes back
 *     start/again.c   starts the next process of a program that has ended
 *     step/first.c    a step: the program's first backward pass, from BEGIN to GRADIENTS
 *     step/further.c  a further backward pass over the step before
 *     step/pass.c     what both passes need: weights and buckets
 *     step/ahead.c    sends slices before their steps
 *     step/ended.c    the program has ended: does the rank go on?
 *     step/granted.c  steps that it makes without waiting for an answer
 *     step/kept.c     the parameters from which its next process starts
 *     step/talk.c     messages to and from the program
 *     step/marks.c    checksums of the parameters: does the program change them by itself?
 */
#ifndef WORKER_PROGRAM_ENGINE_PARTS_H
#define WORKER_PROGRAM_ENGINE_PARTS_H

#include "worker/program/step/metrics.h"
#include "worker/program/program.h"

/* What the program does, as far as the rank knows. */
enum doing {
    WORKS,     /* it runs: the rank has sent START, GO or CONTINUE and heard nothing since */
    AWAITS_GO, /* it has sent GRADIENTS and waits for GO */
    HELD,      /* it has sent BEGIN, EPOCH_END or LEAVE and waits for CONTINUE */
    GONE       /* it has left */
};

/* Where the next process of a program that has ended gets its parameters (again.c). */
enum source { FROM_KEPT, FROM_SERVER, FROM_OTHERS };

/* What the program may be doing to the parameters in the block, after its last GO. */
enum own_step {
    NO_STEP,       /* nothing */
    OWN_STEP,      /* its optimizer makes the step of slice `answered` */
    OWN_DIFFERENCE /* its optimizer makes a step, whose difference is sent, and takes it back */
};

/* Steps that the program may make without GO, once its parameters are kept (granted.c). */
struct granted {
    int64_t last; /* the slice of the last one; before `number`: none */
    int in_row;   /* steps that were made so, with nothing between them */
    double at;    /* when the program said so of the last one, in seconds of CLOCK_MONOTONIC */
    double each;  /* seconds from one to the next */
};

enum {
    GRANTED_MOST = 8,  /* steps that are granted at a time */
    MEASURED_FIRST = 3 /* measurements of its CPU time before several steps are granted */
};

struct program_engine {
    struct engine base;
    struct program *p; /* borrowed */
    struct program_device device;
    struct dev_replica replica;
    enum doing doing;
    uint32_t held_at; /* HELD: the type of the message that it sent */
    bool holding;     /* WORKS: it was told to wait after its next message */
    uint32_t go;      /* flags of the GO that is due */
    bool quits;       /* the strategy lets it leave before its epochs are over */
    bool early;       /* it has done so */
    bool ends;        /* the run ends, and was not stopped */

    /* The step, and its slices: */
    int64_t number;  /* of the current slice */
    int64_t sent;    /* slices that were sent */
    int64_t unended; /* the epoch whose end is sent next; -1: that of the next slice */
    uint32_t told[AHEAD_MOST + 2]; /* by number modulo p->slots: EPOCH_LAST and RUN_LAST, as sent */
    struct wire_message slices[AHEAD_MOST + 2]; /* by number modulo p->slots, as sent */
    bool begun;                                 /* BEGIN of the current slice has come */
    int marked;                                 /* buckets of this step that the strategy has */
    double rate;                                /* the learning rate that the program sent last */
    bool made;                                  /* the program made the last step without GO */
    struct granted granted;

    /* Several backward passes over a step: */
    int passes;        /* summed of slice `answered` */
    int passes_before; /* of the slice before */
    int passes_usual;  /* of each of the last two; 0: they differ */
    bool several;      /* a step had more than one */
    bool stays_void;   /* no pass over the step before lets the optimizer step */
    bool asks;         /* before each pass all ranks ask whether one more follows */
    bool follows;      /* they have asked, and one follows that this rank has not summed */

    /* What the strategy makes of gradients: */
    bool differences; /* it gets differences in place of gradients */
    bool summed;      /* it sums them before the optimizer steps */
    bool averages;    /* nodes make steps by themselves; all average where a loop over steps ends */
    double of_sum;    /* factor from this rank's sum over its samples to that of the whole step; 1:
                         the loss is a mean, or `summed` */

    /* What is measured: */
    struct metrics metrics;
    bool paced;       /* steps are lengthened (emulated slowdown) */
    int64_t measured; /* how often its CPU time was measured */
    double each;      /* CPU seconds a sample */
    struct {
        double from;     /* child_cpu() when the first of the steps began */
        int64_t samples; /* of the steps that are made since */
        int steps;
    } cpu;             /* of the measurement under way */
    double longest;    /* seconds from GO to GRADIENTS, at most so far; 0: not known */
    double usual;      /* the same as usual: first_usual() */
    double began_pass; /* clock_now() when the current pass began */
    int64_t here;      /* steps that this process has made */

    /* A program that has ended, and its next process: */
    enum source source;
    enum own_step own_step;
    int64_t answered, begun_last; /* the last slice whose GRADIENTS, and BEGIN, came; -1: none */
    int64_t kept_before;          /* the slice during whose pass `kept` was copied; -1: none */
    float *kept;    /* [n_params + n_stats] the next process starts from them; owned or NULL */
    bool lost;      /* the process has ended; another one is started when it is needed */
    bool returned;  /* FROM_SERVER: the other one waits for START; `lost` is still true */
    struct err why; /* how the last process ended, as a sentence and as data */
    struct program_end why_end;
    int crashes;  /* in a row */
    int own_ends; /* of these, ends that were the program's own doing */
    int64_t good; /* steps since the last crash */

    /* marks.c: */
    float
        *given; /* [2 n_marks] checksums of the parameters that were sent, and later ones; owned */
    size_t n_marks;
    bool gave;      /* `given` belongs to this step */
    bool told_lost; /* the log has said that changes are lost */
};

/* Slice `number` as it was sent; one of the last p->slots. */
static inline struct wire_message *slice_sent(struct program_engine *g, int64_t number)
{
    return &g->slices[number % g->p->slots];
}

/* EPOCH_LAST and RUN_LAST of it, sent with the slice or after it. */
static inline uint32_t *slice_told(struct program_engine *g, int64_t number)
{
    return &g->told[number < 0 ? 0 : number % g->p->slots];
}

/* ---- marks.c --------------------------------------------------------------------------------- */

/* As engine_ops.mark and .differs. */
bool marks_write(struct program_engine *g, float *out);
int marks_differ(struct program_engine *g, size_t mark, double off, struct err *e);
/* Where the strategy makes the step, changes that the program makes by itself are lost. The log
 * says so once. marks_give: the program receives parameters. marks_take: its gradients of them have
 * come. */
int marks_init(struct program_engine *g, struct err *e);
void marks_give(struct program_engine *g);
void marks_take(struct program_engine *g);

/* ---- talk.c ---------------------------------------------------------------------------------- */

/* Receives the next message. Those that may come at any time (program_aside) are dealt with. */
int talk_hear(struct program_engine *g, struct wire_message *m, struct err *e);
/* The same; *fd: the descriptor that came along, which the caller closes, or -1. */
int talk_hear_with(struct program_engine *g, struct wire_message *m, int *fd, struct err *e);
/* Sends a message. */
int talk_say(struct program_engine *g, uint32_t type, uint32_t flags, struct err *e);
/* Sends GO or CONTINUE with these flags, whichever the program waits for; else nothing. */
int talk_go_on(struct program_engine *g, uint32_t flags, struct err *e);
/* Fails if the program may not leave after slice `last` (-1: before any). Sets g->early. */
int talk_check_leave(struct program_engine *g, int64_t last, struct err *e);
/* Does the program make no further step? It has left, or its loop over steps has ended within an
 * epoch. */
bool talk_has_quit(const struct program_engine *g);
/* Fails if a program that left early ends with a status other than 0 (`sys.exit(1)`). */
int talk_check_status(struct program_engine *g, struct err *e);
/* Both set the error and return it: the message was not expected here, the program ended early. */
int talk_unexpected(const struct program_engine *g, const struct wire_message *m, struct err *e);
int talk_ended_early(const struct program_engine *g, struct err *e);

/* ---- kept.c ---------------------------------------------------------------------------------- */

/* Where the next process of this job's programs gets its parameters. */
enum source kept_source(const struct jobspec *spec);
/* Do the programs of this job copy their parameters themselves (WIRE_KEEP)? Else their ranks do. */
bool kept_by_program(const struct jobspec *spec);
/* Allocates g->kept, if it is NULL. ERR_MEMORY. */
int kept_make_room(struct program_engine *g, struct err *e);
/* The process has ended: fills g->kept for the next one, and sets g->own_step: whether that one
 * makes the step of `answered` once more. */
int kept_save(struct program_engine *g, struct err *e);
/* Copies parameters and statistics from the block to g->kept. */
int kept_take(struct program_engine *g, struct err *e);
/* The reverse. */
void kept_put_back(struct program_engine *g);
/* BEGIN of the current slice has come: the parameters do not change until its step. */
void kept_begun(struct program_engine *g);
/* Called in the middle of a pass. BEGIN may come as late as GRADIENTS, but the block says whether
 * the program has begun. If it has, this copies its parameters while it computes, and grants the
 * step if it may be granted. ctx: the engine. */
void kept_glance(void *ctx);

/* ---- granted.c ------------------------------------------------------------------------------- */

/* The current slice begins, and so many steps from it on are sure (struct work). */
void granted_begin(struct program_engine *g, int sure);
/* The last slice whose step may be made without GO; -1: not even the current one's. */
int64_t granted_now(const struct program_engine *g);
/* Writes this where the program reads it; one that has made no step yet is granted none. */
void granted_tell(struct program_engine *g);
/* GRADIENTS of the current slice came, and the rank has waited so many seconds for them. Where it
 * is alone, how long the step took is told by the clock of the program: the rank may have slept. */
void granted_made(struct program_engine *g, const struct wire_message *m, double waited);
/* The program did something else between two steps, or another process makes the next. */
void granted_break(struct program_engine *g);

/* ---- ended.c --------------------------------------------------------------------------------- */

/* Call it when a call has failed with rc and *e. If the program has ended and may be started again,
 * it returns 0 and sets g->lost; else it returns rc. */
int ended_survive(struct program_engine *g, int rc, struct err *e);
/* Are the parameters in the block those after the last step? */
bool ended_is_known(const struct program_engine *g);
/* Sets *e to how the last process ended, as a sentence and as data. */
void ended_give_why(const struct program_engine *g, struct err *e);
/* Returns -ERR_PROGRAM: the programs of all ranks ended in one step, so no rank has a state. */
int ended_all(struct program_engine *g, struct err *e);
/* Returns the error of a program for which no other rank has a state. */
int ended_no_state(const struct program_engine *g, struct err *e);

/* ---- ahead.c --------------------------------------------------------------------------------- */

/* Sends the parts [n] of the steps that follow those that were sent. */
int ahead_send(struct program_engine *g, const struct part *parts, int n, struct err *e);
/* Sends the parts of w that the program does not have yet. */
int ahead_load(struct program_engine *g, const struct work *w, struct err *e);
/* Sends the end of an epoch, or of the run, that was not known when its last slice was sent. */
int ahead_send_end(struct program_engine *g, uint32_t flags, int64_t epoch, struct err *e);

/* ---- pass.c ---------------------------------------------------------------------------------- */

/* Makes the gradients in the block those on which the optimizer steps, in strategies that do not
 * sum them: a sum over this rank's samples becomes that of the whole step. */
void pass_make_whole(struct program_engine *g);

/* ---- further.c ------------------------------------------------------------------------------- */

/* The program has begun a further backward pass over the step before (WIRE_AGAIN): follows it to
 * its GO, which has these flags too. */
int further_sum(struct program_engine *g, uint32_t flags, struct err *e);
/* As engine_ops.resume, for a process that was started again in the middle of step `answered`: it
 * repeats the passes that were summed, without a step of its optimizer, and makes the next one. */
int further_rejoin(struct program_engine *g, struct work *w, struct err *e);

/* ---- first.c --------------------------------------------------------------------------------- */

/* Returns the new usual time of a pass after one of `took` seconds: it falls fast and rises slowly.
 * made: the program made the step without GO. */
double first_usual(double usual, double took, bool made);
/* As engine_ops.compute. */
int first_compute(struct program_engine *g, struct work *w, struct dev_result *out,
                  dev_mark_fn *mark, void *ctx, struct err *e);

/* ---- again.c --------------------------------------------------------------------------------- */

int again_init(struct program_engine *g, struct err *e);
/* As engine_ops.load. A process that waits for its slice (g->returned) goes on. */
int again_load(struct program_engine *g, const struct work *w, struct err *e);
/* As engine_ops.compute, with a program that may end meanwhile. */
int again_compute(struct program_engine *g, struct work *w, struct dev_result *out,
                  dev_mark_fn *mark, void *ctx, struct err *e);
/* FROM_OTHERS: as engine_ops.resume. */
int again_resume(struct program_engine *g, struct work *w, const struct own_state *state,
                 struct dev_result *out, double *compute_s, struct err *e);
/* FROM_OTHERS: as rank_env.take. again_compute() or again_end() starts the process. */
int again_take(struct program_engine *g, const struct own_state *state, struct err *e);
/* Before the run's end: starts a process that is due, and lets one go on that waits. */
int again_end(struct program_engine *g, struct err *e);
/* FROM_KEPT: starts the next process from g->kept. `next` is the slice that is due; the step before
 * it is repeated if it was not made. hold: flags of that step's GO. */
int again_go_on(struct program_engine *g, int64_t next, uint32_t hold, struct err *e);
/* Does the next process begin at an epoch's end, with the evaluation? That is so if the step before
 * slice `first` was the epoch's last one, unless the state comes from ranks that have evaluated. */
bool again_ends_epoch(struct program_engine *g, int64_t first);

/* ---- return.c -------------------------------------------------------------------------------- */

/* As engine_ops.enter. */
int return_enter(struct program_engine *g, const struct entrance *at, const struct own_state *state,
                 struct err *e);

/* ---- settle.c -------------------------------------------------------------------------------- */

/* Returns when the program has made its step and stands still, so that its parameters may be read.
 * If it ends meanwhile, its next process does the same, or is not started yet (g->lost). */
int settle_step(struct program_engine *g, struct err *e);
/* As ended_survive(), when a call within settle_step() has failed with rc and *e. */
int settle_survive(struct program_engine *g, int rc, struct err *e);
/* settle_step() on all ranks before an evaluation. A rank whose program ends takes part in the
 * further passes that the others make over the step. */
int settle_all(struct program_engine *g, struct err *e);

/* ---- state.c --------------------------------------------------------------------------------- */

/* Returns when the program stands still where its next step begins, or where it leaves. Also when
 * it has ended: well, without a LEAVE, or otherwise (g->lost). */
int state_stand(struct program_engine *g, struct err *e);
/* As rank_env.own_state: asks the program for its state after state_stand(). */
int state_take(struct program_engine *g, struct own_state *out, struct err *e);
/* As rank_env.give. A program that waits for GO gives its state before that step; for one that is
 * held it returns 0 or OWN_STATE_AT_EPOCH_END. ERR_PEER: it does neither. */
int state_give(struct program_engine *g, struct own_state *out, struct err *e);

#endif
