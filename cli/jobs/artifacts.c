/* `evenstep artifacts` and `evenstep download`: the files that a job made. */
#include <stdio.h>
#include <string.h>

#include "cli/jobs/fetch.h"
#include "cli/jobs/find.h"
#include "cli/jobs/jobs.h"

const struct opt download_options[] = {
    {"output", "DIR", OPT_STRING, ".", 0, 0, "folder that they go to, made if it is not there"},
    {0},
};

static const struct column columns[] = {
    {"name", "name", COLUMN_WHOLE},
    {"size", "bytes", COLUMN_BYTES},
    {"sha256", "sha256", COLUMN_TEXT},
    COLUMNS_END,
};

static void print_artifacts(const json_t *answer)
{
    columns_print(json_object_get(answer, "artifacts"), columns, "", stdout);
}

int command_artifacts(struct session *s)
{
    char path[256];
    int rc = job_path(s, session_argument(s, 0), "/artifacts", path);
    return rc < 0 ? rc : session_show(s, "GET", path, print_artifacts);
}

static void print_files(const json_t *answer)
{
    columns_lines(json_object_get(answer, "files"), "", "", stdout);
}

/* Downloads the named artifacts, or all. */
int command_download(struct session *s)
{
    char id[JOB_ID_BYTES];
    const char *folder = opt_string(s->options, "output");
    json_t *files = json_array();
    int rc = job_find(s, session_argument(s, 0), id);
    if (rc == 0 && !session_argument(s, 1)) {
        rc = fetch_all(s, id, folder, files);
        if (rc == 0) {
            fprintf(stderr, "the job has no files: none yet, or none at all\n");
        }
    }
    for (int i = 1; rc >= 0 && session_argument(s, i); i++) {
        rc = fetch_one(s, id, folder, session_argument(s, i), files);
    }
    if (rc >= 0 || json_array_size(files) > 0) {
        session_print(s, json_pack("{s:O}", "files", files), print_files);
    }
    json_decref(files);
    return rc < 0 ? rc : 0;
}
