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

void lockstep_write(struct lockstep *l, float *words, double time, int64_t ahead)
{
    struct rank_env *env = l->env;
    struct cursor place;
    int W = env->comm->workers, rank = env->comm->rank;
    memset(words, 0, lockstep_words(l) * sizeof(float));
    l->known = l->next_version != 0;
    words[WORD_NOT_READY] =
        l->known && l->next_sizes[rank] > 0 && !env->ready(env->ctx, l->next_sizes[rank]);
    words[WORDS + W + rank] = (float)time;
    bool sure = l->at.step < l->sure;
    words[WORD_EVALUATE] = l->measured && !sure;
    if (lockstep_is_first(l)) {
        struct control control;
        memset(&control, 0, sizeof control);
        env->control(env->ctx, &control);
        words[WORD_VERSION] = (float)control.version;
        l->asked_checkpoint = l->asked_checkpoint || control.checkpoint;
        l->asked = sure && (control.stop || control.pause || l->asked_checkpoint || l->measured);
        if (!sure && lockstep_place(l, &place)) {
            words[WORD_STOP] = control.stop;
            words[WORD_PAUSE] = control.pause;
            l->asked_checkpoint =
                l->asked_checkpoint ||
                agenda_checkpoint(&l->at.agenda, l->at.step + ahead, comm_now(env->comm));
            words[WORD_CHECKPOINT] = l->asked_checkpoint;
        }
        for (int i = 0; i < W; i++) {
            words[WORDS + i] = (float)control.sizes[i];
        }
    } else if (l->asked_checkpoint && lockstep_place(l, &place)) { /* a checkpoint that was put
                                                                      off */
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
