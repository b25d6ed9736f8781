/* HTTP through libcurl: see client.h. */
#include "cli/client.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/jsonx.h"
#include "common/path.h"

enum { MOST_BYTES = 64 << 20, TOKEN_BYTES = 4096 };

int client_open(struct client *c, const struct opt_values *options, struct err *e)
{
    const char *url = opt_string(options, "url"), *file = opt_string(options, "token-file"),
               *token = getenv("EVENSTEP_TOKEN");
    memset(c, 0, sizeof *c);
    size_t n = strlen(url);
    while (n > 0 && url[n - 1] == '/') {
        n--;
    }
    if (n >= sizeof c->url ||
        (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)) {
        return err_set(e, ERR_INVALID, "'%.80s' is no address: http://HOST:PORT is wanted", url);
    }
    memcpy(c->url, url, n);
    if (file) {
        c->token = path_read_line(file, TOKEN_BYTES, e);
    } else if (token) {
        c->token = strdup(token);
    } else {
        c->token = path_read_line("evenstep-data/token", TOKEN_BYTES, e);
        if (!c->token) {
            err_set(e, ERR_UNAUTHORIZED, "there is no token");
            err_hint(
                e,
                "set EVENSTEP_TOKEN, or --token-file to the file `token` in the data directory of `evenstep serve`");
        }
    }
    return c->token ? 0 : -(int)e->code;
}

void client_close(struct client *c)
{
    free(c->token);
    free(c->problems);
    c->token = c->problems = NULL;
}

static size_t take(char *bytes, size_t size, size_t n, void *ctx)
{
    buf_add(ctx, bytes, size * n);
    return ((struct buf *)ctx)->failed ? 0 : size * n;
}

/* Every problem on a line of its own, however many there are. */
static char *list_problems(const json_t *errors)
{
    struct buf lines;
    size_t i;
    json_t *one;
    buf_init(&lines, MOST_BYTES);
    json_array_foreach((json_t *)errors, i, one) {
        const char *pointer = json_string_value(json_object_get(one, "pointer")),
                   *message = json_string_value(json_object_get(one, "message"));
        buf_addf(&lines, "  %s%s%s\n", pointer ? pointer : "", pointer && *pointer ? ": " : "",
                 message ? message : "");
    }
    char *text = lines.len > 0 && !lines.failed ? strdup(lines.data) : NULL;
    buf_release(&lines);
    return text;
}

static enum err_code code_of(long status)
{
    return status == 404   ? ERR_NOT_FOUND
           : status == 401 ? ERR_UNAUTHORIZED
           : status == 403 ? ERR_FORBIDDEN
           : status == 409 ? ERR_CONFLICT
           : status >= 500 ? ERR_UNAVAILABLE
                           : ERR_INVALID;
}

/* application/problem+json as an error. */
static void explain(struct client *c, const json_t *problem, long status, struct err *e)
{
    const char *title = json_string_value(json_object_get(problem, "title")),
               *detail = json_string_value(json_object_get(problem, "detail"));
    const char *hint = json_string_value(json_object_get(problem, "hint"));
    err_set(e, code_of(status), "%s",
            detail && *detail ? detail
            : title           ? title
                              : "the service refused");
    if (hint && *hint) {
        err_hint(e, "%s", hint);
    }
    free(c->problems);
    c->problems = list_problems(json_object_get(problem, "errors"));
}

static json_t *read_answer(struct client *c, struct buf *answer, long status, struct err *e)
{
    json_t *j = answer->len > 0 ? jsonx_parse(answer->data, answer->len, e) : json_null();
    if (status >= 200 && status < 300) {
        return j;
    }
    if (json_is_object(j)) {
        explain(c, j, status, e);
    } else {
        err_set(e, ERR_UNAVAILABLE, "%s answered %ld", c->url, status);
    }
    json_decref(j);
    return NULL;
}

static bool is_loopback(const char *url)
{
    static const char *const hosts[] = {"http://127.",  "http://localhost",  "http://[::1]",
                                        "https://127.", "https://localhost", "https://[::1]"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (strncmp(url, hosts[i], strlen(hosts[i])) == 0) {
            return true;
        }
    }
    return false;
}

json_t *client_call(struct client *c, const char *method, const char *path, const json_t *body,
                    struct err *e)
{
    char url[1536], authorization[TOKEN_BYTES + 32], why[CURL_ERROR_SIZE] = "";
    struct buf answer;
    char *text = body ? jsonx_dump(body, false, NULL) : NULL;
    struct curl_slist *headers = NULL;
    json_t *out = NULL;
    long status = 0;
    CURL *curl = curl_easy_init();
    buf_init(&answer, MOST_BYTES);
    snprintf(url, sizeof url, "%s%s", c->url, path);
    snprintf(authorization, sizeof authorization, "Authorization: Bearer %s", c->token);
    headers = curl_slist_append(headers, authorization);
    headers = curl_slist_append(headers, "Content-Type: application/json");
    if (!curl || !headers || (body && !text)) {
        err_set(e, ERR_MEMORY, "cannot ask the service: memory ran out");
        goto out;
    }
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
    curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 10L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 120L);
    curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
    if (is_loopback(c->url)) {
        curl_easy_setopt(curl, CURLOPT_PROXY,
                         ""); /* whatever http_proxy says, nobody else reaches our loopback */
    }
    if (text || strcmp(method, "POST") == 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text ? text : "");
    }
    CURLcode rc = curl_easy_perform(curl);
    if (rc != CURLE_OK) {
        err_set(e, ERR_UNAVAILABLE, "cannot reach %s: %s", c->url,
                *why ? why : curl_easy_strerror(rc));
        err_hint(e,
                 "is `evenstep serve` running there? EVENSTEP_URL or --url names another address");
        goto out;
    }
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    out = read_answer(c, &answer, status, e);
out:
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    buf_release(&answer);
    free(text);
    return out;
}
