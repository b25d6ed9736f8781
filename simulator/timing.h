/* Timing only: ranks go through a job's steps, exchanges and waits without computing a number
 * (evenstep-simulate --timing-only). The strategies, the server, the balancer and the transport are
 * those of a full run; the trainer's network, data and device are left out. Blocks of parameters
 * have no floats and cost the time of as many as the network has (comm.h, `hollow`). */
#ifndef SIMULATOR_TIMING_H
#define SIMULATOR_TIMING_H

#include "worker/training/trainer.h"

/* Replaces trainer_run() and keeper_run(). env->data needs only counts (dataset_peek); env->dev is
 * not used. */
int timing_run(struct trainer_env *env, struct err *e);
int timing_serve(struct trainer_env *env, struct err *e);

#endif
