/* `evenstep run FILE`: a program of the user's as a job, from the folder that it lies in to the
 * results that it wrote.
 *
 *     pack the folder ─► a service, or one for this run ─► upload ─► submit ─► follow ─► artifacts
 *
 * The first line of stdout is the job's id and nothing else is there, or with --json the job's
 * document once it has ended or is left; everything for people is on stderr. The exit status says
 * how it ended (cli/status.h; docs/own-program-run.md).
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/choices.h"
#include "cli/commands.h"
#include "cli/jobs/fetch.h"
#include "cli/jobs/watch.h"
#include "cli/run/absent.h"
#include "cli/run/check.h"
#include "cli/run/follow.h"
#include "cli/run/interpreter.h"
#include "cli/run/pack.h"
#include "cli/run/refusals.h"
#include "cli/run/private.h"
#include "cli/run/spec.h"
#include "cli/session.h"
#include "common/clock.h"
#include "common/process/answer.h"
#include "common/process/proc.h"
#include "job/spec/spec.h"

static const char usage[] = "evenstep run [OPTIONS] FILE [ARGS …]";

const struct opt run_options[] = {
    {"workers", "N", OPT_STRING, "1", 0, 0,
     "nodes that the program runs on; with 2..4 as many of them as there are (docs/elastic.md)"},
    {"strategy", "STRATEGY", OPT_STRING, NULL, 0, 0,
     "how they train together (`evenstep catalog` lists them; default: the service's)"},
    {"set", "POINTER=VALUE", OPT_LIST, NULL, 0, 0,
     "a value of the job's spec, such as /batching/policy=equal"},
    {"python", "PATH", OPT_STRING, "python3", 0, 0,
     "interpreter of a FILE that ends in .py: a name, or a path that the nodes have; another FILE "
     "runs itself"},
    {"ddp", NULL, OPT_FLAG, NULL, 0, 0,
     "FILE is a PyTorch program written for DistributedDataParallel; minibatches are equal"},
    {"env", "NAME[=VALUE]", OPT_LIST, NULL, 0, 0,
     "a variable of the program's environment; NAME alone: as it is here (no secret: who reads the "
     "job reads it)"},
    {"name", "NAME", OPT_STRING, NULL, 0, 0, "name of the job (default: the file's)"},
    {"folder", "DIR", OPT_STRING, NULL, 0, 0,
     "folder that goes to the nodes and that the program runs in (default: the file's)"},
    {"output", "DIR", OPT_STRING, NULL, 0, 0, "the job's artifacts are brought back into it"},
    {"check", NULL, OPT_FLAG, NULL, 0, 0,
     "trains it twice, on one worker and on three (--workers) of unequal minibatches, and says "
     "whether both models are the same"},
    {"detach", NULL, OPT_FLAG, NULL, 0, 0, "ends when the job is submitted"},
    {"json", NULL, OPT_FLAG, NULL, 0, 0,
     "prints the job as JSON on stdout when the command ends, and nothing else there"},
    CLIENT_ADDRESS,
    CLIENT_HELP,
    {0},
};

struct run {
    struct session session;
    struct run_program program;
    struct pack pack;
    struct private_service own;
    json_t *spec, *told; /* told: what the library said to the program of the last job */
    char id[64];
};

static struct err *err_of(struct run *r)
{
    return &r->session.err;
}

/* It was refused, or nobody could be asked. */
static enum status not_served(const struct run *r)
{
    int refusal = r->session.client.refusal;
    if (r->session.err.code == ERR_NOT_FOUND && *r->id) {
        return STATUS_NOT_FOUND;
    }
    return refusal >= 400 && refusal < 500 ? STATUS_REFUSED : STATUS_UNREACHABLE;
}

/* ---- a service ------------------------------------------------------------------------------- */

/* As many as the job may have workers, whichever option has said so. */
static int nodes_wanted(const json_t *spec)
{
    const json_t *elastic = json_object_get(spec, "elastic"),
                 *most =
                     elastic ? json_object_get(elastic, "max") : json_object_get(spec, "workers");
    json_int_t n = json_integer_value(most); /* 0: the service will say what is wrong with it */
    return n < 1 ? 1 : n > SPEC_WORKERS ? SPEC_WORKERS : (int)n;
}

static int start_own(struct run *r, const struct opt_values *o)
{
    if (opt_flag(o, "detach")) {
        err_set(err_of(r), ERR_UNAVAILABLE,
                "no service is running that the job could be left with");
        return err_hint(err_of(r), "`evenstep serve --allow-programs` starts one");
    }
    char python[PATH_MAX];
    bool named = r->program.is_python && opt_given(o, "python");
    int rc = named ? run_python(o, python, err_of(r)) : 0;
    fprintf(stderr, "no service is running: starting one for this run\n");
    rc = rc == 0 ? private_start(&r->own, nodes_wanted(r->spec), named ? python : NULL, err_of(r))
                 : rc;
    return rc < 0 ? rc
                  : client_open_at(&r->session.client, r->own.url, r->own.token_file, err_of(r));
}

