/* The state that the library's files share: one session, because a process joins one run. session.c
 * owns it. socket.c and alone.c carry its messages, to the rank or to its replacement inside the
 * library.
 */
#ifndef CLIENT_LIB_SESSION_H
#define CLIENT_LIB_SESSION_H

#include <stdbool.h>

#include "client/include/evenstep.h"
#include "client/protocol.h"

#define PUBLIC __attribute__((visibility("default")))

struct alone; /* alone.c */

struct session {
    int fd;               /* socket to the rank; -1: alone, or not joined */
    struct alone *inside; /* the rank inside the library, when alone */
    bool joined, forked;  /* forked: the parent joined */
    bool started;         /* START has arrived */
    bool over;            /* no slice comes any more, and the program works on none */
    bool left;            /* LEAVE was answered, or FAILED sent */
    bool has_state, sums; /* of es_about */
    bool takes;           /* the rank reads gradients (WELCOME without WIRE_OWN_GRADIENTS) */
    struct wire_message welcome;
    uint8_t *block;
    void *state;               /* malloc'd copy of the state that the rank kept; or NULL */
    struct wire_message later; /* sent together with the next message; type 0: none */

    /* slices that came and were not yet given to the program; those that were given, by number */
    struct wire_message *came; /* [came_room] ring */
    int came_first, came_count, came_room;
    struct wire_message *taken; /* [slots], at number % slots */
    int64_t begun;              /* number of the slice begun last; -1 */
    bool last_came;             /* the flag of the last slice said that none follows */

    /* the pass: from es_begin or es_again to es_gradients */
    bool open;
    bool further; /* it is a further one over the slice begun last */
    bool between; /* between epochs: EPOCH_END was sent, and the next BEGIN ends this state */
    double weight, loading; /* loading: seconds of the pass spent waiting for samples */
    bool hold;              /* GO said that the next BEGIN, EPOCH_END or LEAVE waits */
    int holding;            /* the message that waits for CONTINUE; 0: none */
    bool waiting;           /* GRADIENTS was sent, and GO has not arrived */
    bool owed;              /* GO asked for a difference, which was not sent yet */
    bool saving;            /* SAVE arrived, and es_state must still be called */
    int64_t ended;          /* es_step: the epoch whose end must be told; -1 */

    /* buckets (buckets.c) */
    int n_tensors;
    struct part {
        int64_t first, count; /* floats */
        int from, to;         /* buckets [from, to) contain parts of it */
        bool ready;
    } * tensors;                       /* [n_tensors] */
    const struct wire_bucket *buckets; /* in the block */
    int *waits;                        /* [n_buckets]: tensors that are not ready yet */
    int n_waits;                       /* buckets that are not complete */
};

extern struct session es_session;

/* Sets es_error() to the sentence; -1. */
int es_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* 0 if `call` may use the session, else es_fail. */
int es_usable(const char *call);
/* As es_usable, for a call after a step, which must first have sent the requested difference. A
 * program that does not send it would not do so next time either, so the rank is told to abandon
 * it. */
int es_settled(const char *call);

/* The program has left: sends nothing more. */
void session_part(struct session *s);

/* ---- messages (socket.c) --------------------------------------------------------------------- */
int talk_connect(const char *path);
/* fd: sent along, stays the caller's; -1: none. */
int talk_send(struct session *s, const struct wire_message *m, int fd);
/* Sends the message together with the next one, or when the program waits for one, so that the rank
 * wakes up once. */
int talk_later(struct session *s, const struct wire_message *m);
/* Drops the message that would leave with the next one, if it has this type and no flags, because
 * the next one replaces it. */
bool talk_take_back(struct session *s, int type);
/* Waits for a message. Keeps SLICE and never returns it; REFUSED is a failure. fds: [2], owned by
 * the caller; -1 if none arrived. NULL: closes any that arrive. */
int talk_receive(struct session *s, struct wire_message *m, int fds[2]);
/* As talk_receive(); a message of any other type is a failure. */
int talk_expect(struct session *s, struct wire_message *m, int type, const char *during);
/* A memfd with these bytes, which the caller closes. */
int talk_memfd(const void *bytes, size_t n);
/* Sends a message of this type with text in a memfd. */
int talk_text(struct session *s, int type, uint32_t flags, const char *text, size_t n);
/* As talk_text(), for a message with further fields. */
int talk_message(struct session *s, const struct wire_message *m, const char *text, size_t n);

/* ---- parts ----------------------------------------------------------------------------------- */
int describe(const struct es_about *about, char **text, size_t *n); /* *text is the caller's */
int64_t floats_of(const struct es_tensor *t);
int64_t floats_in(const struct es_tensor *t, int n);

int buckets_init(struct session *s, const struct es_about *about);
void buckets_open(struct session *s); /* no tensor is ready */
int buckets_close(struct session *s); /* all remaining tensors become ready */

int slices_init(struct session *s);
/* Handles an arriving SLICE. */
int slices_keep(struct session *s, const struct wire_message *m);

/* Waits while the rank holds the program after message `type`. Returns 0, ES_SAVE or -1. */
int hold(struct session *s, int type);

struct alone *alone_new(const struct es_about *about, struct wire_message *welcome,
                        uint8_t **block);
void alone_send(struct alone *a, const struct wire_message *m);
void alone_receive(struct alone *a, struct wire_message *m);

#endif
