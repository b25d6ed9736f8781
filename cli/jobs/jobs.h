/* Commands about jobs, one function and one table of options each; cli/commands.c has their names,
 * arguments and help. A command returns a positive exit status, or 0 or less for the status that
 * s->err means. */
#ifndef CLI_JOBS_JOBS_H
#define CLI_JOBS_JOBS_H

#include "cli/session.h"

extern const struct opt submit_options[], jobs_options[], logs_options[], download_options[],
    series_options[], steps_options[], tag_options[], sweep_options[], sweeps_options[],
    norms_options[], logged_options[], evaluations_options[];

int command_submit(struct session *s); /* submit.c */
int command_sweep(struct session *s);  /* sweep.c */
int command_sweeps(struct session *s);
int command_jobs(struct session *s);      /* list.c */
int command_show(struct session *s);      /* show.c */
int command_compare(struct session *s);   /* compare.c */
int command_watch(struct session *s);     /* watch.c */
int command_logs(struct session *s);      /* logs.c */
int command_artifacts(struct session *s); /* artifacts.c */
int command_download(struct session *s);
int command_cancel(struct session *s); /* control.c */
int command_pause(struct session *s);
int command_resume(struct session *s);
int command_priority(struct session *s);
int command_delete(struct session *s);
int command_tag(struct session *s);    /* tag.c */
int command_series(struct session *s); /* figures.c */
int command_steps(struct session *s);
int command_staleness(struct session *s);
int command_assignments(struct session *s);
int command_evaluations(struct session *s);
int command_norms(struct session *s);
int command_logged(struct session *s);
int command_confusion(struct session *s);
int command_events(struct session *s); /* events.c */

/* A JSON document from a file, or standard input for "-"; `what`: how an error names it, "job"
 * (submit.c). New reference. */
json_t *submit_read(const char *path, const char *what, struct err *e);
/* Prints the answer of `submit --dry-run`: dryrun.c. */
void dryrun_print(const json_t *answer);

#endif
