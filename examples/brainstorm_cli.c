/* brainstorm_cli.c: `brainstorm`: runs model files, looks into them, tells what they will need; and reads profiles.
 *
 *     brainstorm run FILE --input x=x.npy --output y=y.npy
 *                                                   a run, its results, its time (cli_run.c)
 *     brainstorm inspect FILE                       the graph, its blocks and weights (cli_inspect.c)
 *     brainstorm check FILE                         reads every record and compares its checksum
 *     brainstorm plan FILE --input frame=1x1080x1920 --threads 4
 *                                                   the bytes of every arena (cli_plan.c)
 *     brainstorm plan FILE --device cuda --half     the same for a GPU, which need not be here
 *     brainstorm device                             what the GPU of this machine is (cli_device.c)
 *     brainstorm ops                                the op set
 *     brainstorm profile FILE                       what a profile tells (cli_profile.c)
 *     brainstorm replay FILE --slots 50%            its runs again, with other slots and storage (cli_replay.c)
 *     brainstorm trace FILE OUT.json                the profile for ui.perfetto.dev (cli_profile.c)
 *
 * Owns: which commands there are. Relies on: brainstorm.h, files.h; cli.h for the commands.
 */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage_text[] =
    "usage: brainstorm COMMAND ...\n"
    "\n"
    "  run FILE [OPTION]...  run a model file on arrays, pictures or zeros; print or write what it gives\n"
    "  inspect FILE          print the graph, the blocks and the weights of a model file\n"
    "  check FILE            read all weights and compare their checksums\n"
    "  plan FILE [OPTION]... print the bytes of every arena; weights are not read\n"
    "  device                print what the GPU of this machine is\n"
    "  ops                   print the op set: name, fewest and most operands, parameters (~ f32)\n"
    "  profile FILE          print what a profile tells of its runs\n"
    "  replay FILE ...       its runs again with other slots, policies and storage\n"
    "  trace FILE OUT.json   the profile as a Chrome trace, for ui.perfetto.dev\n"
    "  --help, --version     (run, profile, replay and trace have a --help of their own)\n"
    "\n";

static int fail_usage(const char *what, const char *word)
{
    fprintf(stderr, "brainstorm: %s%s%s\nTry brainstorm --help.\n", what, word ? ": " : "", word ? word : "");
    return CLI_USAGE;
}

static int ops(void)
{
    char line[512];
    for (int32_t i = 0; bs_op_describe(i, line, sizeof line) > 0; i++)
        printf("%s\n", line);
    return EXIT_SUCCESS;
}

static int command(int count, char **words)
{
    if (strcmp(words[0], "--help") == 0 || strcmp(words[0], "-h") == 0 || strcmp(words[0], "help") == 0)
        return fputs(usage_text, stdout) < 0 || fputs(cli_plan_usage, stdout) < 0;
    if (strcmp(words[0], "--version") == 0)
        return printf("brainstorm %d.%d.%d, %s\n", BS_VERSION_MAJOR, BS_VERSION_MINOR, BS_VERSION_PATCH,
                      bs_tier_name(bs_tier_best())) < 0;
    if (strcmp(words[0], "run") == 0)
        return cli_run(count - 1, words + 1);
    if (strcmp(words[0], "inspect") == 0)
        return count == 2 ? cli_inspect(words[1]) : fail_usage("inspect takes one file", NULL);
    if (strcmp(words[0], "check") == 0)
        return count == 2 ? cli_check(words[1]) : fail_usage("check takes one file", NULL);
    if (strcmp(words[0], "plan") == 0)
        return cli_plan(count - 1, words + 1);
    if (strcmp(words[0], "device") == 0)
        return count == 1 ? cli_device() : fail_usage("device takes nothing", NULL);
    if (strcmp(words[0], "ops") == 0)
        return count == 1 ? ops() : fail_usage("ops takes nothing", NULL);
    if (strcmp(words[0], "profile") == 0)
        return cli_profile(count - 1, words + 1);
    if (strcmp(words[0], "replay") == 0)
        return cli_replay(count - 1, words + 1);
    if (strcmp(words[0], "trace") == 0)
        return cli_trace(count - 1, words + 1);
    return fail_usage("no such command", words[0]);
}

int main(int argc, char **argv)
{
    files_begin(cli_files());
    const int status = argc < 2 ? fail_usage("a command is missing", NULL) : command(argc - 1, argv + 1);
    files_end(cli_files());
    errno = 0;
    const bool flushed = fflush(stdout) == 0 && !ferror(stdout);
    if (flushed)
        return status;
    fprintf(stderr, "brainstorm: standard output: writing failed%s%s\n", errno ? ": " : "",
            errno ? strerror(errno) : "");
    return EXIT_FAILURE;
}
