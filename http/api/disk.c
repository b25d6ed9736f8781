/* GET /api/v1/disk: how full the disk of the data folder is, and what could go. Asks nothing of the
 * store, which is away when its disk is full. */
#include "http/api/api.h"
#include "http/request/request.h"

int api_disk(struct request *q, struct reply *out, struct err *e)
{
    const struct http_hooks *hooks = &q->server->hooks;
    json_t *disk = hooks->disk ? hooks->disk(hooks->ctx) : NULL;
    return disk ? reply_set_json(out, 200, disk, e)
                : err_set(e, ERR_UNAVAILABLE, "nothing is known of the disk");
}
