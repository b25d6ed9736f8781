/* See logs.h. */
#include "coordinator/monitor/logs.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/text/buf.h"

enum { CHUNK = 1 << 20, CHUNKS_PER_TURN = 8 };

/* The rank of a tagged line and where its text begins; -1 for mpirun's own. */
static int rank_of(const char *line, const char **text)
{
    char *end;
    *text = line;
    if (strncmp(line, "[1,", 3) != 0) {
        return -1;
    }
    long rank = strtol(line + 3, &end, 10);
    if (end == line + 3 || rank < 0 ||
        (strncmp(end, "]<stderr>:", 10) != 0 && strncmp(end, "]<stdout>:", 10) != 0)) {
        return -1;
    }
    *text = end + 10;
    return (int)rank;
}

static void append(const struct logs *l, int rank, const struct buf *text)
{
    char path[PATH_MAX + 40];
    if (rank < 0) {
        snprintf(path, sizeof path, "%s/logs/attempt.log", l->job_dir);
    } else {
        snprintf(path, sizeof path, "%s/logs/rank-%d.log", l->job_dir, rank);
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd >= 0) {
        ssize_t ignored = write(fd, text->data, text->len);
        (void)ignored; /* if the disk is full, log lines are lost, but the job goes on */
        close(fd);
    }
}

/* mpirun reads 4 KiB of a rank at a time and tags each piece. So the rest of a line may have a tag
 * of its own, and may come after another rank's line. */
static void split_line(struct buf *out, int slots, const char *line)
{
    struct buf *b = &out[slots - 1];
    const char *at = line, *said;
    for (const char *tag = strstr(at, "[1,"); tag; tag = strstr(tag, "[1,")) {
        int rank = rank_of(tag, &said);
        if (rank < 0) {
            tag++;
            continue;
        }
        buf_add(b, at, (size_t)(tag - at));
        b = &out[rank < slots - 1 ? rank : slots - 1];
        at = tag = said;
    }
    buf_adds(b, at);
    buf_adds(b, "\n");
}

/* Splits whole lines by rank. Returns how many bytes it took. */
static size_t split(const struct logs *l, char *text, size_t n)
{
    int slots = l->ranks + 1;
    struct buf *out = calloc((size_t)slots, sizeof *out);
    size_t done = 0;
    for (int i = 0; out && i < slots; i++) {
        buf_init(&out[i], (size_t)2 * CHUNK);
    }
    while (out && done < n) {
        char *line = text + done, *newline = memchr(line, '\n', n - done);
        if (!newline) {
            break;
        }
        *newline = 0;
        split_line(out, slots, line);
        done = (size_t)(newline - text) + 1;
    }
    for (int i = 0; out && i < slots; i++) {
        if (out[i].len) {
            append(l, i == slots - 1 ? -1 : i, &out[i]);
        }
        buf_release(&out[i]);
    }
    free(out);
    return done;
}

void logs_read(struct logs *l, bool all)
{
    int fd = open(l->output, O_RDONLY | O_CLOEXEC);
    char *chunk = fd >= 0 ? malloc(CHUNK + 1) : NULL;
    for (int i = 0; all || i < CHUNKS_PER_TURN; i++) {
        ssize_t n = chunk ? pread(fd, chunk, CHUNK, l->offset) : 0;
        if (n <= 0) {
            break;
        }
        chunk[n] = 0;
        size_t done = split(l, chunk, (size_t)n);
        if (done == 0 && n == CHUNK) {
            done = (size_t)n; /* a megabyte without a line's end is taken as it is */
        }
        l->offset += (long)done;
        if (done == 0) {
            break;
        }
    }
    free(chunk);
    if (fd >= 0) {
        close(fd);
    }
}
