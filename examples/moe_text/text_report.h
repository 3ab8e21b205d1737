/* text_report.h: what a run of moe_text cost, for people.
 * Owns: the words. Relies on: text_model.h, stream_options.h. Must never: write to standard output. */
#ifndef TEXT_REPORT_H
#define TEXT_REPORT_H

#include "text_model.h"

/* To standard error. Characters of all sequences together. */
void text_report(const text_model *model, double prompt_characters, double prompt_seconds, double characters,
                 double seconds);

#endif
