/* cli_device.c: `brainstorm device`: what this machine's first GPU is, as far as plans and runs depend on it.
 * Owns: the words. Relies on: cli.h, device_options.h. Must never: allocate on the GPU. */
#include "cli.h"
#include "device_options.h"

#include <stdlib.h>

/* CUDA's numbers: 12060 is 12.6. */
static void print_version(const char *what, int32_t version)
{
    printf("%-12s %d.%d\n", what, (int)(version / 1000), (int)(version % 1000 / 10));
}

int cli_device(void)
{
    bs_cuda_facts facts;
    bs_error error = {BS_OK, NULL, 0, 0, ""};
    if (!device_facts(0, &facts, &error))
        return cli_fail(&error);
    printf("name         %s\n", facts.name);
    printf("capability   %d.%d, %d multiprocessors\n", (int)facts.major, (int)facts.minor, (int)facts.multiprocessors);
    printf("memory       %s%s\n", cli_size(facts.memory_bytes), facts.integrated ? ", shared with the CPU" : "");
    printf("shared       %d bytes a block (plan --shared-bytes)\n", (int)facts.shared_bytes);
    print_version("runtime", facts.runtime);
    print_version("driver", facts.driver);
    printf("graphs       %s\n", facts.conditional ? "can decide" : "cannot decide");
    return EXIT_SUCCESS;
}
