/* What may be asked of an agent: see request.h. Nothing of mpirun's command line travels but
 * numbers and two texts of narrow alphabets: the agent writes the daemon's arguments itself
 * (daemon_line.c), so a forged request could at worst have a daemon connect to a wrong address.
 */
#include "agent/request.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/jsonx.h"

enum { DAEMONS_MOST = 4096, ATTEMPTS_MOST = 30000 };

static int wrong(const char *field, struct err *e)
{
    return err_set(e, ERR_INVALID, "the request's field '%s' is missing or invalid", field);
}

static int read_number(const json_t *body, const char *field, int64_t least, int64_t most,
                       int64_t *out, struct err *e)
{
    const json_t *j = json_object_get(body, field);
    *out = json_integer_value(j);
    return json_is_integer(j) && *out >= least && *out <= most ? 0 : wrong(field, e);
}

static int read_text(const json_t *body, const char *field, const char *alphabet, size_t least,
                     char *out, size_t bytes, struct err *e)
{
    const char *text = json_string_value(json_object_get(body, field));
    if (!text || strlen(text) < least || strlen(text) >= bytes || text[strspn(text, alphabet)]) {
        return wrong(field, e);
    }
    snprintf(out, bytes, "%s", text);
    return 0;
}

#define DIGITS "0123456789"
#define HEX_DIGITS DIGITS "abcdef"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
static const char nodes_alphabet[] = LETTERS DIGITS "-.,:@()[]";
static const char address_alphabet[] = LETTERS DIGITS "-.,:;/[]%";

static const char *const fields[] = {"kind",    "nonce",  "at",     "host",    "job",
                                     "attempt", "family", "daemon", "daemons", "nodes",
                                     "mpirun",  "seal",   "user"};

static int only_known(const json_t *body, struct err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)body, key, value) {
        size_t i = 0;
        while (i < sizeof fields / sizeof *fields && strcmp(fields[i], key) != 0) {
            i++;
        }
        if (i == sizeof fields / sizeof *fields) {
            return err_set(e, ERR_INVALID, "the request has the unknown field '%.40s'", key);
        }
    }
    return 0;
}

/* "FAMILY.0;tcp://ADDRESS,…:PORT;…" */
static int check_address(const struct request *r, struct err *e)
{
    char *end = NULL;
    long long family = strtoll(r->mpirun, &end, 10);
    if (family != r->family || strncmp(end, ".0;tcp", 6) != 0) {
        return wrong("mpirun", e);
    }
    return 0;
}

/* Reads the user; a missing one means "shared". */
static int read_user(const json_t *body, struct request *out, struct err *e)
{
    if (!json_object_get(body, "user")) {
        snprintf(out->user, sizeof out->user, "shared");
        return 0;
    }
    int rc = read_text(body, "user", LETTERS, 3, out->user, sizeof out->user, e);
    return rc < 0 || strcmp(out->user, "own") == 0 || strcmp(out->user, "shared") == 0
               ? rc
               : wrong("user", e);
}

int request_read(struct request *out, const json_t *body, const char *host, struct err *e)
{
    const char *named = json_string_value(json_object_get(body, "host"));
    int64_t attempt = 0, daemon = 0, daemons = 0;
    int rc = only_known(body, e);
    memset(out, 0, sizeof *out);
    if (rc == 0 && (!named || strcmp(named, host) != 0)) {
        rc = err_set(e, ERR_INVALID, "the request is for the host '%.60s', this is '%s'",
                     named ? named : "", host);
    }
    if (rc == 0 &&
        ((rc = read_text(body, "job", HEX_DIGITS, 16, out->job, sizeof out->job, e)) == 0) &&
        ((rc = read_number(body, "attempt", 1, ATTEMPTS_MOST, &attempt, e)) == 0) &&
        ((rc = read_number(body, "family", 1, UINT32_MAX, &out->family, e)) == 0) &&
        ((rc = read_number(body, "daemons", 2, DAEMONS_MOST, &daemons, e)) == 0) &&
        ((rc = read_number(body, "daemon", 1, daemons - 1, &daemon, e)) == 0) &&
        ((rc = read_text(body, "nodes", nodes_alphabet, 3, out->nodes, sizeof out->nodes, e)) ==
         0) &&
        ((rc = read_text(body, "mpirun", address_alphabet, 8, out->mpirun, sizeof out->mpirun,
                         e)) == 0) &&
        ((rc = read_text(body, "seal", HEX_DIGITS, 64, out->seal, sizeof out->seal, e)) == 0) &&
        ((rc = read_user(body, out, e)) == 0) &&
        ((rc = read_text(body, "nonce", HEX_DIGITS, 64, out->nonce, sizeof out->nonce, e)) == 0)) {
        out->attempt = (int)attempt;
        out->daemon = (int)daemon;
        out->daemons = (int)daemons;
        rc = check_address(out, e);
    }
    return rc;
}

