/* Follows a job of `evenstep run` until its end. Prints its progress, what rank 0's program prints,
 * and which rank's program was started again, on stderr. Handles the signals that end it early. */
#ifndef CLI_RUN_FOLLOW_H
#define CLI_RUN_FOLLOW_H

#include "cli/session.h"

/* From now on SIGINT, SIGTERM and SIGHUP end nothing by themselves: follow_job sees them. One that
 * is ignored stays so. */
void follow_catch_signals(void);
int follow_signal(void);   /* the first of them that came; 0: none */
bool follow_hurries(void); /* a second one came: nothing is waited for any more */
/* What was seen of a job. */
struct followed {
    char state[32];   /* the last one */
    char absent[200]; /* a file that its program did not find, as it named it; "": none */
    json_t *told;     /* what the library said to rank 0's program, each sentence once; the caller
                         releases it */
};
/* Shows a job until it ends. The first signal cancels it, and its end is waited for; the second one
 * ends the waiting. Negative: s->err says what is wrong, and *last is filled all the same. */
int follow_job(struct session *s, const char *id, struct followed *last);

#endif
