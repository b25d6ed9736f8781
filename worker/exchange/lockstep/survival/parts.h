/* The files of survival.h. Each calls only those below it:
 *
 *   survival.c    what is done after a loss or a return
 *   gift.c        what a worker that is behind gets of the one that gives
 *   hand_over.c   what one that comes back gets besides
 *   join.c        how a worker that comes back and the others reach each other
 *   talk.c        words with the keeper, messages with another worker
 *   onward.c      what is done where replicas keep their steps between averages
 *   decided.c     what a verdict decides for every worker
 *   noted.c       what is noted while all is well
 */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PARTS_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PARTS_H

#include "worker/exchange/lockstep/survival/past.h"
#include "worker/exchange/lockstep/survival/survival.h"
#include "worker/exchange/own_state_messages.h"

/* What a giver tells with what it gives: words of the last step and of its evaluation. */
struct gift {
    float loss, correct;
    int32_t stop, pause, checkpoint;
    int32_t left, any; /* any: what survival_note_answer() was told */
    int64_t test_samples;
    double test_loss, test_accuracy;
};

/* What a giver has agreed with the others by its last average. */
struct agreed {
    int32_t version, next_version;
    int32_t sizes[SPEC_WORKERS], next_sizes[SPEC_WORKERS];
};

/* Who is lost, for the step behind which all go on without. */
struct loss {
    int64_t after;
    struct members members;
    int32_t newly[LOST_MOST], n_newly; /* [n_newly] those of them that had a part before */
    int64_t held[LOST_MOST];           /* [n_newly] what they had up to that step is in a replica */
    int64_t summed;                    /* by rounds: the step up to which all have summed */
    int32_t version, sizes[SPEC_WORKERS];
};

struct survival {
    struct lockstep *l;
    struct gradients *g;
    bool sums;              /* gradients keep their sums: a step is summed again, not computed */
    struct rollback *back;  /* all go back to the last average; owned; NULL: they do not */
    struct past *past;      /* replicas keep their steps, and `back` what all had last; owned */
    enum meeting meeting;   /* with it, as all here: the exchange that this rank makes */
    int64_t grouped;        /* the last step that the group has averaged since; 0: none */
    int32_t group_averages; /* since then, too */
    struct loss *losses;    /* [n_losses] that are still to come, in their order; owned */
    int n_losses;
    struct undone undone;          /* that was not told yet */
    const struct round_sums *lent; /* with `past` by rounds; borrowed */
    bool took_sum;                 /* and it was not told yet */
    int64_t evaluations;           /* in this attempt */
    struct members members;        /* since the last verdict */
    int64_t exchanges;             /* as in struct standing */
    int64_t *last;      /* [workers] samples of the step that was made last; owned by `made` */
    struct tally *made; /* [workers] in this attempt, by the step that all stand at; owned,
                           with those behind it: */
    survival_give_up_fn *give_up;
    void *give_up_ctx;
    double *taken;       /* with `past`: see survival_new_of_averages(); borrowed */
    struct tally *since; /* [workers] since the last average, where all go back to it, or round */
    struct tally *launched; /* [workers] by rounds: since the mark up to the last round's end */
    struct gift said;       /* without the evaluation */
    bool torn;              /* the replica is not usable */
    bool is_new;            /* this worker has come back, has made no step, and takes no part yet */
    uint8_t reached[SPEC_WORKERS]; /* of each rank the seat of the process that messages go to */
    struct worker_word word;
    struct verdict heard;
    bool listens; /* the keeper's next word is being received: */
    struct message ear;
};

/* ---- decided.c ------------------------------------------------------------------------------- */
/* Is this rank among the members that the keeper named last, and has the coordinator declared its
 * process lost? */
bool survival_is_lost(const struct survival *s, int rank);
/* Takes part in no other round than this one from now on. */
void survival_take_members(struct survival *s, const struct members *m);
/* What the sums of an average say besides sizes. */
void survival_take_words(struct survival *s);
/* The evaluation of the verdict's step: this rank lacks it, or may have to tell it. */
int survival_take_evaluation(struct survival *s, const struct verdict *v, bool behind,
                             struct err *e);

/* ---- noted.c --------------------------------------------------------------------------------- */
/* Adds the samples of the step of `l` to to[workers]. */
void survival_count_step(const struct survival *s, struct tally *to);
/* Since the last average; made: the steps up to where others stand are. */
void survival_forget_interval(struct survival *s, bool made);
/* All have averaged. */
void survival_begin_interval(struct survival *s);
/* By rounds: all have summed what lies before the mark. */
void survival_trim_past(struct survival *s);

/* ---- onward.c -------------------------------------------------------------------------------- */
/* Does as the keeper has decided, where replicas keep their steps. given: the giver and this rank
 * had what they needed of each other; else another verdict follows. */
int survival_go_onward(struct survival *s, const struct verdict *v, bool given, struct err *e);
/* Adds what this rank knows of its group to what it answers. */
void survival_tell_group(struct survival *s);

/* ---- talk.c ---------------------------------------------------------------------------------- */
/* The keeper's next word, into s->heard. Blocks for as long as others compute. */
int survival_hear(struct survival *s, struct err *e);
/* Begins to receive it, if it did not yet, or ends that. */
void survival_listen(struct survival *s);
void survival_listen_no_more(struct survival *s);
/* Tells where this rank stands. */
int survival_answer(struct survival *s, struct err *e);
int survival_say_finished(struct survival *s, struct err *e);
int survival_say_ready(struct survival *s, struct err *e);
enum given { GIVEN, PEER_LOST };
/* Waits for a message to or from another worker; `s` is a struct survival: an own_state_wait_fn. */
int survival_wait_for_peer(void *s, struct message *m, struct err *e);
/* Data of a fixed size to one worker, or from one, by such a wait. */
int survival_pass(struct survival *s, int peer, bool give, void *data, size_t bytes, struct err *e);

/* ---- gift.c ---------------------------------------------------------------------------------- */
/* To those that are behind, and from the giver: enum given, or negative. */
int survival_give(struct survival *s, const struct verdict *v, struct err *e);
int survival_take(struct survival *s, const struct verdict *v, struct err *e);

/* ---- hand_over.c ----------------------------------------------------------------------------- */
/* Where the giver stands, to a worker that comes back; where sums are kept also the steps that were
 * cut, and what its program goes on from. enum given, or negative. */
int survival_give_stand(struct survival *s, int to, struct err *e);
/* *averages: as in struct standing. */
int survival_take_stand(struct survival *s, int giver, int64_t *averages, struct err *e);

/* ---- join.c ---------------------------------------------------------------------------------- */
/* Called by a newcomer: connects to the ranks that the keeper named, which let it in when they are
 * asked. */
int survival_reach(struct survival *s, struct err *e);
/* Called by the others: connects to the workers that the keeper says have come back. */
int survival_let_in(struct survival *s, struct err *e);
/* Has the keeper asked, since one has come back? Listens from when one is expected. */
bool survival_is_asked(struct survival *s);

#endif
