/* What the files of the library share: one session, since a process joins one run. session.c owns
 * it; socket.c and alone.c carry its messages, to the rank or to the one inside the library.
 */
#ifndef CLIENT_LIB_SESSION_H
#define CLIENT_LIB_SESSION_H

#include <stdbool.h>

#include "client/include/evenstep.h"
#include "client/protocol.h"

#define PUBLIC __attribute__((visibility("default")))

struct alone; /* alone.c */

struct session {
    int fd;               /* to the rank; -1: alone, or not joined */
    struct alone *inside; /* the rank inside the library, when alone */
    bool joined, forked;  /* forked: the parent joined */
    bool started;         /* START came */
    bool over;            /* no slice comes any more, none that came is worked on */
    bool left;            /* LEAVE was answered, or FAILED sent */
    bool has_state, sums; /* of es_about */
    bool takes;           /* the rank reads gradients (WELCOME came without WIRE_OWN_GRADIENTS) */
    struct wire_message welcome;
    uint8_t *block;
    void *state;               /* malloc'd copy of what the rank kept; or NULL */
    struct wire_message later; /* leaves with the next one; type 0: there is none */

    /* slices that came and were not yet given to the program; those that were given, by number */
    struct wire_message *came; /* [came_room] ring */
    int came_first, came_count, came_room;
    struct wire_message *taken; /* [slots], at number % slots */
    int64_t begun;              /* number of the slice begun last; -1 */
    bool last_came;             /* its flag said that nothing follows */

    /* the pass: from es_begin or es_again to es_gradients */
    bool open;
    bool further; /* it is one more over the slice begun last */
    bool between; /* between epochs: EPOCH_END was sent, and the next BEGIN ends this time */
    double weight, loading; /* loading: seconds of the pass spent waiting for samples */
    bool hold;              /* GO said that the next BEGIN, EPOCH_END or LEAVE waits */
    int holding;            /* the message that waits for CONTINUE; 0: none does */
    bool waiting;           /* GRADIENTS is sent, and GO has not come */
    bool owed;              /* GO asked for a difference, which has not been sent */
    bool saving;            /* SAVE came, and es_state is still to be called */
    int64_t ended;          /* es_step: the epoch whose end is to be told; -1 */

    /* buckets (buckets.c) */
    int n_tensors;
    struct part {
        int64_t first, count; /* floats */
        int from, to;         /* buckets [from, to) may have some of it */
        bool ready;
    } * tensors;                       /* [n_tensors] */
    const struct wire_bucket *buckets; /* in the block */
    int *waits;                        /* [n_buckets]: tensors that are still to come */
    int n_waits;                       /* buckets that are not complete */
};

extern struct session es_session;

/* Sets es_error() to the sentence; -1. */
int es_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* 0 if the session may be spoken to by `call`, else es_fail. */
int es_usable(const char *call);
/* The same of a call that comes after a step, before which a difference that was asked for is sent.
 * A program that does not do so would not the next time either: the rank is told to leave it. */
int es_settled(const char *call);

/* The program has left: nothing more is sent. */
void session_part(struct session *s);

/* ---- messages (socket.c) --------------------------------------------------------------------- */
int talk_connect(const char *path);
/* fd: goes along, stays the caller's; -1: none. */
int talk_send(struct session *s, const struct wire_message *m, int fd);
/* The same when the next message is sent or waited for, in one call with it: the rank is woken
 * once. */
int talk_later(struct session *s, const struct wire_message *m);
/* Drops the message that would leave with the next one, if it has this type and no flags: that one
 * stands for it. */
bool talk_take_back(struct session *s, int type);
/* Waits for a message. SLICE is kept and never returned, REFUSED is a failure. fds: [2], the
 * caller's; -1 where none came; NULL: what comes is closed. */
int talk_receive(struct session *s, struct wire_message *m, int fds[2]);
/* The same, and any other type than this one is a failure. */
int talk_expect(struct session *s, struct wire_message *m, int type, const char *during);
/* A memfd with these bytes, to be closed by the caller. */
int talk_memfd(const void *bytes, size_t n);
/* Sends a message of this type with text in a memfd. */
int talk_text(struct session *s, int type, uint32_t flags, const char *text, size_t n);
/* The same of a message with more in it. */
int talk_message(struct session *s, const struct wire_message *m, const char *text, size_t n);

/* ---- parts ----------------------------------------------------------------------------------- */
int describe(const struct es_about *about, char **text, size_t *n); /* *text is the caller's */
int64_t floats_of(const struct es_tensor *t);
int64_t floats_in(const struct es_tensor *t, int n);

int buckets_init(struct session *s, const struct es_about *about);
void buckets_open(struct session *s); /* no tensor is ready */
int buckets_close(struct session *s); /* those that are not ready become it */

int slices_init(struct session *s);
/* A SLICE came. */
int slices_keep(struct session *s, const struct wire_message *m);

/* Waits while the rank holds the program after message `type`: 0, ES_SAVE, -1. */
int hold(struct session *s, int type);

struct alone *alone_new(const struct es_about *about, struct wire_message *welcome,
                        uint8_t **block);
void alone_send(struct alone *a, const struct wire_message *m);
void alone_receive(struct alone *a, struct wire_message *m);

#endif
