/* Telemetry without a store: writes every row, evaluation, profile and file as a line of CSV to
 * standard output, or to the end of a file. For tests and trials (`evenstep-worker --local`). A
 * line is one write. mpirun forwards output in pieces of 4 KiB and cuts lines there. With several
 * ranks under mpirun, only a file (or a pipe after mpirun itself) has whole lines.
 *
 *   row,RANK,STEP,…       the columns of job/row.def, in its order
 *   evaluation,STEP,EPOCH,TIME,LOSS,ACCURACY,SAMPLES,FINAL
 *   profile,RANK,A,K      saved,KIND,PATH,STEP      restored,VERSION
 */
#ifndef WORKER_LOCAL_H
#define WORKER_LOCAL_H

#include <signal.h>

#include "worker/telemetry.h"

struct local {
    int rank, workers;
    struct control control; /* constant, except stop */
    const volatile sig_atomic_t *stop;
    int fd; /* where lines go */
};
/* `lines`: a file, or NULL for standard output. 0, or negative. */
int local_open(struct local *l, const char *lines, struct err *e);
void local_telemetry(struct local *l, struct telemetry *out);

#endif
