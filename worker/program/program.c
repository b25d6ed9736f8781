/* What is true of a program at any time: the rank's phase, what the program may say between any two
 * messages, how it ended, and what is told of it. How it starts: start/; its steps: step/. */
#include "worker/program/program.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/hash.h"
#include "worker/program/child/packet.h"

struct wire_message program_message(uint32_t type, uint32_t flags)
{
    struct wire_message m;
    memset(&m, 0, sizeof(m));
    m.type = type;
    m.flags = flags;
    return m;
}

void program_tell_phase(void *ctx)
{
    const struct program *p = ctx;
    p->telemetry->phase(p->telemetry->ctx, p->phase);
}

void program_phase(struct program *p, enum phase phase)
{
    p->phase = phase;
    program_tell_phase(p);
}

/* ---- what it is ------------------------------------------------------------------------------ */

uint64_t program_hash(const struct program *p)
{
    return hash_bytes(HASH_START, p->about.text, strlen(p->about.text));
}

double program_epochs(const struct program *p)
{
    return !p->open ? p->ask.spec->epochs : isfinite(p->epochs) ? p->epochs : 0;
}

void program_joined(const struct program *p, const struct jobspec *spec, struct joined *out)
{
    *out = (struct joined){.parameters = (int64_t)spec->network.n_params,
                           .tensors = spec->network.n_tensors,
                           .samples = p->about.samples,
                           .global_batch = spec->batching.global_batch,
                           .epochs = program_epochs(p)};
    snprintf(out->framework, sizeof(out->framework), "%s", p->about.framework);
    snprintf(out->optimizer, sizeof(out->optimizer), "%s", p->about.optimizer_name);
}

/* ---- what it may say at any time ------------------------------------------------------------- */

/* A program that goes on after the epochs that it told says how many there are now. */
static void take_epochs(struct program *p, const struct wire_message *m)
{
    struct joined now;
    bool tells = p->runs && p->open && p->epochs != m->epochs;
    p->epochs = m->epochs;
    p->more = m->flags & WIRE_MORE;
    if (tells) {
        program_joined(p, p->ask.spec, &now);
        p->telemetry->joined(p->telemetry->ctx, &now, NULL);
    }
}

/* text: the sentence, and behind its NUL, before `end`, perhaps an exception. */
static int take_failure(struct program *p, const struct wire_message *m, const char *text,
                        const char *end, struct err *e)
{
    const char *exception = text + strlen(text) < end ? text + strlen(text) + 1 : "";
    child_gave_up(&p->child, text);
    struct program_end *told = &p->child.end;
    if (exception[0]) {
        snprintf(told->exception, sizeof(told->exception), "%s", exception);
        snprintf(told->file, sizeof(told->file), "%.*s", (int)sizeof(m->failed.file),
                 m->failed.file);
        told->line = m->failed.line;
    }
    p->link.gone = true;
    p->refused = m->flags & WIRE_FINAL;
    return err_set(e, p->refused ? ERR_INVALID : ERR_PEER, "%s cannot go on: %.300s", p->link.who,
                   text);
}

int program_aside(struct program *p, const struct wire_message *m, int fd, struct err *e)
{
    char *text = NULL;
    size_t n;
    int rc = ASIDE_DONE;
    switch (m->type) {
    case WIRE_EPOCHS:
        take_epochs(p, m);
        break;
    case WIRE_FAILED:
        text = packet_text(fd, 1 << 16, &n);
        rc = take_failure(p, m, text ? text : "", text ? text + n : "", e);
        break;
    default:
        return ASIDE_NOT;
    }
    free(text);
    if (fd >= 0) {
        close(fd);
    }
    return rc;
}

/* ---- how it ended ---------------------------------------------------------------------------- */

bool program_ended_itself(struct program *p, const struct err *e)
{
    return p->link.gone && e->code == ERR_PEER && child_ended_itself(&p->child);
}

/* Programs that meet (--ddp) end when one of them is lost. */
void program_judge(struct program *p, struct err *e)
{
    bool begins = p->ask.attempt == 1 && p->incarnation == 0 && !p->resumed;
    if (begins && program_ended_itself(p, e) && !jobspec_programs_meet(p->ask.spec)) {
        e->code = ERR_INVALID;
    }
    if (strstr(e->message, "environment variable RANK expected")) {
        err_hint(e, "a program for DistributedDataParallel runs by `evenstep run --ddp`");
    }
}
