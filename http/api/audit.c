/* GET /api/v1/audit; the entries are in audit.h. */
#include <string.h>

#include "http/access/audit.h"
#include "http/api/api.h"
#include "http/request/request.h"

int api_audit(struct request *q, struct reply *out, struct err *e)
{
    const struct audit_query query = {.who = request_param(q, "who"),
                                      .since = request_param(q, "since"),
                                      .cursor = request_param(q, "cursor"),
                                      .limit = (int)request_int(q, "limit", 50)};
    json_t *page = audit_read(q->server->audit, &query, e);
    bool of_cursor = !page && strstr(e->message, "cursor");
    return page ? reply_set_json(out, 200, page, e)
                : request_blame(q, of_cursor ? "cursor" : "since", e);
}