/* An address that was named is the one that is meant; the default address may have nobody. */
static enum status connect_service(struct run *r)
{
    const struct opt_values *o = r->session.options;
    if (opt_given(o, "url") || client_is_there(opt_string(o, "url"))) {
        return client_open(&r->session.client, o, err_of(r)) < 0 ? STATUS_USAGE : STATUS_DONE;
    }
    return start_own(r, o) < 0 ? STATUS_UNREACHABLE : STATUS_DONE;
}

/* ---- upload and submit ----------------------------------------------------------------------- */

static int upload(struct run *r)
{
    json_t *answer = client_upload(&r->session.client, "/api/v1/programs", "application/x-tar",
                                   r->pack.bytes, r->pack.n, err_of(r));
    json_t *digest = json_object_get(answer, "digest");
    if (answer && !json_is_string(digest)) {
        err_set(err_of(r), ERR_DATA, "the service did not tell the program's digest");
    }
    json_object_set(json_object_get(r->spec, "program"), "digest", digest);
    json_decref(answer);
    return -(int)err_of(r)->code;
}

static int submit(struct run *r)
{
    json_t *job = client_call(&r->session.client, "POST", "/api/v1/jobs", r->spec, err_of(r));
    const char *id = json_string_value(json_object_get(job, "id"));
    if (job && !id) {
        err_set(err_of(r), ERR_DATA, "the service did not tell the job's id");
    }
    snprintf(r->id, sizeof r->id, "%s", id ? id : "");
    json_decref(job);
    if (id && !r->session.json) {
        printf("%s\n", r->id);
        fflush(stdout);
    }
    return -(int)err_of(r)->code;
}

/* Its document, as it is now. What is wrong already stays the error that is told. */
static void print_document(struct run *r)
{
    char path[128];
    struct err before = *err_of(r);
    snprintf(path, sizeof path, "/api/v1/jobs/%s", r->id);
    session_show(&r->session, "GET", path, NULL);
    *err_of(r) = before.code ? before : *err_of(r);
}

/* The page, and where we may ask for it, an address that signs a browser in. */
static void tell_page(struct run *r)
{
    struct err ignored = {0};
    struct client *c = &r->session.client;
    json_t *answer = *r->own.link ? NULL : client_call(c, "POST", "/api/v1/link", NULL, &ignored);
    const char *made = json_string_value(json_object_get(answer, "url")),
               *link = *r->own.link ? r->own.link : made;
    fprintf(stderr, "page: %s/#/jobs/%s\n", c->url, r->id);
    if (link) {
        fprintf(stderr, "to sign in: %s\n", link);
    }
    json_decref(answer);
}

/* ---- one job --------------------------------------------------------------------------------- */

/* The program's folder; or its file alone, if nobody named a folder and the file's is no project's.
 */
static int pack(struct run *r)
{
    const struct opt_values *o = r->session.options;
    const struct run_program *p = &r->program;
    const char *why = opt_string(o, "folder") ? NULL : refusal_of_folder(p->folder);
    if (why && p->module) {
        err_set(err_of(r), ERR_INVALID, "%s is not taken for the folder of module '%s', since %s",
                p->folder, p->module, why);
        return err_hint(err_of(r), "--folder takes it all the same");
    }
    int rc = why ? pack_file(&r->pack, p->folder, p->file, err_of(r))
                 : pack_folder(&r->pack, p->folder, p->file, opt_string(o, "output"), err_of(r));
    if (rc == 0 && why) {
        fprintf(stderr,
                "packed %s alone, %.1f KiB: %s is not taken for the program's folder, since %s "
                "(--folder takes it all the same)\n",
                p->file, (double)r->pack.n / 1024, p->folder, why);
    } else if (rc == 0) {
        fprintf(stderr, "packed %zu file%s%s of %s, %.1f KiB\n", r->pack.files,
                r->pack.files == 1 ? "" : "s", r->pack.by_git ? " that git knows" : "", p->folder,
                (double)r->pack.n / 1024);
    }
    return rc;
}

/* In a folder of many programs this one may be none of those that take part. */
static void note_if_elsewhere(const struct run_program *p)
{
    char path[2 * PATH_MAX];
    snprintf(path, sizeof path, "%s/%s", p->folder, p->file);
    char *text = proc_read_file(path, PACK_BYTES_MOST, NULL, NULL);
    if (text && !strcasestr(text, "evenstep")) {
        fprintf(stderr,
                "%s does not call evenstep itself: if no module of its does, each node runs the "
                "whole of it\n",
                p->file);
    }
    free(text);
}

