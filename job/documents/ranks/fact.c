/* See fact.h. */
#include "job/documents/ranks/fact.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "common/json/jsonx.h"
#include "job/documents/people/failure.h"
#include "job/seal.h"

static const double longest = 1e12;

static const char *const types[FACT_TYPES] = {
    [FACT_LOADED] = "loaded",
    [FACT_EVALUATION] = "evaluation",
    [FACT_NORMS] = "norms",
    [FACT_LOGGED] = "logged",
    [FACT_JOINED] = "joined",
    [FACT_CRASHED] = "crashed",
    [FACT_PROFILE] = "profile",
    [FACT_TUNING] = "tuning",
    [FACT_CHECKPOINT] = "checkpoint",
    [FACT_ARTIFACT] = "artifact",
    [FACT_RESTORED] = "restored",
    [FACT_LOST] = "lost",
    [FACT_LEFT] = "left",
    [FACT_RETURNED] = "returned",
    [FACT_ENDED] = "ended",
};
static const char *const outcomes[OUTCOMES] = {
    [OUTCOME_FINISHED] = "finished",
    [OUTCOME_PAUSED] = "paused",
    [OUTCOME_STOPPED] = "stopped",
    [OUTCOME_FAILED] = "failed",
};

int64_t fact_number_last(int seat)
{
    return ((int64_t)seat + 1) << 40;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_ended(json_t *j, const struct ended *end)
{
    json_object_set_new(j, "outcome", json_string(outcomes[end->outcome]));
    json_object_set_new(j, "code", json_string(err_name(end->code)));
    json_object_set_new(j, "message", jsonx_text(end->message));
    json_object_set_new(j, "program", program_end_json(&end->program));
}

static void write_saved(json_t *j, const struct fact *f, const char *file)
{
    json_object_set_new(j, f->type == FACT_CHECKPOINT ? "path" : "name", json_string(file));
    json_object_set_new(j, "step", json_integer((json_int_t)f->saved.step));
    json_object_set_new(j, "time", json_real(f->saved.time));
}

static const char of_signal[] = "exited on signal ";

void fact_describe_end(char lost[DOCUMENT_MESSAGE], int status)
{
    if (WIFSIGNALED(status)) {
        snprintf(lost, DOCUMENT_MESSAGE, "%s%d (%s)", of_signal, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    } else {
        snprintf(lost, DOCUMENT_MESSAGE, "exited with code %d", WEXITSTATUS(status));
    }
}

bool fact_tells_kill(const char *lost)
{
    size_t n = strlen(of_signal);
    return strncmp(lost, of_signal, n) == 0 && strtol(lost + n, NULL, 10) == SIGKILL;
}

json_t *fact_json(const struct fact *f)
{
    json_t *j = document_new(FACT_FORMAT, &f->from);
    json_object_set_new(j, "number", json_integer((json_int_t)f->number));
    json_object_set_new(j, "type", json_string(types[f->type]));
    json_object_set_new(j, "node", json_string(f->node));
    switch (f->type) {
    case FACT_LOADED:
        json_object_set_new(j, "samples", json_integer((json_int_t)f->loaded));
        break;
    case FACT_EVALUATION:
        evaluation_write(j, &f->evaluation);
        break;
    case FACT_NORMS:
        norms_write(j, &f->norms);
        break;
    case FACT_LOGGED:
        logged_write(j, &f->logged);
        break;
    case FACT_CRASHED:
        json_object_set_new(j, "message", jsonx_text(f->crashed));
        break;
    case FACT_JOINED:
        json_object_set_new(j, "program", joined_json(&f->joined));
        break;
    case FACT_PROFILE:
        json_object_set_new(j, "a", json_real(f->profile.a));
        json_object_set_new(j, "k", json_real(f->profile.k));
        json_object_set_new(j, "max_batch", json_integer(f->profile.max_batch));
        break;
    case FACT_TUNING:
        json_object_set(j, "tuning", f->tuning);
        break;
    case FACT_CHECKPOINT:
    case FACT_ARTIFACT:
        write_saved(j, f, f->saved.file);
        break;
    case FACT_RESTORED:
        json_object_set_new(j, "version", json_integer((json_int_t)f->version));
        break;
    case FACT_LOST:
        json_object_set_new(j, "message", jsonx_text(f->lost));
        break;
    case FACT_LEFT:
    case FACT_RETURNED:
        json_object_set_new(j, "left", departure_json(&f->left));
        break;
    case FACT_ENDED:
        write_ended(j, &f->ended);
        break;
    }
    return j;
}

json_t *fact_saved_json(const struct fact *f)
{
    json_t *j = json_pack("{s:s}", "type", types[f->type]);
    const char *slash = strrchr(f->saved.file, '/');
    write_saved(j, f, slash ? slash + 1 : f->saved.file);
    return j;
}

json_t *fact_crashed_json(const struct fact *f)
{
    json_t *j =
        json_pack("{s:s, s:i, s:s}", "type", types[f->type], "rank", f->from.rank, "node", f->node);
    json_object_set_new(j, "message", jsonx_text(f->crashed));
    return j;
}

json_t *ended_json(const struct ended *end)
{
    json_t *j = json_pack("{s:i, s:s}", "rank", end->rank, "node", end->node);
    write_ended(j, end);
    return j;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void read_ended(const struct document *d, struct ended *end)
{
    char code[24];
    int outcome = document_choice(d, "outcome", outcomes, OUTCOMES);
    end->outcome = outcome >= 0 ? (enum outcome)outcome : OUTCOME_FAILED;
    document_text(d, "code", code, sizeof code);
    if (code[0] && !failure_code(code, &end->code)) {
        document_problem(d, "code", "'%s' is not the code of an error", code);
    }
    document_sentence(d, "message", end->message, sizeof end->message);
    program_end_parse(d, &end->program);
}

void ended_parse(const struct document *d, struct ended *out)
{
    read_ended(d, out);
    out->rank = (int)document_integer(d, "rank", 0, INT32_MAX);
    document_text(d, "node", out->node, sizeof out->node);
}

static void read_own(const struct document *d, struct fact *f)
{
    struct document within;
    switch (f->type) {
    case FACT_LOADED:
        f->loaded = document_integer(d, "samples", 0, INT64_MAX);
        break;
    case FACT_EVALUATION:
        evaluation_parse(d, &f->evaluation);
        break;
    case FACT_NORMS:
        norms_parse(d, &f->norms);
        break;
    case FACT_LOGGED:
        logged_parse(d, &f->logged);
        break;
    case FACT_CRASHED:
        document_sentence(d, "message", f->crashed, sizeof f->crashed);
        break;
    case FACT_JOINED:
        within = document_within(d, "program");
        joined_parse(&within, &f->joined);
        break;
    case FACT_PROFILE:
        f->profile.a = document_number(d, "a", -longest, longest);
        f->profile.k = document_number(d, "k", -longest, longest);
        f->profile.max_batch = (int)document_integer(d, "max_batch", 0, INT32_MAX);
        break;
    case FACT_TUNING:
        f->tuning = document_object(d, "tuning", true);
        break;
    case FACT_CHECKPOINT:
    case FACT_ARTIFACT:
        document_text(d, f->type == FACT_CHECKPOINT ? "path" : "name", f->saved.file,
                      sizeof f->saved.file);
        f->saved.step = document_integer(d, "step", 0, INT64_MAX);
        f->saved.time = document_number(d, "time", -longest, longest);
        break;
    case FACT_RESTORED:
        f->version = document_integer(d, "version", 0, INT64_MAX);
        break;
    case FACT_LOST:
        document_sentence(d, "message", f->lost, sizeof f->lost);
        break;
    case FACT_LEFT:
    case FACT_RETURNED:
        within = document_within(d, "left");
        departure_parse(&within, &f->left);
        break;
    case FACT_ENDED:
        read_ended(d, &f->ended);
        f->ended.rank = f->from.rank;
        snprintf(f->ended.node, sizeof f->ended.node, "%s", f->node);
        break;
    }
}

int fact_read(struct fact *out, const json_t *j, struct err *e)
{
    struct jsonx_problems problems = {0};
    memset(out, 0, sizeof *out);
    struct document d = document_open(j, FACT_FORMAT, &out->from, &problems);
    out->number = document_integer(&d, "number", 1, INT64_MAX);
    document_text(&d, "node", out->node, sizeof out->node);
    int type = document_choice(&d, "type", types, FACT_TYPES);
    if (type >= 0) {
        out->type = (enum fact_type)type;
        read_own(&d, out);
    }
    return document_close(&d, "the fact", e);
}

int fact_open(struct fact *out, const json_t *claimed, const struct sign_key *key, struct err *e)
{
    json_t *j = sign_open(key, SEAL_FACT, jsonx_string_at(claimed, SEAL_FIELD), e);
    if (!j) {
        return -(int)e->code;
    }
    int rc = fact_read(out, j, e);
    json_decref(j);
    return rc;
}

void fact_claims(const json_t *claimed, int64_t *attempt, int64_t *rank)
{
    *attempt = json_integer_value(json_object_get(claimed, "attempt"));
    *rank = json_integer_value(json_object_get(claimed, "rank"));
}

void fact_release(struct fact *f)
{
    if (f->type == FACT_TUNING) {
        json_decref(f->tuning);
    } else if (f->type == FACT_LEFT || f->type == FACT_RETURNED) {
        departure_release(&f->left);
    } else if (f->type == FACT_NORMS) {
        norms_release(&f->norms);
    } else if (f->type == FACT_LOGGED) {
        logged_release(&f->logged);
    }
    memset(f, 0, sizeof *f);
}

bool fact_is_its_own(const struct fact *f, int first, int workers)
{
    int rank = f->from.rank;
    bool keeper = rank == workers, worker = rank >= 0 && rank < workers;
    switch (f->type) {
    case FACT_EVALUATION:
        return rank <= first || keeper;
    case FACT_NORMS:
    case FACT_LOGGED:
        return worker && rank <= first;
    case FACT_JOINED:
        return rank == 0;
    case FACT_CRASHED:
    case FACT_PROFILE:
    case FACT_TUNING:
        return worker;
    case FACT_LOST:
        return true;
    case FACT_ENDED:
        return keeper || f->ended.outcome == OUTCOME_FAILED;
    default:
        return keeper;
    }
}
