/* Programs of users that jobs can name. The coordinator keeps them. This file takes an upload that
 * arrived whole, and answers what was wrong with each entry. */
#include <stdio.h>
#include <string.h>

#include "http/api/api.h"
#include "http/request/request.h"

static json_t *list_all(struct request *q, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    err_clear(e);
    json_t *list = hooks->programs ? hooks->programs(hooks->ctx, e) : json_array();
    if (!list && !e->code) {
        err_set(e, ERR_INTERNAL, "cannot list the programs");
    }
    return list;
}

int api_programs_list(struct request *q, struct reply *out, struct err *e)
{
    json_t *list = list_all(q, e);
    return list ? reply_set_json(out, 200, json_pack("{s:o}", "programs", list), e) : -(int)e->code;
}

static bool is_called(const json_t *program, const char *name)
{
    const char *digest = json_string_value(json_object_get(program, "digest")),
               *own = json_string_value(json_object_get(program, "name"));
    return (digest && strcmp(digest, name) == 0) || (own && strcmp(own, name) == 0);
}

int api_program_get(struct request *q, struct reply *out, struct err *e)
{
    const char *name = q->match.args[0];
    json_t *list = list_all(q, e), *one, *found = NULL;
    size_t i;
    if (!list) {
        return -(int)e->code;
    }
    json_array_foreach(list, i, one) {
        if (!found && is_called(one, name)) {
            found = json_incref(one);
        }
    }
    json_decref(list);
    return found ? reply_set_json(out, 200, found, e)
                 : err_set(e, ERR_NOT_FOUND, "there is no program '%.80s'", name);
}

int api_program_upload(struct request *q, struct reply *out, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    char location[120];
    bool fresh = false;
    FILE *archive = upload_file(&q->upload, e);
    json_t *program =
        archive ? hooks->program_add(hooks->ctx, archive, q->who.name, &fresh, &q->problems, e)
                : NULL;
    upload_close(&q->upload);
    if (q->problems.count > 0) {
        json_decref(program);
        return err_set(e, ERR_INVALID, "the program is not taken: %s",
                       q->problems.items[0].message);
    }
    if (!program) {
        return -(int)e->code;
    }
    snprintf(location, sizeof(location), "/api/v1/programs/%s",
             json_string_value(json_object_get(program, "digest")));
    int rc = reply_set_json(out, fresh ? 201 : 200, program, e);
    reply_header(out, "Location", location);
    return rc;
}

/* An uploaded program's name is its digest, and so is its version. */
int api_program_delete(struct request *q, struct reply *out, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    char etag[ROUTE_ARG_BYTES + 2];
    snprintf(etag, sizeof(etag), "\"%s\"", q->match.args[0]);
    if (!request_matches(q, etag, out)) {
        return 0;
    }
    int rc = hooks->program_delete
                 ? hooks->program_delete(hooks->ctx, q->match.args[0], e)
                 : err_set(e, ERR_NOT_FOUND, "there is no program '%.80s'", q->match.args[0]);
    return rc < 0 ? rc : reply_set_empty(out, 204, e);
}