/* A Python program that never says our name would train the whole by itself on each node. */
static int check_takes_part(struct run *r)
{
    const struct opt_values *o = r->session.options;
    const struct run_program *p = &r->program;
    if (!p->is_python || opt_flag(o, "ddp")) {
        return 0;
    }
    if (pack_mentions(&r->pack, "evenstep")) {
        note_if_elsewhere(p);
        return 0;
    }
    err_set(
        err_of(r), ERR_INVALID,
        "no file that would go to the nodes calls evenstep: each of them would run the whole of "
        "%s by itself",
        p->file);
    return err_hint(err_of(r),
                    "import evenstep and call evenstep.prepare(model, optimizer, loader) "
                    "before the loop (docs/own-program.md), or import it here, too, where an "
                    "installed module calls it; a program for DistributedDataParallel runs by "
                    "`evenstep run --ddp`");
}

static enum status prepare(struct run *r, const char *file)
{
    const struct opt_values *o = r->session.options;
    if (opt_flag(o, "detach") && opt_string(o, "output")) {
        err_set(err_of(r), ERR_INVALID, "--output waits for the job's end, and --detach does not");
        return STATUS_USAGE;
    }
    const char *folder = opt_string(o, "folder");
    int rc = r->program.module ? run_module_find(&r->program, file, folder, err_of(r))
                               : run_program_find(&r->program, file, folder, err_of(r));
    if (rc < 0 || !(r->spec = run_spec(&r->program, o, err_of(r))) ||
        (opt_flag(o, "check") && check_several(r->spec, o, err_of(r)) < 0) || pack(r) < 0 ||
        check_takes_part(r) < 0) {
        return STATUS_USAGE;
    }
    return STATUS_DONE;
}

/* How many artifacts came; a service that is away for a moment is waited for. */
static int fetch(struct run *r, const char *output)
{
    struct outage away = {0};
    int n;
    while ((n = fetch_all(&r->session, r->id, output, NULL)) < 0 && !follow_hurries() &&
           watch_waits(&r->session, &away)) {
        clock_sleep(0.5);
        err_clear(err_of(r));
    }
    if (n >= 0) {
        watch_has_answer(&r->session, &away);
        fprintf(stderr, "%d artifacts in %s\n", n, output);
    }
    return n;
}

static enum status follow(struct run *r)
{
    const char *output = opt_string(r->session.options, "output");
    struct followed last;
    int fetched = 0;
    int status = follow_job(&r->session, r->id, &last);
    json_decref(r->told);
    r->told = last.told;
    bool succeeded = strcmp(last.state, "succeeded") == 0;
    if (status == STATUS_FAILED && last.absent[0]) {
        absent_hint(last.absent, r->program.folder, err_of(r));
    }
    if (status < 0 && !follow_signal()) {
        return not_served(r);
    }
    if (output && status >= 0) { /* what a failed job wrote is wanted too */
        struct err failed = *err_of(r);
        err_clear(err_of(r));
        fetched = fetch(r, output);
        *err_of(r) = failed.code ? failed : *err_of(r);
    }
    if (follow_signal() && !succeeded) {
        return (enum status)(STATUS_SIGNALLED + follow_signal());
    }
    if (!succeeded) {
        return strcmp(last.state, "cancelled") == 0 ? STATUS_CANCELLED : STATUS_FAILED;
    }
    return fetched < 0 ? STATUS_NOT_WRITTEN : STATUS_DONE;
}

/* Submits a job and follows it to its end. */
static enum status train(struct run *r)
{
    if (submit(r) < 0) {
        return not_served(r);
    }
    tell_page(r);
    if (opt_flag(r->session.options, "detach")) {
        fprintf(stderr, "to follow it: evenstep watch %s\n", r->id);
        return STATUS_DONE;
    }
    return follow(r);
}

/* ---- --check --------------------------------------------------------------------------------- */

/* One of the jobs. Its model comes to `file`, which is folder/ID/model.safetensors. */
static enum status train_for_check(struct run *r, const char *folder, char file[PATH_MAX],
                                   json_t *jobs)
{
    static const char name[] = "model.safetensors";
    char own[PATH_MAX / 2];
    enum status status = train(r);
    json_array_append_new(jobs, json_string(r->id));
    snprintf(own, sizeof own, "%s/%s", folder, r->id);
    snprintf(file, PATH_MAX, "%s/%s", own, name);
    return status == STATUS_DONE && fetch_one(&r->session, r->id, own, name, NULL) < 0
               ? STATUS_NOT_WRITTEN
               : status;
}

/* `spec` is taken, and the run's own stays. */
static enum status train_other(struct run *r, json_t *spec, const char *folder, char file[PATH_MAX],
                               json_t *jobs)
{
    json_t *own = r->spec;
    r->spec = spec;
    enum status status = train_for_check(r, folder, file, jobs);
    json_decref(spec);
    r->spec = own;
    return status;
}

