/* `evenstep submit`: a spec from a file becomes a job, or with --dry-run is only checked. */
#include <string.h>

#include "cli/jobs/jobs.h"
#include "cli/jobs/watch.h"
#include "common/text/buf.h"
#include "common/json/jsonx.h"

enum { SPEC_BYTES = 16 << 20 };

const struct opt submit_options[] = {
    {"dry-run", NULL, OPT_FLAG, NULL, 0, 0, "only checks the job and says where it would run"},
    {"watch", NULL, OPT_FLAG, NULL, 0, 0, "shows its progress until it ends"},
    {0},
};

json_t *submit_read(const char *path, const char *what, struct err *e)
{
    if (strcmp(path, "-") != 0) {
        json_t *j = jsonx_load(path, SPEC_BYTES, e);
        if (!j) {
            err_prefix(e, "cannot read the %s", what);
        }
        return j;
    }
    struct buf b;
    char chunk[65536];
    size_t n;
    buf_init(&b, SPEC_BYTES);
    while ((n = fread(chunk, 1, sizeof chunk, stdin)) > 0) {
        buf_add(&b, chunk, n);
    }
    json_t *j = b.failed ? NULL : jsonx_parse(b.data ? b.data : "", b.len, e);
    if (!j && !b.failed) {
        err_prefix(e, "cannot read the %s on standard input", what);
    }
    if (b.failed) {
        err_set(e, ERR_TOO_LARGE, "the %s on standard input is larger than %d bytes", what,
                SPEC_BYTES);
    }
    buf_release(&b);
    return j;
}

static void print_id(const json_t *job)
{
    printf("%s\n", jsonx_string_at(job, "id"));
}

/* With --json the id is not printed: the job's document has it. */
static int submit_and_watch(struct session *s, json_t *job)
{
    char id[64];
    snprintf(id, sizeof id, "%s", jsonx_string_at(job, "id"));
    if (!s->json) {
        print_id(job);
        fflush(stdout);
    }
    json_decref(job);
    return watch_to_end(s, id);
}

int command_submit(struct session *s)
{
    bool dry = opt_flag(s->options, "dry-run"), watch = opt_flag(s->options, "watch");
    json_t *spec = submit_read(session_argument(s, 0), "job", &s->err);
    if (!spec) {
        return STATUS_USAGE;
    }
    const char *path = dry ? "/api/v1/jobs?dryRun=true" : "/api/v1/jobs";
    json_t *answer = client_call(&s->client, "POST", path, spec, &s->err);
    json_decref(spec);
    if (answer && watch && !dry) {
        return submit_and_watch(s, answer);
    }
    return session_print(s, answer, dry ? dryrun_print : print_id);
}
