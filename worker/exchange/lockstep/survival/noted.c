/* What a worker notes of its steps, averages and evaluations while nobody is lost. See parts.h. */
#include <string.h>

#include "worker/exchange/lockstep/survival/parts.h"

/* ---- steps ----------------------------------------------------------------------------------- */

void survival_count_step(const struct survival *s, struct tally *to)
{
    for (int i = 0; i < s->l->env->comm->workers; i++) {
        to[i].samples += s->l->counts[i];
        to[i].steps += s->l->counts[i] > 0;
    }
}

static void note(struct survival *s, const float *words)
{
    s->said = (struct gift){.loss = words[WORD_LOSS],
                            .correct = words[WORD_CORRECT],
                            .stop = words[WORD_STOP] > 0,
                            .pause = words[WORD_PAUSE] > 0,
                            .checkpoint = words[WORD_CHECKPOINT] > 0,
                            .evaluate = words[WORD_EVALUATE] > 0};
}

void survival_note(struct survival *s, const float *words)
{
    if (s) {
        survival_count_step(s, s->made);
        note(s, words);
        memcpy(s->last, s->l->counts, (size_t)s->l->env->comm->workers * sizeof *s->last);
        s->exchanges = 0;
    }
}

void survival_note_further(struct survival *s)
{
    if (s) {
        s->exchanges++;
    }
}

void survival_note_answer(struct survival *s, bool any)
{
    if (s) {
        s->exchanges++;
        s->said.any = any;
    }
}

bool survival_answer_of_all(const struct survival *s)
{
    return s->said.any;
}

/* ---- between averages ------------------------------------------------------------------------ */

/* Adds `from` to `to` and sets it to zero. */
static void move_tallies(const struct survival *s, struct tally *from, struct tally *to)
{
    for (int i = 0; i < s->l->env->comm->workers; i++) {
        to[i].samples += from[i].samples;
        to[i].steps += from[i].steps;
        from[i] = (struct tally){0};
    }
}

void survival_forget_interval(struct survival *s, bool made)
{
    size_t bytes = (size_t)s->l->env->comm->workers * sizeof *s->made;
    if (made) {
        move_tallies(s, s->back->by_rounds ? s->launched : s->since, s->made);
    }
    memset(s->since, 0, bytes);
    memset(s->launched, 0, bytes);
}

void survival_begin_interval(struct survival *s)
{
    past_forget(s->past);
    s->grouped = s->group_averages = 0;
}

int survival_count(struct survival *s, struct err *e)
{
    if (s) {
        survival_count_step(s, s->since);
    }
    return s ? past_add(s->past, e) : 0;
}

void survival_told(struct survival *s, const struct row *row)
{
    if (s) {
        rollback_count(s->back, row);
    }
}

void survival_averaged(struct survival *s, const float *words)
{
    if (s) {
        note(s, words);
        survival_forget_interval(s, true);
        survival_begin_interval(s);
        rollback_keep(s->back);
    }
}

void survival_evaluated(struct survival *s)
{
    if (s) {
        s->evaluations++;
        rollback_evaluated(s->back);
    }
}

/* The steps of workers whose loss has not taken effect are still needed. */
void survival_trim_past(struct survival *s)
{
    int64_t until = s->back->mark.step;
    for (int i = 0; i < s->n_losses; i++) {
        until = s->losses[i].summed < until ? s->losses[i].summed : until;
    }
    if (s->past) {
        past_forget_until(s->past, until);
    }
}

void survival_round_ended(struct survival *s)
{
    if (s) {
        move_tallies(s, s->since, s->launched);
        rollback_round_ended(s->back);
    }
}

void survival_landed(struct survival *s, const float *w, const float *sum)
{
    if (s) {
        move_tallies(s, s->launched, s->made);
        rollback_landed(s->back, w, sum);
        survival_trim_past(s);
    }
}

void survival_merged_stats(struct survival *s)
{
    if (s) {
        rollback_keep_stats(s->back);
    }
}
