/* The answer to `evenstep submit --dry-run`: where the job would run, and a prediction for each
 * strategy on these nodes. */
#include "cli/jobs/jobs.h"
#include "common/json/jsonx.h"
#include "common/text/terminal.h"

static const struct column nodes[] = {
    {"rank", "rank", COLUMN_COUNT},           {"node", "node", COLUMN_TEXT},
    {"device", "device", COLUMN_TEXT},        {"minibatch", "batch", COLUMN_COUNT},
    {"memory", "memory_bytes", COLUMN_BYTES}, COLUMNS_END,
};

static const struct column strategies[] = {
    {"strategy", "strategy", COLUMN_TEXT},
    {"step ms", "step_seconds", COLUMN_MS},
    {"samples/s", "samples_per_second", COLUMN_COUNT},
    {"epoch", "epoch_seconds", COLUMN_SECONDS},
    {"staleness", "staleness.update_mean", COLUMN_NUMBER},
    {"memory", "memory_bytes", COLUMN_BYTES},
    {"chosen", "chosen", COLUMN_FLAG},
    COLUMNS_END,
};

static void print_warnings(const json_t *warnings)
{
    size_t i;
    json_t *one;
    json_array_foreach((json_t *)warnings, i, one) {
        terminal_say("", "warning: %s: %s", jsonx_string_at(one, "pointer"),
                     jsonx_string_at(one, "message"));
    }
}

static void print_prediction(const json_t *prediction)
{
    const char *reason = json_string_value(json_object_get(prediction, "reason"));
    const json_t *list = json_object_get(prediction, "strategies");
    if (json_array_size(list) > 0) {
        bool approximate = json_is_true(json_object_get(prediction, "approximate"));
        printf("\npredicted%s:\n", approximate ? ", approximately" : "");
        columns_print(list, strategies, "  ", stdout);
    } else if (reason) {
        terminal_say("", "no prediction: %s", reason);
    }
}

/* Prints the size of the job. A user's program reports its network, data and batch only once it
 * runs. */
static void print_size(const json_t *answer)
{
    char text[COLUMN_BYTES_MOST], samples[COLUMN_BYTES_MOST];
    if (json_object_get(json_object_get(answer, "spec"), "program")) {
        terminal_say("", "the job is valid: its program brings the network and the data");
    } else {
        terminal_say("", "the job is valid: %s parameters, %s training samples",
                     column_text(text, answer, "parameters", COLUMN_COUNT),
                     column_text(samples, answer, "samples", COLUMN_COUNT));
    }
}

void dryrun_print(const json_t *answer)
{
    const json_t *where = json_object_get(answer, "nodes"),
                 *starts = json_object_get(answer, "starts");
    print_size(answer);
    if (json_is_string(starts)) {
        terminal_say("", "it starts: %s", json_string_value(starts));
    }
    if (json_array_size(where) > 0) {
        columns_print(where, nodes, "  ", stdout);
    }
    print_prediction(json_object_get(answer, "prediction"));
    print_warnings(json_object_get(answer, "warnings"));
}
