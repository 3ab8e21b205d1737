/* json_text.h: a text as JSON, with its quotes.
 * Owns: what is escaped. Relies on: nothing. Must never: write what is no JSON, whatever the text. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <stdio.h>

/* UTF-8 stays as it is; other bytes are taken for Latin-1. */
void json_text(FILE *file, const char *text);

#endif
