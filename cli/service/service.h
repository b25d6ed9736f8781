/* Commands about what the service offers: catalogue, data sets, programs, links for a browser; see
 * cli/jobs/jobs.h. */
#ifndef CLI_SERVICE_SERVICE_H
#define CLI_SERVICE_SERVICE_H

#include "cli/session.h"

extern const struct opt link_options[], programs_options[], token_options[], audit_options[],
    webhook_options[], accounting_options[], datasets_options[];

int command_catalog(struct session *s);  /* catalog.c */
int command_datasets(struct session *s); /* datasets.c */
int command_programs(struct session *s); /* lists.c */
int command_link(struct session *s);
int command_whoami(struct session *s);
int command_metrics(struct session *s);
int command_disk(struct session *s);
int command_owners(struct session *s); /* owners.c */
int command_accounting(struct session *s);
int command_token(struct session *s); /* access.c */
int command_audit(struct session *s);
int command_webhooks(struct session *s); /* webhooks.c */

#endif
