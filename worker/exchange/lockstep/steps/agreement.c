/* How ranks that step together agree without a collective of their own: words behind a reduction's
 * floats (docs/semantics.md#agreement). Rank 0 alone reads the store and contributes version,
 * sizes, stop, pause and checkpoint. Each rank contributes its time, whether it is not ready for
 * new sizes, a checkpoint that was put off for its program, and whether its program has measured
 * something.
 *
 *      step      s             s+1                      s+2
 *      words     announced     not ready: 0 of W        in use
 *
 * All ranks see the same sums, so all adopt new sizes at the same step. */
#include "worker/exchange/lockstep/steps/lockstep.h"

#include <string.h>

#include "kernels/flat.h"

size_t lockstep_words_of(int workers, bool weighed)
{
    return WORDS + 2 * (size_t)workers + (weighed ? WEIGHED_WORDS : 0);
}

size_t lockstep_words(const struct lockstep *l)
{
    return lockstep_words_of(l->env->comm->workers, l->env->program.weighed);
}

/* The first worker's: what the store asks for. Nothing is asked for in a sure step. */
static void write_requests(struct lockstep *l, float *words, const struct control *asked,
                           int64_t ahead)
{
    struct cursor place;
    bool sure = l->at.step < l->sure;
    l->asked_checkpoint = l->asked_checkpoint || asked->checkpoint;
    l->asked = sure && (asked->stop || asked->pause || l->asked_checkpoint || l->measured);
    if (sure || !lockstep_place(l, &place)) {
        return;
    }
    l->asked_checkpoint =
        l->asked_checkpoint ||
        agenda_checkpoint(&l->at.agenda, l->at.step + ahead, comm_now(l->env->comm));
    words[WORD_STOP] = asked->stop;
    words[WORD_PAUSE] = asked->pause;
    words[WORD_CHECKPOINT] = l->asked_checkpoint;
}

static void write_assignment(float *words, const struct control *control, int workers)
{
    words[WORD_VERSION] = (float)control->version;
    for (int i = 0; i < workers; i++) {
        words[WORDS + i] = (float)control->sizes[i];
    }
}

void lockstep_write(struct lockstep *l, float *words, double time, int64_t ahead)
{
    struct rank_env *env = l->env;
    struct cursor place;
    int W = env->comm->workers, rank = env->comm->rank;
    memset(words, 0, lockstep_words(l) * sizeof(float));
    l->known = l->next_version != 0;
    words[WORD_NOT_READY] =
        l->known && l->next_sizes[rank] > 0 && !env->ready(env->ctx, l->next_sizes[rank]);
    words[WORD_EVALUATE] = l->measured && l->at.step >= l->sure;
    words[WORDS + W + rank] = (float)time;
    if (lockstep_is_first(l)) {
        struct control control;
        memset(&control, 0, sizeof control);
        env->control(env->ctx, &control);
        write_assignment(words, &control, W);
        write_requests(l, words, &control, ahead);
    } else if (l->asked_checkpoint && lockstep_place(l, &place)) { /* it was put off */
        words[WORD_CHECKPOINT] = 1;
    }
}

float lockstep_slowest(const struct lockstep *l, const float *words)
{
    size_t W = (size_t)l->env->comm->workers;
    return flat_largest(words + WORDS + W, W);
}

void lockstep_agree(struct lockstep *l, const float *words)
{
    int W = l->env->comm->workers, announced = (int)words[WORD_VERSION];
    if (l->known && announced == l->next_version && words[WORD_NOT_READY] == 0) {
        lockstep_adopt(l, l->next_version, l->next_sizes);
        l->next_version = 0;
    } else if (announced > l->version && announced != l->next_version) {
        l->next_version = announced;
        for (int i = 0; i < W; i++) {
            l->next_sizes[i] = (int)words[WORDS + i];
        }
    }
    l->at.stop = words[WORD_STOP] > 0;
    l->at.pause = words[WORD_PAUSE] > 0;
    l->at.checkpoint = words[WORD_CHECKPOINT] > 0;
    l->at.evaluate = l->at.evaluate || words[WORD_EVALUATE] > 0;
    l->asked_checkpoint = l->asked_checkpoint && !l->at.checkpoint;
}

float lockstep_fastest(const struct lockstep *l, const float *times)
{
    const struct comm *c = l->env->comm;
    float min = times[c->members[COMM_ALL][0]];
    for (int i = 1; i < c->n_members[COMM_ALL]; i++) {
        float one = times[c->members[COMM_ALL][i]];
        min = one < min ? one : min;
    }
    return min;
}
