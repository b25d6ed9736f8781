/* The keeper's half of lockstep_serve(), with two workers played by hand: a checkpoint and the last
 * state of one step, where ranks keep states of their own.   ranks: 3
 *
 *   worker 0   checkpoint, its own, last state ─┐                             ┌► its own, finished
 *   worker 1                                    └► its own of the checkpoint ─┴► its own, finished
 */
#include "tests/mpi/mpi_test.h"

#include <unistd.h>

#include "worker/exchange/lockstep/steps/lockstep.h"
#include "worker/exchange/lockstep/survival/verdict.h"
#include "worker/exchange/own_state_messages.h"

/* so large that what was sent has been taken */
enum { PARAMS = 300000, OWN_BYTES = 1 << 20, STEP = 40, HANGS_SECONDS = 120 };

static struct comm comm;
static struct err e;

/* ---- the keeper ------------------------------------------------------------------------------ */

static struct saved {
    int n, why[4], owns[4];
} saved;

static int save(void *ctx, const struct run_state *state, struct err *err)
{
    struct saved *s = ctx;
    (void)err;
    int k = s->n < 4 ? s->n : 3;
    s->why[k] = (int)state->why;
    s->owns[k] = 0;
    for (int i = 0; i < state->n_own; i++) {
        s->owns[k] += state->own[i].n == OWN_BYTES;
    }
    s->n++;
    return 0;
}

static int nobody(void *ctx, int *out)
{
    (void)ctx;
    (void)out;
    return 0;
}

static void no_control(void *ctx, struct control *out)
{
    (void)ctx;
    memset(out, 0, sizeof *out);
}

static bool keeps_both(void)
{
    struct rank_env env = {.comm = &comm,
                           .ctx = &saved,
                           .keeps_own = true,
                           .lost = nobody,
                           .control = no_control,
                           .save = save};
    struct run_state *from = calloc(1, sizeof *from);
    int rc = from ? lockstep_serve(&env, from, &e) : -1;
    free(from);
    return rc == RUN_ENDED && saved.n == 2 && saved.why[0] == SAVE_CHECKPOINT &&
           saved.owns[0] == 2 && saved.why[1] == SAVE_FINAL && saved.owns[1] == 2;
}

/* ---- the workers ----------------------------------------------------------------------------- */

static bool say(struct worker_word *word)
{
    struct message m;
    message_send(&m, &comm, comm.workers, TAG_STATE, word, sizeof *word, NULL, 0);
    return comm_wait(&comm, &m.op, &e) == 0;
}

static bool give_state(enum save_why why, enum run_outcome outcome)
{
    struct worker_word word = {
        .saying = SAYS_STATE,
        .state = {.version = STEP, .n_params = PARAMS, .why = why, .outcome = outcome}};
    float *params = calloc(PARAMS, sizeof *params);
    struct message m;
    char none = 0;
    bool ok = params && say(&word);
    message_send(&m, &comm, comm.workers, TAG_BLOCK, &none, 1, params, PARAMS);
    ok = ok && comm_wait(&comm, &m.op, &e) == 0;
    free(params);
    return ok;
}

static bool give_own(enum save_why why)
{
    struct worker_word word = {
        .saying = SAYS_OWN, .rank = comm.rank, .own = {.version = STEP, .why = why}};
    struct own_state own = {0};
    bool ok = own_state_alloc(&own, OWN_BYTES, &e) == 0;
    if (ok) {
        memset(own.bytes, comm.rank, own.n);
    }
    ok = ok && say(&word) && own_state_send(&comm, comm.workers, &own, &e) == 0;
    own_state_release(&own);
    return ok;
}

static bool finishes(void)
{
    struct worker_word word = {.saying = SAYS_FINISHED, .rank = comm.rank};
    struct verdict v;
    struct message m;
    message_recv(&m, &comm, comm.workers, TAG_VERDICT, &v, sizeof v, NULL, 0);
    return say(&word) && comm_wait(&comm, &m.op, &e) == 0 && v.saying == KEEPER_ENDS;
}

/* One after the other, as the picture above has it. */
static bool works(void)
{
    int turn = 0, other = 1 - comm.rank;
    bool ok = comm.rank > 0 || (give_state(SAVE_CHECKPOINT, RUN_GOES_ON) &&
                                give_own(SAVE_CHECKPOINT) && give_state(SAVE_FINAL, RUN_ENDED));
    if (comm.rank == 0) {
        MPI_Send(&turn, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    }
    MPI_Recv(&turn, 1, MPI_INT, other, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (comm.rank == 1) {
        ok = give_own(SAVE_CHECKPOINT);
        MPI_Send(&turn, 1, MPI_INT, other, 0, MPI_COMM_WORLD);
    }
    return ok && give_own(SAVE_FINAL) && finishes();
}

int main(int argc, char **argv)
{
    test_begin(&argc, &argv);
    alarm(HANGS_SECONDS);
    if (comm_init(&comm, transport, all_ranks - 1, 1, &e) < 0) {
        fprintf(stderr, "%s\n", e.message);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    check_all(comm.rank == comm.workers ? keeps_both() : works(),
              "a checkpoint of the last step is kept, and so is the end, however late it is");
    comm_release(&comm);
    return test_end();
}