/* All jobs, and what their models say. One job follows the other, so that as many nodes are enough
 * as the larger one needs. */
static enum status compare_jobs(struct run *r, const char *folder, json_t *jobs)
{
    char alone[PATH_MAX], several[PATH_MAX], beside[PATH_MAX];
    struct compared found;
    json_t *spec = check_alone(r->spec), *told = NULL;
    fputs("check, 1 of 2: on one worker\n", stderr);
    enum status status = train_other(r, json_incref(spec), folder, alone, jobs);
    if (status == STATUS_DONE) {
        fputs("check, 2 of 2: on several workers\n", stderr);
        status = train_for_check(r, folder, several, jobs);
        told = json_incref(r->told);
    }
    if (status == STATUS_DONE) {
        status = check_compare(&found, alone, several, NULL, err_of(r));
    }
    if (status == STATUS_DONE && !compared_is_same(&found)) {
        fputs("check, once more: on one worker, from first parameters that are rounded otherwise\n",
              stderr);
        status = train_other(r, check_beside(spec), folder, beside, jobs);
        if (status == STATUS_DONE) {
            status = check_compare(&found, alone, several, beside, err_of(r));
        }
    }
    if (status == STATUS_DONE) {
        status = check_tell(&found, jobs, told, r->session.json, err_of(r));
    }
    json_decref(spec);
    json_decref(told);
    return status;
}

static enum status check(struct run *r)
{
    char folder[64];
    if (answer_folder(folder, err_of(r)) < 0) {
        return STATUS_NOT_WRITTEN;
    }
    json_t *jobs = json_array();
    enum status status = compare_jobs(r, folder, jobs);
    json_decref(jobs);
    proc_remove_tree(folder, NULL);
    return status;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static enum status run(struct run *r, const char *file)
{
    enum status status = prepare(r, file);
    if (status != STATUS_DONE) {
        return status;
    }
    if ((status = connect_service(r)) != STATUS_DONE) {
        return status;
    }
    if (upload(r) < 0) {
        return not_served(r);
    }
    follow_catch_signals();
    if (opt_flag(r->session.options, "check")) {
        return check(r);
    }
    status = train(r);
    if (r->session.json && *r->id) {
        print_document(r);
    }
    return status;
}

static enum status run_file(struct run *r, int argc, char **argv)
{
    if (argc == 0) {
        fprintf(stderr, "usage: %s\n", usage);
        return STATUS_USAGE;
    }
    if (strcmp(argv[0], "-m") == 0 && argc > 1) { /* as in `python3 -m package.train` */
        r->program.module = *++argv;
        argc--;
    } else if (argv[0][0] == '-' || interpreter_is(argv[0])) {
        err_set(err_of(r), ERR_INVALID,
                "'%.100s': FILE, or -m MODULE, follows the interpreter, whose own options are not "
                "passed on",
                argv[0]);
        return STATUS_USAGE;
    } else if (interpreter_is_shell(argv[0]) && argc > 1) {
        err_set(err_of(r), ERR_INVALID, "'%.100s' runs no program: a script names its shell itself",
                argv[0]);
        err_hint(err_of(r), "#!/bin/sh in its first line, chmod +x, and `evenstep run SCRIPT`");
        return STATUS_USAGE;
    }
    r->program.args = argv + 1;
    r->program.n_args = argc - 1;
    return run(r, argv[0]);
}

int command_run(int argc, char **given)
{
    static struct run r; /* too large for a stack */
    int first = opt_first_positional(run_options, argc, given);
    int named = first;
    char **argv = interpreter_take(&argc, &first, given);
    BUG_ON(!argv);
    memset(&r, 0, sizeof r);
    r.program.is_python = first != named; /* whatever the file's name ends in */
    r.own.lifeline = -1;
    int rc = opt_begin(run_options, usage, first < argc ? first : argc, argv, &r.session.options,
                       err_of(&r));
    if (rc == 0 && (rc = choices_check(run_options, r.session.options, err_of(&r))) < 0) {
        opt_free(r.session.options);
    }
    if (rc != 0) {
        if (rc < 0) {
            session_complain(err_of(&r), NULL);
        }
        free(argv);
        return rc < 0 ? STATUS_USAGE : STATUS_DONE;
    }
    r.session.json = opt_flag(r.session.options, "json");
    enum status status = run_file(&r, argc - first, argv + first);
    if (err_of(&r)->code) {
        session_complain(err_of(&r), r.session.client.problems);
    }
    client_close(&r.session.client);
    opt_free(r.session.options);
    private_stop(&r.own, follow_hurries());
    pack_release(&r.pack);
    json_decref(r.spec);
    json_decref(r.told);
    free(argv);
    return (int)status;
}
