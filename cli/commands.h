/* The commands: one function each, exit status as result. All but evaluate talk to a service. argv
 * starts behind the command's name. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

struct session;

int command_submit(int argc, char **argv);
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

/* Shows a job until it ends. 0: it has succeeded; 1: it has not; negative: s->err says what is
 * wrong. */
int watch_job(struct session *s, const char *id);
/* "/api/v1/jobs/ID" and what follows; negative, with s->err, for what can be no id. */
int job_path(struct session *s, const char *id, const char *rest, char out[256]);

#endif
