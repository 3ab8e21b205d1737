/* shipped.h: where the models lie that come with the programs.
 * Owns: the search. Relies on: POSIX; /proc where there is one. Must never: open a model, or prefer what lies in the
 * folder where a program happens to be started to what it was installed with. */
#ifndef SHIPPED_H
#define SHIPPED_H

#include <stdbool.h>
#include <stddef.h>

/* Looks for the file `name` in ../models and ../share/brainstorm beside the program's folder, then in models/ of the
 * working folder. program: argv[0], for systems that do not tell otherwise. False: `path` holds a line that says where
 * it was sought. */
bool shipped_find(const char *program, const char *name, char *path, size_t bytes);

#endif
