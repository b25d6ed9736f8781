/* What a virtual job leaves: DIR/summary.json, DIR/history, DIR/model.safetensors. It is also the
 * telemetry of every virtual rank: rows feed history, staleness and the balancer, whose assignments
 * are the orders. */
#ifndef SIMULATOR_REPORT_H
#define SIMULATOR_REPORT_H

#include "job/minibatch/balancer.h"
#include "job/spec/cluster.h"
#include "simulator/comm_sim.h"
#include "store/history.h"
#include "worker/telemetry.h"

struct report;

/* train_samples: of an epoch. history: rows are kept; false (timing only): they are only
 * counted. */
struct report *report_new(const struct jobspec *spec, const struct cluster *cluster,
                          struct world *world, const char *dir, int64_t train_samples, bool history,
                          struct err *e);
void report_free(struct report *r);
/* One telemetry per rank; owned by the report. */
struct telemetry *report_telemetry(struct report *r, int rank);
/* Sets sizes[workers] to the minibatches in force, which share out the job's global batch. Returns
 * the version of the assignment. */
int report_sizes(const struct report *r, int *sizes);
/* Notes the memory that the node with the largest minibatch would need as a real rank, for the
 * summary. */
void report_memory(struct report *r, double rank_bytes);
/* After the run: writes history and summary.json. */
int report_write(struct report *r, struct err *e);
/* After a run whose ranks failed: history and progress.json, with the reason. */
void report_failure(struct report *r, const struct err *why);

#endif
