/* See seat_links.h. Links are added by the thread that serves and used by the communication thread:
 * one that `of` shows is complete. */
#include "worker/exchange/transport/seat_links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A keeper lets in who it waits for within milliseconds. */
static const double knock_seconds = 20;

int seat_links_init(struct seat_links *s, int size, struct err *e)
{
    memset(s, 0, sizeof *s);
    s->door_fd = -1;
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

void seat_links_open(struct seat_links *s, const char *door, unsigned user)
{
    snprintf(s->door, sizeof s->door, "%s", door);
    s->user = user;
}

/* The communication thread finds it from its next turn on. */
static bool add(struct seat_links *s, int rank, int fd)
{
    struct seat_link *link = s->n < SEATS_MOST ? seat_link_new(fd) : NULL;
    if (!link) {
        close(fd);
        return false;
    }
    s->all[s->n] = link;
    s->of[rank] = link;
    s->n++;
    return true;
}

int seat_links_admit(struct seat_links *s, const int *seats, int workers)
{
    struct seat_hello hello;
    if (!s->door[0]) {
        return -1;
    }
    s->door_fd = s->door_fd >= 0 ? s->door_fd : seat_door_open(s->door, NULL);
    int fd = s->door_fd >= 0 ? seat_door_answer(s->door_fd, geteuid(), s->user, &hello) : -1;
    if (fd < 0) {
        return -1;
    }
    if (hello.rank < 0 || hello.rank >= workers || hello.seat < 1 ||
        seats[hello.rank] != hello.seat) {
        close(fd);
        return -1;
    }
    return add(s, hello.rank, fd) ? hello.rank : -1;
}

int seat_links_join(struct seat_links *s, int keeper, const char *door, unsigned user,
                    const struct seat_hello *hello, struct err *e)
{
    int fd = seat_door_knock(door, user, hello, knock_seconds, e);
    if (fd < 0) {
        return fd;
    }
    return add(s, keeper, fd) ? 0 : err_set(e, ERR_MEMORY, "cannot join: memory ran out");
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
