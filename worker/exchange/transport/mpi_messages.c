/* Messages over Open MPI, and over links to workers that joined, since MPI does not reach those. */
#include <string.h>

#include "common/err.h"
#include "worker/exchange/transport/comm_mpi_parts.h"

/* What a request has in impl[], after what a link keeps there: its kind, and of an expected message
 * the number, buffer size and tag. */
enum { IMPL_NUMBER = 0, IMPL_ROOM = 2, IMPL_TAG = 3, IMPL_KIND = 5 };
enum { KIND_MPI, KIND_EXPECTED, KIND_LINK };
enum { CHUNK_BYTES = 1 << 30 }; /* the most bytes of a message, since MPI counts them as an int */

int comm_mpi_send(struct transport *t, int to, int tag, const void *data, size_t bytes,
                  struct transport_req *r)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    struct seat_link *link = seat_links_to(&m->seats, to);
    MPI_Request req;
    if (link) {
        int rc = seat_link_send(link, tag, data, bytes, r);
        r->impl[IMPL_KIND] = KIND_LINK;
        return rc;
    }
    memset(r, 0, sizeof *r);
    if (!has_mpi(m) || bytes > CHUNK_BYTES ||
        MPI_Isend(data, (int)bytes, MPI_BYTE, to, tag, m->comm, &req) != MPI_SUCCESS) {
        return -ERR_PEER;
    }
    memcpy(r->impl, &req, sizeof req);
    comm_thread_expect(&m->thread, bytes);
    return 0;
}

/* May MPI copy a message from this rank's memory? */
static bool shares_memory(const struct comm_mpi *m, int rank)
{
    return rank == TRANSPORT_ANY || strcmp(m->hosts[rank], m->hosts[m->rank]) == 0;
}

int comm_mpi_recv(struct transport *t, int from, int tag, void *data, size_t bytes,
                  struct transport_req *r)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    struct seat_link *link = seat_links_to(&m->seats, from);
    MPI_Request req;
    if (link) {
        int rc = seat_link_recv(link, tag, data, bytes, r);
        r->from = from;
        r->impl[IMPL_KIND] = KIND_LINK;
        return rc;
    }
    memset(r, 0, sizeof *r);
    r->at = data;
    if (!has_mpi(m) || bytes > CHUNK_BYTES) {
        return -ERR_PEER;
    }
    comm_thread_expect(&m->thread, bytes);
    if (shares_memory(m, from)) {
        r->impl[IMPL_NUMBER] =
            mpi_expected_add(&m->expected, from == TRANSPORT_ANY ? MPI_ANY_SOURCE : from, tag);
        r->impl[IMPL_KIND] = KIND_EXPECTED;
        r->impl[IMPL_ROOM] = bytes;
        r->impl[IMPL_TAG] = (uint64_t)tag;
        r->from = from;
        return r->impl[IMPL_NUMBER] ? 0 : -ERR_MEMORY;
    }
    if (MPI_Irecv(data, (int)bytes, MPI_BYTE, from, tag, m->comm, &req) != MPI_SUCCESS) {
        return -ERR_PEER;
    }
    memcpy(r->impl, &req, sizeof req);
    return 0;
}

/* MPI has no message for a receive from any rank. Does a link have one? */
static int take_from_links(struct comm_mpi *m, struct transport_req *r)
{
    int tag = (int)r->impl[IMPL_TAG], rank;
    struct seat_link *link = seat_links_with(&m->seats, tag, &rank);
    if (!link) {
        return COMM_UNDER_WAY;
    }
    mpi_expected_drop(&m->expected, r->impl[IMPL_NUMBER]);
    seat_link_recv(link, tag, r->at, (size_t)r->impl[IMPL_ROOM], r);
    r->from = rank;
    r->impl[IMPL_KIND] = KIND_LINK;
    return COMM_DONE;
}

/* Has an expected message come? Then its request is one of MPI or of a link from now on. */
static int take_expected(struct comm_mpi *m, struct transport_req *r)
{
    MPI_Request req;
    int rc = mpi_expected_take(&m->expected, r->impl[IMPL_NUMBER], m->comm, r->at,
                               (size_t)r->impl[IMPL_ROOM], &req);
    if (rc == COMM_DONE) {
        memcpy(r->impl, &req, sizeof req);
        r->impl[IMPL_KIND] = KIND_MPI;
    } else if (rc == COMM_UNDER_WAY && m->seats.n > 0 && r->from == TRANSPORT_ANY) {
        rc = take_from_links(m, r);
    }
    return rc;
}

static int test_mpi(struct comm_mpi *m, struct transport_req *r)
{
    MPI_Request req;
    MPI_Status status;
    int done = 0, count = 0, class = MPI_SUCCESS;
    memcpy(&req, r->impl, sizeof req);
    if (req == MPI_REQUEST_NULL) {
        return COMM_DONE; /* tested before */
    }
    int rc = MPI_Test(&req, &done, &status);
    if (rc != MPI_SUCCESS) {
        MPI_Error_class(rc, &class);
        return class == MPI_ERR_TRUNCATE ? -ERR_CONFLICT : -ERR_PEER;
    }
    memcpy(r->impl, &req, sizeof req);
    if (!done) {
        return COMM_UNDER_WAY;
    }
    comm_thread_moved(&m->thread);
    MPI_Get_count(&status, MPI_BYTE, &count);
    r->from = status.MPI_SOURCE;
    r->bytes = count > 0 ? (size_t)count : 0;
    return COMM_DONE;
}

int comm_mpi_test(struct transport *t, struct transport_req *r)
{
    struct comm_mpi *m = (struct comm_mpi *)t;
    int rc = r->impl[IMPL_KIND] == KIND_EXPECTED ? take_expected(m, r) : COMM_DONE;
    if (rc != COMM_DONE) {
        return rc;
    }
    if (r->impl[IMPL_KIND] == KIND_MPI) {
        return test_mpi(m, r);
    }
    if ((rc = seat_link_test(r)) == COMM_DONE) {
        comm_thread_moved(&m->thread);
    }
    return rc;
}

static bool is_mpi(const struct transport_req *r, MPI_Request *req)
{
    memcpy(req, r->impl, sizeof *req);
    return r->impl[IMPL_KIND] == KIND_MPI && *req != MPI_REQUEST_NULL;
}

int comm_mpi_cancel(struct transport *t, struct transport_req *r)
{
    MPI_Request req;
    if (r->impl[IMPL_KIND] == KIND_EXPECTED) {
        mpi_expected_drop(&((struct comm_mpi *)t)->expected, r->impl[IMPL_NUMBER]);
        r->impl[IMPL_KIND] = KIND_LINK; /* to nobody: tests done */
    }
    if (r->impl[IMPL_KIND] == KIND_LINK) {
        r->impl[0] = 0; /* nothing of a link is in the caller's memory before it is tested */
        return 0;
    }
    return !is_mpi(r, &req) || MPI_Cancel(&req) == MPI_SUCCESS ? 0 : -ERR_PEER;
}

void comm_mpi_forget(struct transport *t, struct transport_req *r)
{
    MPI_Request req;
    (void)t;
    if (is_mpi(r, &req)) {
        MPI_Request_free(&req);
        memcpy(r->impl, &req, sizeof req);
    }
}
