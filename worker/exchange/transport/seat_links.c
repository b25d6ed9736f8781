/* See seat_links.h. The thread that serves adds links; the communication thread uses them. A link
 * in `of` is complete. */
#include "worker/exchange/transport/seat_links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 80 };

int seat_links_init(struct seat_links *s, int rank, int size, struct err *e)
{
    memset(s, 0, sizeof *s);
    s->door_fd = -1;
    s->rank = rank;
    s->size = size;
    s->of = calloc((size_t)size, sizeof *s->of);
    return s->of ? 0 : err_set(e, ERR_MEMORY, "cannot hold %d ranks: memory ran out", size);
}

void seat_links_release(struct seat_links *s)
{
    for (int i = 0; i < s->n; i++) {
        seat_link_free(s->all[i]);
    }
    if (s->of && s->door_fd >= 0) {
        close(s->door_fd);
    }
    free(s->of);
    memset(s, 0, sizeof *s);
}

void seat_links_name(struct seat_links *s, const char *attempt, unsigned user)
{
    snprintf(s->attempt, sizeof s->attempt, "%s", attempt);
    s->user = user;
}

static void door_name(const struct seat_links *s, int rank, char out[NAME_BYTES])
{
    snprintf(out, NAME_BYTES, "%s/%d", s->attempt, rank);
}

/* Adds a link, which the communication thread finds from its next turn on. `visit`: the link came
 * through a far door; NULL: through a name of this host. `welcomes`: the door is ours. */
static bool add(struct seat_links *s, int rank, int fd, const struct seat_visit *visit,
                bool welcomes)
{
    struct sign_key proof;
    struct seat_link *link = s->n < SEATS_MOST ? seat_link_new(fd) : NULL;
    if (!link) {
        close(fd);
        return false;
    }
    if (visit) {
        seat_far_prove(&s->far, visit, &proof);
    }
    if (visit && !welcomes) {
        seat_link_expect(link, &proof);
    } else if (visit && !seat_link_begin_with(link, &proof)) {
        seat_link_free(link);
        return false;
    }
    s->all[s->n] = link;
    s->of[rank] = link;
    s->n++;
    return true;
}

void seat_links_open_door(struct seat_links *s)
{
    char name[NAME_BYTES];
    if (s->attempt[0] && s->door_fd < 0 && s->far.used) {
        s->door_fd = seat_far_open(&s->far, NULL);
    } else if (s->attempt[0] && s->door_fd < 0) {
        door_name(s, s->rank, name);
        s->door_fd = seat_door_open(name, NULL);
    }
}

static bool is_expected(const struct seat_hello *h, const int *seats, int workers)
{
    return h->rank >= 0 && h->rank < workers && h->seat >= 1 && seats[h->rank] == h->seat;
}

static int answer(const struct seat_links *s, struct seat_visit *v)
{
    return s->door_fd < 0 ? -1
           : s->far.used  ? seat_far_answer(&s->far, s->door_fd, v)
                          : seat_door_answer(s->door_fd, geteuid(), s->user, &v->hello);
}

/* A newcomer that died while it waited may come before the expected one. */
int seat_links_admit(struct seat_links *s, const int *seats, int workers)
{
    struct seat_visit v = {.attempt = s->attempt, .door = s->rank};
    seat_links_open_door(s);
    int fd = answer(s, &v);
    while (fd >= 0 && !is_expected(&v.hello, seats, workers)) {
        close(fd);
        fd = answer(s, &v);
    }
    return fd >= 0 && add(s, v.hello.rank, fd, s->far.used ? &v : NULL, true) ? v.hello.rank : -1;
}

int seat_links_reach(struct seat_links *s, const struct seat_knock *k, struct err *e)
{
    const struct seat_visit v = {s->attempt, k->rank, {.rank = s->rank, .seat = k->seat}};
    char name[NAME_BYTES];
    door_name(s, k->rank, name);
    int fd = s->far.used ? seat_far_knock(&s->far, &v, k->seconds, e)
                         : seat_door_knock(name, k->user, &v.hello, k->seconds, e);
    if (fd < 0) {
        return fd;
    }
    return add(s, k->rank, fd, s->far.used ? &v : NULL, false)
               ? 0
               : err_set(e, ERR_MEMORY, "cannot join: memory ran out");
}

bool seat_links_has(const struct seat_links *s, int rank)
{
    const struct seat_link *link = s->of[rank];
    return link && !seat_link_is_broken(link);
}

struct seat_link *seat_links_with(const struct seat_links *s, int tag, int *rank)
{
    struct seat_link *found = NULL;
    for (int r = 0; r < s->size && s->n > 0; r++) {
        struct seat_link *link = s->of[r];
        if (link) {
            seat_link_pump(link);
        }
        if (link && !found && seat_link_has(link, tag)) {
            found = link;
            *rank = r;
        }
    }
    return found;
}
