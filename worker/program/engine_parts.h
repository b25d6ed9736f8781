/* What the parts of a program's engine share, and no one else: its state, and what each part does
 * with it. A part calls only parts below it:
 *
 *     engine.c        the trainer's table: start, evaluation, end
 *     state.c         the program's own state
 *     settle.c        the program stands still, and what it has may be read
 *     start/return.c  the program of a worker that has come back
 *     start/again.c   the next process of one that ended, and the step that it comes back in
 *     step/first.c    one step: the program's first backward pass, from BEGIN to GRADIENTS
 *     step/further.c  one more pass over the step before
 *     step/pass.c     what both passes take: weights and buckets
 *     step/ahead.c    slices that are sent before their step
 *     step/ended.c    a program ended: whether the rank goes on
 *     step/kept.c     what its next process starts from
 *     step/talk.c     what is said and heard: messages, holds, GO
 *     step/marks.c    whether the program changes parameters in a way of its own
 */
#ifndef WORKER_PROGRAM_ENGINE_PARTS_H
#define WORKER_PROGRAM_ENGINE_PARTS_H

#include "worker/program/step/metrics.h"
#include "worker/program/program.h"

/* What the program does, as far as the rank knows. */
enum doing {
    WORKS,     /* between START, GO or CONTINUE and what it says next */
    AWAITS_GO, /* it has sent GRADIENTS */
    HELD,      /* it has sent BEGIN, EPOCH_END or LEAVE and waits for CONTINUE */
    GONE       /* it has left */
};

/* Who has the parameters when a program has ended (again.c). */
enum source { FROM_KEPT, FROM_SERVER, FROM_OTHERS };

/* What the program's optimizer does to the parameters in the block. */
enum own_step {
    NO_STEP,  /* nothing: they are what the rank put there, or what the program says they are */
    OWN_STEP, /* it makes the step of slice `answered` */
    OWN_DIFFERENCE /* it makes a step and takes it back */
};

struct program_engine {
    struct engine base;
    struct program *p; /* borrowed */
    struct program_device device;
    struct dev_replica replica;
    enum doing doing;
    uint32_t held_at;          /* HELD: the type of what it said */
    bool holding;              /* WORKS: it was told to wait at what it says next */
    uint32_t go;               /* flags of the GO that is due */
    bool stays_void;           /* no pass over the step before lets the optimizer step */
    int passes, passes_before; /* summed of step `answered`; of the one before, all */
    int passes_usual;          /* of each of the two before, 0: they differ */
    bool several;              /* a step before had more than one */
    bool asks;                 /* all ranks ask before one more, or that none follows */
    bool follows;              /* they have asked: one more pass follows, which this rank has
                                      not summed */
    bool differences;          /* the strategy gets them in place of gradients */
    bool summed;               /* it sums gradients before it lets the optimizer step */
    double of_sum;             /* factor from this rank's sum over its samples to the sum of the
                                      whole step; 1: its loss is a mean, or `summed` */
    int64_t number, sent;      /* of the step under way; slices that were sent */
    int64_t unended;           /* the epoch whose end is told next; -1: that of the next slice */
    uint32_t told[AHEAD_MOST + 2]; /* by number modulo p->slots: EPOCH_LAST and RUN_LAST of slices
                                      that were sent */
    struct wire_message slices[AHEAD_MOST + 2]; /* by number modulo p->slots, as they were sent */
    bool begun;                                 /* BEGIN came for the step under way */
    bool grants;   /* the program may make it without GO, once its parameters are kept */
    bool made;     /* it made the last one so */
    bool paced;    /* its steps are lengthened (emulated slowdown) */
    bool quits;    /* the strategy lets it leave before its epochs are over */
    bool early;    /* it has done so */
    bool ends;     /* the run ends, and nobody stopped it */
    bool averages; /* nodes step by themselves: where a loop over steps ends, all average */
    int marked;    /* its buckets that were handed over */
    double rate;   /* that the program told last */
    struct metrics metrics;
    int64_t measured;  /* steps whose CPU time is in `each` */
    double each;       /* CPU seconds a sample */
    double longest;    /* seconds of a step, from GO to GRADIENTS; 0: not known yet */
    double usual;      /* the same of most steps: first_usual */
    double began_pass; /* clock_now() when the step under way began */
    int64_t here;      /* steps that this process has made */
    /* again.c */
    enum source source;
    enum own_step own_step;
    int64_t answered, begun_last; /* slices: GRADIENTS came, BEGIN came; -1: none */
    int64_t kept_before; /* slice that had begun when `kept` was made in its pass; -1: none */
    float *kept;    /* [n_params + n_stats] that the next process starts from; owned; may be NULL */
    bool lost;      /* the process has ended; another one is started when it is needed */
    bool returned;  /* FROM_SERVER: another one waits for START; still lost */
    struct err why; /* how the process ended last, as a sentence and as data */
    struct program_end why_end;
    int crashes;  /* in a row */
    int own_ends; /* those of them that were the program's own doing */
    int64_t good; /* steps since the last crash */
    /* marks.c */
    float *given; /* [2 n_marks] of the parameters that were given, and then; owned */
    size_t n_marks;
    bool gave, told_lost; /* `given` holds for this step; a change was told */
};