void request_unwrap(struct request *r, const struct sign_key *key)
{
    struct sign_key seal;
    BUG_ON(sign_unhex(r->seal, &seal, NULL) < 0); /* request_read() has checked it */
    seal_wrap(key, r->nonce, &seal);
    sign_hex(&seal, r->seal);
}

/* ---- mpirun's side --------------------------------------------------------------------------- */

/* The argument after `name`, without quotes; 0 if it is there. */
static int argument(int argc, char *const *argv, const char *name, char *out, size_t bytes)
{
    for (int i = 0; i + 1 < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            const char *text = argv[i + 1];
            size_t n = strlen(text);
            bool quoted = n >= 2 && text[0] == '"' && text[n - 1] == '"';
            snprintf(out, bytes, "%.*s", (int)(quoted ? n - 2 : n), quoted ? text + 1 : text);
            return 0;
        }
    }
    return -1;
}

static int number_argument(int argc, char *const *argv, const char *name, json_t *into,
                           const char *field, struct err *e)
{
    char text[64], *end = NULL;
    long long v = argument(argc, argv, name, text, sizeof text) == 0 ? strtoll(text, &end, 10) : -1;
    if (v < 0 || !end || end == text || *end) {
        return err_set(e, ERR_UNSUPPORTED,
                       "mpirun's command has no '%s': this Open MPI is not known", name);
    }
    json_object_set_new(into, field, json_integer((json_int_t)v));
    return 0;
}

static int text_argument(int argc, char *const *argv, const char *name, json_t *into,
                         const char *field, struct err *e)
{
    char text[4096];
    if (argument(argc, argv, name, text, sizeof text) < 0) {
        return err_set(e, ERR_UNSUPPORTED,
                       "mpirun's command has no '%s': this Open MPI is not known", name);
    }
    json_object_set_new(into, field, json_string(text));
    return 0;
}

json_t *request_from_command(int argc, char *const *argv, struct err *e)
{
    json_t *body = json_object();
    if (number_argument(argc, argv, "ess_base_jobid", body, "family", e) < 0 ||
        number_argument(argc, argv, "ess_base_vpid", body, "daemon", e) < 0 ||
        number_argument(argc, argv, "ess_base_num_procs", body, "daemons", e) < 0 ||
        text_argument(argc, argv, "orte_node_regex", body, "nodes", e) < 0 ||
        text_argument(argc, argv, "orte_hnp_uri", body, "mpirun", e) < 0) {
        json_decref(body);
        return NULL;
    }
    return body;
}

/* ---- the answer ------------------------------------------------------------------------------ */

json_t *request_answer_json(const struct request_answer *a)
{
    return json_pack("{s:s, s:s, s:i, s:s}", "nonce", a->nonce, "state", a->state, "code", a->code,
                     "message", a->message);
}

void request_answer_read(struct request_answer *out, const json_t *body)
{
    *out = (struct request_answer){.nonce = jsonx_string_at(body, "nonce"),
                                   .state = jsonx_string_at(body, "state"),
                                   .message = jsonx_string_at(body, "message"),
                                   .code = (int)json_integer_value(json_object_get(body, "code"))};
}
