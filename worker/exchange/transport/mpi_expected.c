/* Receives that begin once their message has come: see mpi_expected.h. */
#include "worker/exchange/transport/mpi_expected.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "worker/exchange/transport/transport.h"

void mpi_expected_release(struct mpi_expected *x)
{
    free(x->list);
    *x = (struct mpi_expected){0};
}

uint64_t mpi_expected_add(struct mpi_expected *x, int from, int tag)
{
    if (x->n == x->room) {
        int room = x->room ? 2 * x->room : 16;
        struct expected_message *list = realloc(x->list, (size_t)room * sizeof *list);
        if (!list) {
            return 0;
        }
        x->list = list;
        x->room = room;
    }
    x->list[x->n++] = (struct expected_message){++x->numbers, from, tag};
    return x->numbers;
}

static int find(const struct mpi_expected *x, uint64_t number)
{
    int i = 0;
    while (i < x->n && x->list[i].number != number) {
        i++;
    }
    return i;
}

void mpi_expected_drop(struct mpi_expected *x, uint64_t number)
{
    int i = find(x, number);
    if (i < x->n) {
        x->n--;
        memmove(&x->list[i], &x->list[i + 1], (size_t)(x->n - i) * sizeof *x->list);
    }
}

/* Can one message match both? */
static bool alike(const struct expected_message *a, const struct expected_message *b)
{
    return a->tag == b->tag &&
           (a->from == b->from || a->from == MPI_ANY_SOURCE || b->from == MPI_ANY_SOURCE);
}

/* MPI_Iprobe searches the messages that Open MPI has, and then takes in new ones, which only the
 * next call finds. */
static int probe(int from, int tag, MPI_Comm comm, int *there, MPI_Status *status)
{
    int rc = MPI_Iprobe(from, tag, comm, there, status);
    return rc == MPI_SUCCESS && !*there ? MPI_Iprobe(from, tag, comm, there, status) : rc;
}

int mpi_expected_take(struct mpi_expected *x, uint64_t number, MPI_Comm comm, void *at, size_t room,
                      MPI_Request *req)
{
    MPI_Status status;
    int i = find(x, number), there = 0, bytes = 0;
    BUG_ON(i == x->n);
    const struct expected_message want = x->list[i];
    for (int k = 0; k < i; k++) {
        if (alike(&x->list[k], &want)) {
            return COMM_UNDER_WAY;
        }
    }
    if (probe(want.from, want.tag, comm, &there, &status) != MPI_SUCCESS) {
        return -ERR_PEER;
    }
    if (!there) {
        return COMM_UNDER_WAY;
    }
    mpi_expected_drop(x, number);
    if (MPI_Get_count(&status, MPI_BYTE, &bytes) != MPI_SUCCESS) {
        return -ERR_PEER;
    }
    if ((size_t)bytes > room) {
        return -ERR_CONFLICT;
    }
    return MPI_Irecv(at, bytes, MPI_BYTE, status.MPI_SOURCE, want.tag, comm, req) == MPI_SUCCESS
               ? COMM_DONE
               : -ERR_PEER;
}
