/* What the files behind survival.h share. Each calls only those below it:
 *
 *   survival.c    a worker is lost or comes back: follow the keeper's verdict
 *   gift.c        the giver sends to workers that are behind
 *   hand_over.c   what it sends to a newcomer besides
 *   join.c        a newcomer and the members connect to each other
 *   talk.c        messages to and from the keeper, and to another worker that may die
 *   onward.c      the same verdict where replicas keep their steps between averages
 *   decided.c     what every verdict changes: members, words, evaluation
 *   noted.c       what a worker notes while nobody is lost
 */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PARTS_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PARTS_H

#include "worker/exchange/lockstep/survival/past.h"
#include "worker/exchange/lockstep/survival/survival.h"
#include "worker/exchange/own_state_messages.h"

/* What a giver sends along with floats: the words of the last step, and its evaluation. */
struct gift {
    float loss, correct;
    int32_t stop, pause, checkpoint, evaluate;
    int32_t left, any; /* lockstep.at.left; the last survival_note_answer() */
    int64_t test_samples;
    double test_loss, test_accuracy;
};

/* What a giver and the others agreed on in the last average: assignments. */
struct agreed {
    int32_t version, next_version;
    int32_t sizes[SPEC_WORKERS], next_sizes[SPEC_WORKERS];
};

/* A verdict about lost workers that takes effect when this worker has made step `after`. */
struct loss {
    int64_t after;
    struct members members;
    int32_t newly[LOST_MOST], n_newly; /* [n_newly] the ranks that this verdict removes */
    int64_t held[LOST_MOST];           /* [n_newly] the last step of each that is in a replica */
    int64_t summed;                    /* by rounds: the last step that all have summed */
    int32_t version, sizes[SPEC_WORKERS];
};

struct survival {
    struct lockstep *l;
    struct gradients *g;   /* NULL for averages */
    bool sums;             /* g keeps its sums: a step is summed again instead of computed again */
    struct rollback *back; /* for averages: the last one; owned; else NULL */
    struct past *past;     /* where replicas keep their steps; owned; else NULL */
    struct gift said;      /* words of the last step, without the evaluation */
    int64_t evaluations;   /* in this attempt */
    int64_t exchanges;     /* as in struct standing */
    survival_give_up_fn *give_up;
    void *give_up_ctx;
    /* with `past`: */
    enum meeting meeting;   /* the exchange that this rank makes */
    int64_t grouped;        /* last step that its group has averaged; 0: none since the last
                                      average over all */
    int32_t group_averages; /* averages of its group since the last one over all */
    struct loss *losses;    /* [n_losses] that have not taken effect, in their order; owned */
    int n_losses;
    struct undone undone;          /* for survival_take_undone() */
    double *taken;                 /* see survival_new_of_averages(); borrowed */
    const struct round_sums *lent; /* by rounds; borrowed; else NULL */
    bool took_sum;                 /* for survival_took_sum() */
    /* Counts [workers], in one allocation that `made` owns: */
    struct tally *made;  /* in this attempt, up to the last point that all have in common */
    struct tally *since; /* for averages: since the last average; by rounds: in the current round */
    struct tally *launched; /* by rounds: from that point up to the last round's end */
    int64_t *last;          /* samples of the last step */
    /* The keeper, and other workers: */
    struct members members;        /* of the last verdict */
    bool torn;                     /* the replica is not usable */
    bool is_new;                   /* a newcomer that is no member yet */
    uint8_t reached[SPEC_WORKERS]; /* seat of each rank's process to which this one is connected */
    struct worker_word word;       /* as sent last */
    struct verdict heard;          /* as received last */
    bool listens;                  /* `ear` is receiving the keeper's next message */
    struct message ear;
};

/* ---- decided.c ------------------------------------------------------------------------------- */
/* Is this rank a member in the keeper's last message, and has the coordinator declared its process
 * lost? */
bool survival_is_lost(const struct survival *s, int rank);
/* Rebuilds the ring from these members. Messages of earlier rounds are ignored from now on. */
void survival_take_members(struct survival *s, const struct members *m);
/* Takes stop, pause, checkpoint and evaluate from `said`. */
void survival_take_words(struct survival *s);
/* Takes the evaluation of the verdict's step if this rank is behind. A new first worker reports it
 * to the keeper. */
int survival_take_evaluation(struct survival *s, const struct verdict *v, bool behind,
                             struct err *e);

/* ---- noted.c --------------------------------------------------------------------------------- */
/* Adds the samples of the step of `l` to to[workers]. */
void survival_count_step(const struct survival *s, struct tally *to);
/* Sets the counts since the last average to zero. made: adds them to `made` before. */
void survival_forget_interval(struct survival *s, bool made);
/* All have averaged: empties the list of steps. */
void survival_begin_interval(struct survival *s);
/* By rounds: removes the steps that all have summed from that list. */
void survival_trim_past(struct survival *s);

/* ---- onward.c -------------------------------------------------------------------------------- */
/* Follows the verdict where replicas keep their steps. given: giver and receiver have completed
 * their transfer; else one of them was lost, and another verdict follows. */
int survival_go_onward(struct survival *s, const struct verdict *v, bool given, struct err *e);
/* Adds the figures of this rank's group to its next answer. */
void survival_tell_group(struct survival *s);

/* ---- talk.c ---------------------------------------------------------------------------------- */
/* Receives the keeper's next message into s->heard. Blocks for as long as others compute. */
int survival_hear(struct survival *s, struct err *e);
/* Begins to receive it, unless that has begun. */
void survival_listen(struct survival *s);
/* Cancels that. */
void survival_listen_no_more(struct survival *s);
/* Answers KEEPER_ASKS. */
int survival_answer(struct survival *s, struct err *e);
int survival_say_finished(struct survival *s, struct err *e);
int survival_say_ready(struct survival *s, struct err *e);
enum given { GIVEN, PEER_LOST };
/* Waits for a message to or from another worker, until it is lost: enum given, or negative. `s` is
 * a struct survival, since this is an own_state_wait_fn. */
int survival_wait_for_peer(void *s, struct message *m, struct err *e);
/* Sends data of a fixed size to a worker (give), or receives it, with such a wait. */
int survival_pass(struct survival *s, int peer, bool give, void *data, size_t bytes, struct err *e);

/* ---- gift.c ---------------------------------------------------------------------------------- */
/* Send to those that are behind, and receive from the giver: enum given, or negative. */
int survival_give(struct survival *s, const struct verdict *v, struct err *e);
int survival_take(struct survival *s, const struct verdict *v, struct err *e);

/* ---- hand_over.c ----------------------------------------------------------------------------- */
/* Sends a newcomer where the giver stands. For users' programs also the steps that were cut in
 * advance, and the state from which its program goes on. enum given, or negative. */
int survival_give_stand(struct survival *s, int to, struct err *e);
/* Receives that. *averages: as in struct standing. */
int survival_take_stand(struct survival *s, int giver, int64_t *averages, struct err *e);

/* ---- join.c ---------------------------------------------------------------------------------- */
/* On a newcomer: connects to all members. They accept when the keeper asks them. */
int survival_reach(struct survival *s, struct err *e);
/* On a member: accepts the newcomers that the keeper named. */
int survival_let_in(struct survival *s, struct err *e);
/* Has a question of the keeper arrived? Begins to listen once a lost worker was started again. */
bool survival_is_asked(struct survival *s);

#endif