/* Slice `number` as the program has it: one of the last `slots` that were sent. */
static inline struct wire_message *slice_sent(struct program_engine *g, int64_t number)
{
    return &g->slices[number % g->p->slots];
}

/* What the program was told of it, with its message or behind it: EPOCH_LAST, RUN_LAST. */
static inline uint32_t *slice_told(struct program_engine *g, int64_t number)
{
    return &g->told[number < 0 ? 0 : number % g->p->slots];
}

/* ---- marks.c --------------------------------------------------------------------------------- */

/* As engine_ops.mark and .differs. */
bool marks_write(struct program_engine *g, float *out);
int marks_differ(struct program_engine *g, size_t mark, double off, struct err *e);
/* Where the strategy makes the step, what the program changes by itself is lost, which is told
 * once. give: the program gets parameters; take: its gradients on them are there. */
int marks_init(struct program_engine *g, struct err *e);
void marks_give(struct program_engine *g);
void marks_take(struct program_engine *g);

/* ---- talk.c ---------------------------------------------------------------------------------- */

/* The next message that is not done aside. */
int talk_hear(struct program_engine *g, struct wire_message *m, struct err *e);
/* The same with the descriptor that came along, the caller's, or -1. */
int talk_hear_with(struct program_engine *g, struct wire_message *m, int *fd, struct err *e);
int talk_say(struct program_engine *g, uint32_t type, uint32_t flags, struct err *e);
/* Lets it go on from where it stands; `flags` of GO or CONTINUE. */
int talk_go_on(struct program_engine *g, uint32_t flags, struct err *e);
/* An error if it may not leave yet, after slice `last` (-1: before any). g->early gets whether it
 * leaves before its epochs are over. */
int talk_check_leave(struct program_engine *g, int64_t last, struct err *e);
/* It makes no step any more: it has left, or its loop over steps has ended within an epoch. */
bool talk_has_quit(const struct program_engine *g);
/* A program that left early and ends with a status other than 0 (`sys.exit(1)`) has failed. */
int talk_check_status(struct program_engine *g, struct err *e);
/* Both make the error and return it. */
int talk_unexpected(const struct program_engine *g, const struct wire_message *m, struct err *e);
int talk_ended_early(const struct program_engine *g, struct err *e);

/* ---- kept.c ---------------------------------------------------------------------------------- */

/* Who has the parameters of a job's programs, besides themselves. */
enum source kept_source(const struct jobspec *spec);
/* Whether a job's programs copy their parameters themselves (WIRE_KEEP), or else their ranks. */
bool kept_by_program(const struct jobspec *spec);
/* Makes room for g->kept, if there is none. ERR_MEMORY. */
int kept_make_room(struct program_engine *g, struct err *e);
/* The process has ended: g->kept becomes what the next one starts from, and g->own_step says
 * whether that makes the step of `answered` once more. */
int kept_save(struct program_engine *g, struct err *e);
/* g->kept becomes what stands in the block, and the reverse. */
int kept_take(struct program_engine *g, struct err *e);
void kept_put_back(struct program_engine *g);
/* After BEGIN of the step under way: the parameters stand still until it is made. */
void kept_begun(struct program_engine *g);
/* Called in the middle of a pass. The block tells whether the program has begun before BEGIN does,
 * which may come as late as GRADIENTS. If it has, its parameters are copied while it computes, and
 * not while it waits; and it need not wait if the rank grants the step. ctx: the engine. */
void kept_glance(void *ctx);

/* ---- ended.c --------------------------------------------------------------------------------- */

/* A call has failed with rc and *e. If the program has ended and may be started again: 0, and it is
 * `lost`; else rc. */
int ended_survive(struct program_engine *g, int rc, struct err *e);
/* Are the parameters in the block those after the last step? */
bool ended_is_known(const struct program_engine *g);
/* *e becomes how the program that ended last did, as a sentence and as data. */
void ended_give_why(const struct program_engine *g, struct err *e);
/* ERR_PROGRAM: those of all ranks ended in one step, so there is nothing to go on from. */
int ended_all(struct program_engine *g, struct err *e);
/* The error of a program that would have to go on from a state that no other one gives. */
int ended_no_state(const struct program_engine *g, struct err *e);

