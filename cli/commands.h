/* The commands: one function each, exit status as result. All but evaluate talk to a service. argv starts behind the command's name. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

int command_submit(int argc, char **argv);
int command_jobs(int argc, char **argv);
int command_show(int argc, char **argv);
int command_watch(int argc, char **argv);
int command_cancel(int argc, char **argv);
int command_pause(int argc, char **argv);
int command_resume(int argc, char **argv);
int command_nodes(int argc, char **argv);
int command_catalog(int argc, char **argv);
int command_link(int argc, char **argv);
int command_evaluate(int argc, char **argv);

#endif
