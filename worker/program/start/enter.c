/* One program enters its rank: see enter.h. */
#include "worker/program/start/enter.h"

#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/include/evenstep.h"
#include "common/log.h"
#include "common/process/proc.h"
#include "worker/program/child/packet.h"

/* ---- the process ----------------------------------------------------------------------------- */

/* The first of `places` that exists, relative to `folder`; "": none does. NULL ends the list. */
static void find_from(const char *folder, const char *const *places, char out[4096])
{
    for (; *places; places++) {
        snprintf(out, 4096, "%s/%s", folder, *places);
        if (access(out, R_OK) == 0) {
            return;
        }
    }
    out[0] = '\0';
}

/* Finds libevenstep and the Python package: first where they are built, then where they are
 * installed. */
static void find_own(char library[4096], char python[4096])
{
    static const char *const libraries[] = {"libevenstep.so", "../lib/libevenstep.so", NULL};
    static const char *const packages[] = {"python", "../client/python", "../share/evenstep/python",
                                           NULL};
    char self[3900];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    const char *folder = dirname(self);
    find_from(folder, libraries, library);
    find_from(folder, packages, python);
}

/* Makes a folder with libevenstep alone, for the loader of a program that is linked with it. Other
 * libraries beside ours must not be found before the program's own. */
static int offer_library(const struct link *l, const char *library, char folder[PATH_MAX],
                         struct err *e)
{
    static const int abi = ES_ABI;
    char name[PATH_MAX + 40];
    snprintf(folder, PATH_MAX, "%s/lib", l->folder.path);
    snprintf(name, sizeof(name), "%s/libevenstep.so.%d", folder, abi);
    int rc = proc_mkdirs(folder, 0755, e);
    if (rc == 0 && symlink(library, name) < 0) {
        rc = err_errno(e, ERR_IO, "cannot offer libevenstep to %s", l->who);
    }
    return rc;
}

static int start(struct program *p, struct err *e)
{
    char library[4096], python[4096], libraries[PATH_MAX];
    const struct program_ask *ask = &p->ask;
    const struct program_spec *spec = &ask->spec->program;
    int rank = ask->comm->rank, rc;
    find_own(library, python);
    if ((rc = link_open(&p->link, &p->child, rank, ask->node, spec->patience_seconds, e)) < 0) {
        return rc;
    }
    if (library[0] && (rc = offer_library(&p->link, library, libraries, e)) < 0) {
        return rc;
    }
    p->link.until = p->ready_by;
    p->link.task = "its start";
    p->link.watch = program_tell_phase;
    p->link.watch_ctx = p;
    const struct child_ask child = {.program = spec,
                                    .folder = ask->folder,
                                    .socket = p->link.path,
                                    .job = ask->job ? ask->job : "local",
                                    .output = ask->output ? ask->output : p->link.folder.path,
                                    .library = library[0] ? library : NULL,
                                    .library_folder = library[0] ? libraries : NULL,
                                    .data = ask->data,
                                    .python_path = python[0] ? python : NULL,
                                    .device = ask->device,
                                    .python = getenv("EVENSTEP_NODE_PYTHON"),
                                    .peers = &p->peers,
                                    .rank = rank,
                                    .incarnation = p->incarnation,
                                    .workers = ask->comm->workers,
                                    .threads = ask->threads};
    if (ask->output && (rc = proc_mkdirs(ask->output, 0755, e)) < 0) {
        return rc;
    }
    p->there = true;
    if ((rc = child_start(&p->child, &child, e)) == 0) {
        log_info("program", "started",
                 "pid=%d incarnation=%d name=\"%s\" command=\"%.100s\" folder=\"%.200s\"",
                 (int)p->child.pid, p->incarnation, spec->name,
                 json_string_value(json_array_get(spec->command, 0)),
                 ask->folder ? ask->folder : "");
    }
    return rc;
}

int enter_start(struct program *p, struct description *about, struct err *e)
{
    struct wire_message join;
    char *text;
    size_t n;
    int rc;
    if ((rc = start(p, e)) < 0 || (rc = link_accept(&p->link, &join, &text, &n, e)) < 0) {
        return rc;
    }
    if ((rc = description_read(about, text, n, e)) < 0) {
        link_refuse(&p->link, e->message);
    } else {
        p->link.stack_signal = about->stack_signal;
    }
    free(text);
    return rc;
}

/* ---- welcome --------------------------------------------------------------------------------- */

static int send_welcome(struct program *p, const struct entry *at, struct err *e)
{
    struct wire_message m = program_message(WIRE_WELCOME, at->resumed ? WIRE_RESUMED : 0);
    int fds[3] = {p->block.fd, -1, -1}, rc;
    m.welcome.magic = WIRE_MAGIC;
    m.welcome.version = WIRE_VERSION;
    m.welcome.rank = p->ask.comm->rank;
    m.welcome.workers = p->ask.comm->workers;
    m.welcome.ahead = p->ahead;
    m.welcome.epoch = at->epoch;
    m.welcome.step = at->step;
    m.welcome.seed = p->ask.spec->seed;
    block_describe(&p->block, &p->ask.spec->network, &m);
    if (strategy_find(p->ask.spec->strategy.type)->program->step == STEP_BY_PROGRAM_ON_SUM) {
        m.flags |= p->ask.comm->workers == 1 ? WIRE_OWN_GRADIENTS : WIRE_SUMS;
    }
    if (p->state.n > 0) {
        m.flags |= WIRE_HAS_STATE;
        if ((fds[1] = packet_memfd(p->state.bytes, p->state.n)) < 0) {
            return err_errno(e, ERR_MEMORY, "cannot hand %s its state", p->link.who);
        }
    }
    rc = link_send(&p->link, &m, fds, e);
    if (fds[1] >= 0) {
        close(fds[1]);
    }
    return rc;
}

int enter_welcome(struct program *p, const struct entry *at, struct err *e)
{
    struct wire_message m;
    int fd = -1, rc = send_welcome(p, at, e);
    if (rc < 0) {
        return rc;
    }
    do {
        if ((rc = link_receive(&p->link, &m, &fd, e)) >= 0) {
            rc = program_aside(p, &m, fd, e);
        }
    } while (rc == ASIDE_DONE);
    if (rc == ASIDE_NOT && m.type != WIRE_READY) {
        rc = err_set(e, ERR_PEER, "%s sent message %u where its first parameters were due",
                     p->link.who, m.type);
    }
    return rc;
}

void enter_undo(struct program *p, double grace)
{
    if (p->there) {
        child_stop(&p->child, grace);
        p->there = false;
    }
    link_close(&p->link);
}
