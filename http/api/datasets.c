/* Data sets of users. This file takes an upload that arrived whole, and answers what was wrong with
 * its entries. The coordinator keeps data sets; meta.c lists them. */
#include <stdio.h>
#include <string.h>

#include "http/api/api.h"
#include "http/request/request.h"

int api_dataset_upload(struct request *q, struct reply *out, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    const char *name = request_param(q, "name");
    char location[120];
    bool fresh = false;
    FILE *archive = upload_file(&q->upload, e);
    json_t *kept = archive ? hooks->dataset_add(hooks->ctx, name ? name : "", archive, q->who.name,
                                                &fresh, &q->problems, e)
                           : NULL;
    upload_close(&q->upload);
    if (q->problems.count > 0) {
        json_decref(kept);
        return err_set(e, ERR_INVALID, "the data set is not taken: %s",
                       q->problems.items[0].message);
    }
    if (!kept) {
        return -(int)e->code;
    }
    snprintf(location, sizeof(location), "/api/v1/datasets/samples?path=%s", name);
    int rc = reply_set_json(out, fresh ? 201 : 200, kept, e);
    reply_header(out, "Location", location);
    return rc;
}

/* An uploaded data set never changes: its name is its version. */
int api_dataset_delete(struct request *q, struct reply *out, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    char etag[ROUTE_ARG_BYTES + 2];
    snprintf(etag, sizeof(etag), "\"%s\"", q->match.args[0]);
    if (!request_matches(q, etag, out)) {
        return 0;
    }
    int rc = hooks->dataset_delete
                 ? hooks->dataset_delete(hooks->ctx, q->match.args[0], e)
                 : err_set(e, ERR_NOT_FOUND, "no data set '%.80s' was uploaded", q->match.args[0]);
    return rc < 0 ? rc : reply_set_empty(out, 204, e);
}