/* ---- ahead.c --------------------------------------------------------------------------------- */

/* Sends the parts [n] of the steps behind those that were sent. */
int ahead_send(struct program_engine *g, const struct part *parts, int n, struct err *e);
/* Sends what the strategy has fixed and the program does not have yet. */
int ahead_load(struct program_engine *g, const struct work *w, struct err *e);
/* An end that was not known when the slice before it was sent. */
int ahead_send_end(struct program_engine *g, uint32_t flags, int64_t epoch, struct err *e);

/* ---- pass.c ---------------------------------------------------------------------------------- */

/* What stands as gradients in the block becomes what the program steps on, in strategies that do
 * not sum them. */
void pass_make_whole(struct program_engine *g);

/* ---- further.c ------------------------------------------------------------------------------- */

/* The program began one more backward pass over the step before (WIRE_AGAIN): follows it to its GO,
 * which has these flags too. */
int further_sum(struct program_engine *g, uint32_t flags, struct err *e);
/* A process that was started again in the middle of step `answered` goes through the passes that
 * were summed, which its optimizer leaves out, and makes the next one: as engine_ops.resume. */
int further_rejoin(struct program_engine *g, struct work *w, struct err *e);

/* ---- first.c --------------------------------------------------------------------------------- */

/* The new usual time of a pass, after a pass that took `took` seconds: falls fast, rises slowly. */
double first_usual(double usual, double took, bool made);
/* As engine_ops.compute. */
int first_compute(struct program_engine *g, struct work *w, struct dev_result *out,
                  dev_mark_fn *mark, void *ctx, struct err *e);

/* ---- again.c --------------------------------------------------------------------------------- */

int again_init(struct program_engine *g, struct err *e);
/* As engine_ops.load; a process that waits for its slice (g->returned) goes on. */
int again_load(struct program_engine *g, const struct work *w, struct err *e);
/* As engine_ops.compute, of a program that may end meanwhile. */
int again_compute(struct program_engine *g, struct work *w, struct dev_result *out,
                  dev_mark_fn *mark, void *ctx, struct err *e);
/* FROM_OTHERS, as engine_ops.resume. */
int again_resume(struct program_engine *g, struct work *w, const struct own_state *state,
                 struct dev_result *out, double *compute_s, struct err *e);
/* FROM_OTHERS, as rank_env.take: the process that again_compute() or again_end() starts goes on
 * from what another rank gave. */
int again_take(struct program_engine *g, const struct own_state *state, struct err *e);
/* Before the run's end: a process that is due, or waits, goes on. */
int again_end(struct program_engine *g, struct err *e);
/* FROM_KEPT: starts the next process from the parameters that are kept; `next` is the slice that is
 * due, and the step before it is made again if it was not made. `hold`: flags of that step's GO. */
int again_go_on(struct program_engine *g, int64_t next, uint32_t hold, struct err *e);
/* The step before `first` is made, but the epoch that it ended is not: its evaluation is due. Not
 * where the others have made it, since the state that they give is one from behind it. */
bool again_ends_epoch(struct program_engine *g, int64_t first);

/* ---- return.c -------------------------------------------------------------------------------- */

/* As engine_ops.enter: the program of a worker that has come back begins. */
int return_enter(struct program_engine *g, const struct entrance *at, const struct own_state *state,
                 struct err *e);

/* ---- settle.c -------------------------------------------------------------------------------- */

/* Returns when the program stands still with its step made: its parameters may be read. If it ends
 * on the way, its next process goes the same way, or is yet to come (g->lost). */
int settle_step(struct program_engine *g, struct err *e);
/* A call within that has failed with rc and *e: as ended_survive(), and the program that stands
 * still may be another one by then. */
int settle_survive(struct program_engine *g, int rc, struct err *e);
/* settle_step() on all ranks before an evaluation: one whose program ends goes along with the
 * passes that the others still make over the step. */
int settle_all(struct program_engine *g, struct err *e);

/* ---- state.c --------------------------------------------------------------------------------- */

/* Returns when the program stands still, where its next step begins or where it leaves; or has
 * ended well without saying that it leaves; or, g->lost, otherwise. */
int state_stand(struct program_engine *g, struct err *e);
/* As rank_env.own_state: asks the program that stands so. */
int state_take(struct program_engine *g, struct own_state *out, struct err *e);
/* The same of a program that waits for GO: its state before that step; or that is held: 0, or
 * OWN_STATE_AT_EPOCH_END. ERR_PEER: it is neither. */
int state_give(struct program_engine *g, struct own_state *out, struct err *e);

#endif
