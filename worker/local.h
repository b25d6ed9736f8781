/* Telemetry without a store: every row, test figure, profile and file as a line of CSV on standard
 * output. For tests and trials (`evenstep-worker --local`). Under mpirun all ranks share the
 * output; a line is one write.
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
    struct control control; /* constant, but for stop */
    const volatile sig_atomic_t *stop;
};
void local_telemetry(struct local *l, struct telemetry *out);

#endif
