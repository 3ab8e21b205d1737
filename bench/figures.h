/* figures.h: what a benchmark writes: standard output, and figures in a file where --json names one.
 *
 * Owns: opening and closing them; that they are none of the files read; messages about them.
 * Relies on: examples/files.h. Must never: take an old content away before figures_file is asked for.
 */
#ifndef BENCH_FIGURES_H
#define BENCH_FIGURES_H

#include "files.h"

typedef struct figures {
    files files;
    const char *program, *path; /* path: NULL where there is no file */
    int number;                 /* of files */
    FILE *stream;
} figures;

/* First of all in main(). */
void figures_begin(figures *r, const char *program);
/* A file that is read by its name, where it is there. False: it is written too. */
bool figures_reads(figures *r, const char *role, const char *path);
/* After those that are read. path: of the figures; NULL: none. */
bool figures_open(figures *r, const char *path);
/* Empties the file. NULL: it cannot be; a message says why. */
FILE *figures_file(figures *r);
/* False: not everything was written, and a message says why. */
bool figures_end(figures *r);

#endif
