/* Timing only: ranks go through a job's steps, exchanges and waits without computing a number
 * (evenstep-simulate --timing-only). The strategies, the server, the balancer and the transport are
 * the ones of a full run; what is left out is the trainer's network, data and device. Blocks of
 * parameters have no floats and cost the time of as many as the network has (comm.h, `hollow`). */
#ifndef SIMULATOR_TIMING_H
#define SIMULATOR_TIMING_H

#include "worker/training/trainer.h"

/* In place of trainer_run and keeper_run; env->data needs counts alone (dataset_peek), env->dev is
 * not used. */
int timing_run(struct trainer_env *env, struct err *e);
int timing_serve(struct trainer_env *env, struct err *e);

#endif
