/* What gradients weigh where ranks are not known to weigh by samples: a user's program may count
 * tokens, and a batch may have had others than its slice.
 *
 *      planned    n = samples of the step, which every rank knows before it begins
 *      a bucket   w_i / n * g_i           leaves while the rest is computed: others' w are not known
 *      words      w_i                     with the last bucket
 *      update     n / sum(w) * sum(w_i / n * g_i)  =  sum(w_i * g_i) / sum(w_i)
 *
 * By samples the w sum up to n, and the factor is 1. */
#include "worker/exchange/lockstep/lockstep.h"

const float *lockstep_weighed(const struct lockstep *l, const float *words)
{
    return words + lockstep_words(l) - WEIGHED_WORDS;
}

void lockstep_weigh(const struct lockstep *l, float *words, double weight, bool voided,
                    bool further)
{
    if (l->env->weighed) {
        float *mine = words + lockstep_words(l) - WEIGHED_WORDS;
        mine[WORD_WEIGHT] = (float)weight;
        mine[WORD_VOIDED] = voided;
        mine[WORD_FURTHER] = further;
    }
}

double lockstep_correct(const struct lockstep *l, const float *words, double planned)
{
    if (!l->env->weighed) {
        return 1;
    }
    double weight = lockstep_weighed(l, words)[WORD_WEIGHT];
    return weight > 0 ? planned / weight : 0;
}
