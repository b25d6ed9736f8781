/* The sections of a job spec, each read into its part of struct jobspec. Inside job/ only;
 * job/spec/spec.c calls them one after the other, then checks what concerns several of them. Each
 * takes the open fields of the object that holds the section's key, and writes the section with its
 * defaults into `full` of it. All report every mistake. */
#ifndef JOB_SPEC_PARTS_H
#define JOB_SPEC_PARTS_H

#include "job/spec/fields.h"
#include "job/spec/spec.h"

void spec_read_data(struct data_spec *d, struct fields *f);
/* The key `augment`, after data and model were read. A network whose recipe has windows gets them
 * if nothing else is given. */
void spec_read_augment(struct jobspec *spec, struct fields *f);
/* `init`: a path, or {"path", "allow", "continue"}. */
void spec_read_init(struct jobspec *spec, struct fields *f);
/* `program`, before the keys that it replaces. */
void spec_read_program(struct jobspec *spec, struct fields *f);
/* Read an array of texts, and an object of texts by name, of a program or its manifest; copied into
 * `full`. NULL: it was not given, or was reported. */
const json_t *spec_read_texts(struct fields *f, const char *key);
const json_t *spec_read_env(struct fields *f);
/* `elastic`, after `workers` and `min_workers`, which are its bounds. After all other sections:
 * checks what it requires of the rest of the spec. */
void spec_read_elastic(struct jobspec *spec, struct fields *f);
void spec_check_elastic(struct jobspec *spec, struct fields *f);
void spec_read_optimizer(struct optimizer_spec *o, struct fields *f);
void spec_read_strategy(struct strategy_spec *s, struct fields *f);
/* of_program: the global batch may be left to the program's loader. */
void spec_read_batching(struct batching_spec *b, bool of_program, struct fields *f);
/* Checks what a strategy requires of the rest of the spec (job/strategies). */
void spec_check_strategy(const struct jobspec *spec, struct jsonx_problems *problems);

/* Opens the object under `key` of `f` as fields of its own; what is read goes into a new object
 * under the same key of f->full. A missing key is read as {} (or reported, if required). */
void spec_open(struct fields *section, struct fields *f, const char *key, bool required);

/* An array of numbers into out[most]; how many (0: not given), or -1 after reporting. Copies it
 * into `full`. */
int spec_read_numbers(struct fields *f, const char *key, bool whole, double min, double max,
                      double *out, int most);

/* The only section that has this key; NULL: none or several have it. */
const char *spec_place(const char *key);

/* Is `text` under this key of `full`? */
bool spec_is(const json_t *full, const char *key, const char *text);

/* The rows of keys that are in no catalogue entry. spec.c and parts.c parse by them; schema.c
 * describes them. */
extern const struct catalog_param spec_top_params[], spec_data_params[], spec_batching_params[],
    spec_evaluate_params[], spec_checkpoint_params[], spec_exchange_params[], spec_keep_param,
    spec_accuracy_param, spec_init_params[], spec_program_params[], spec_elastic_params[];

#endif
