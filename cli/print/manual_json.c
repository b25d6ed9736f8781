/* The table of commands as JSON (`evenstep manual --json`), for programs that call others. */
#include "cli/print/print.h"
#include "cli/status.h"
#include "common/version.h"

static json_t *option_json(const struct command *c, const struct opt *o)
{
    char letter[2] = {command_letter(c, o->name)};
    return json_pack("{s:s, s:s*, s:s*, s:s*, s:s}", "name", o->name, "value", o->metavar, "letter",
                     letter[0] ? letter : NULL, "default", o->fallback, "help", o->help);
}

static json_t *command_json(const struct command *c)
{
    struct opt options[COMMAND_OPTIONS];
    json_t *list = json_array();
    command_options(c, options);
    for (const struct opt *o = options; o->name; o++) {
        json_array_append_new(list, option_json(c, o));
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", c->name, "group",
                     command_groups[c->group], "arguments", c->arguments, "help", c->help,
                     "options", list);
}

json_t *manual_json(void)
{
    json_t *all = json_array(), *statuses = json_array();
    for (const struct command *c = commands; c->name; c++) {
        json_array_append_new(all, command_json(c));
    }
#define X(name, number, text) \
    json_array_append_new(statuses, json_pack("{s:i, s:s}", "status", number, "help", text));
    STATUSES(X)
#undef X
    return json_pack("{s:s, s:o, s:o}", "version", EVENSTEP_VERSION, "commands", all, "statuses",
                     statuses);
}
