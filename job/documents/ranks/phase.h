/* What a rank is doing, as its heartbeats say and the page shows. */
#ifndef JOB_DOCUMENTS_RANKS_PHASE_H
#define JOB_DOCUMENTS_RANKS_PHASE_H

enum phase {
    PHASE_LOAD,
    PHASE_PREPARE,
    PHASE_COMPUTE,
    PHASE_EXCHANGE,
    PHASE_EVALUATE,
    PHASE_CHECKPOINT,
    PHASE_SERVE,
    PHASE_DONE
};
enum { PHASES = PHASE_DONE + 1 };

extern const char *const phase_names[PHASES];
const char *phase_name(enum phase p); /* "computing", "exchange", … */

#endif
