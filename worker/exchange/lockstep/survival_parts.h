/* The two files of survival.h: survival.c (what is noted while all is well, and what is done after
 * a loss) and survival_talk.c (words with the keeper, floats from one worker to another). */
#ifndef WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PARTS_H
#define WORKER_EXCHANGE_LOCKSTEP_SURVIVAL_PARTS_H

#include "worker/exchange/lockstep/survival.h"

/* What a giver tells with what it gives: words of the last step and of its evaluation. */
struct gift {
    float loss, correct;
    int32_t stop, pause, checkpoint;
    int32_t left;
    int64_t test_samples;
    double test_loss, test_accuracy;
};

struct survival {
    struct lockstep *l;
    struct gradients *g;
    bool sums;             /* gradients keep their sums: a step is summed again, not computed */
    struct rollback *back; /* all go back to the last average; owned; NULL: they do not */
    int round;             /* workers that were dropped */
    struct tally *made;    /* [workers] in this attempt, by the step that all stand at; owned,
                           with those behind it: */
    survival_give_up_fn *give_up;
    void *give_up_ctx;
    struct tally *since; /* [workers] since the last average, where all go back to it, or round */
    struct tally *launched; /* [workers] by rounds: since the mark up to the last round's end */
    struct gift said;       /* but for the evaluation */
    bool torn;              /* the replica is none */
    bool behind;            /* it was brought to the step of the last verdict */
    struct worker_word word;
    struct verdict heard;
};

/* ---- survival.c ------------------------------------------------------------------------------ */
bool survival_is_lost(const struct survival *s, int rank);

/* ---- survival_talk.c ------------------------------------------------------------------------- */
/* The keeper's next word, into s->heard. Blocks for as long as others compute. */
int survival_hear(struct survival *s, struct err *e);
/* Tells where this rank stands. */
int survival_answer(struct survival *s, struct err *e);
int survival_say_finished(struct survival *s, struct err *e);
enum given { GIVEN, PEER_LOST };
/* To those that are behind, and from the giver: enum given, or negative. */
int survival_give(struct survival *s, const struct verdict *v, struct err *e);
int survival_take(struct survival *s, const struct verdict *v, struct err *e);

#endif
