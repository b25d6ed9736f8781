/* The commands: one function each, exit status as result. All but evaluate talk to a service. argv
 * starts behind the command's name. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include <jansson.h>
#include <stdio.h>

struct session;

int command_submit(int argc, char **argv);
int command_run(int argc, char **argv);
int command_jobs(int argc, char **argv);
int command_show(int argc, char **argv);
int command_watch(int argc, char **argv);
int command_cancel(int argc, char **argv);
int command_pause(int argc, char **argv);
int command_resume(int argc, char **argv);
int command_nodes(int argc, char **argv);
int command_catalog(int argc, char **argv);
int command_link(int argc, char **argv);
int command_evaluate(int argc, char **argv);

/* How a job is watched. */
struct watch {
    FILE *out; /* where its progress is drawn: one line on a terminal, else one per tenth */
    /* Called with the job's document each time that it was asked for, before it is drawn. Negative,
     * with s->err: nothing more is watched. NULL: nothing is called. */
    int (*seen)(void *ctx, const json_t *job);
    void *ctx;
};
/* Shows a job until it ends; how NULL: on standard output. 0: it has succeeded; 1: it has not;
 * negative: s->err says what is wrong. */
int watch_job(struct session *s, const char *id, const struct watch *how);
/* "/api/v1/jobs/ID" and what follows; negative, with s->err, for what can be no id. */
int job_path(struct session *s, const char *id, const char *rest, char out[256]);

#endif
