/* `evenstep`: the service (`evenstep serve`) and the command line that talks to one. */
#include "cli/commands.h"

int main(int argc, char **argv)
{
    return commands_main(argc, argv);
}
