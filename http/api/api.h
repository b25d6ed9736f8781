/* The handlers of the API, one for each line of routes.c. A handler reads its request, fills in one
 * reply and returns 0, or returns a negative code with its error (reply.h). Who may call it, the
 * query and the size of the body were checked before.
 */
#ifndef HTTP_API_API_H
#define HTTP_API_API_H

#include "common/err.h"

struct request;
struct reply;

typedef int api_handler(struct request *q, struct reply *out, struct err *e);

/* jobs.c */
api_handler api_jobs_submit, api_jobs_list, api_job_get, api_job_patch, api_job_delete,
    api_job_cancel, api_job_pause, api_job_resume;
/* job_parts.c */
api_handler api_job_workers, api_job_staleness, api_job_assignments, api_job_evaluations,
    api_job_artifacts, api_job_confusion, api_job_artifact;
/* logs.c */
api_handler api_job_logs;
/* series.c */
api_handler api_job_series, api_job_norms, api_job_logged, api_job_steps;
/* nodes.c */
api_handler api_nodes_list, api_node_get, api_node_load, api_node_drain, api_node_enable,
    api_node_disable, api_node_delete;
/* meta.c */
api_handler api_catalog, api_datasets, api_dataset, api_events, api_session_get, api_session_start,
    api_session_end, api_link, api_healthz, api_readyz, api_static, api_vendor;
/* datasets.c */
api_handler api_dataset_upload, api_dataset_delete;
/* programs.c */
api_handler api_programs_list, api_program_get, api_program_upload, api_program_delete;
/* tokens.c */
api_handler api_tokens_list, api_token_make, api_token_revoke;
/* disk.c */
api_handler api_disk;
/* owners.c */
api_handler api_owners;
/* webhooks.c */
api_handler api_webhooks_list, api_webhook_get, api_webhook_make, api_webhook_delete;
/* sweeps.c */
api_handler api_sweeps_list, api_sweep_get, api_sweep_start, api_sweep_cancel, api_sweep_delete;
/* accounting.c */
api_handler api_accounting;
/* audit.c */
api_handler api_audit;
/* metrics.c */
api_handler api_metrics;
/* openapi.c */
api_handler api_openapi;

#endif
