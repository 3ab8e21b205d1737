/* base/messages.h - how a failure is reported. Owns what BS_NO_MESSAGES leaves out: texts.
 * Relies on base/bytes.h. Must never let a status depend on whether there are texts.
 *
 * Without messages, a call of a function that is declared here becomes a call of one that takes no text. The compiler
 * still sees the text, its format and its arguments, as the operand of sizeof: it checks them and makes no code of
 * them. (bs_fail)(...), in brackets, is the function itself, for the few texts that always stay. */
#ifndef BS_MESSAGES_H
#define BS_MESSAGES_H

#include "brainstorm.h"
#include "base/bytes.h"
#include <inttypes.h> /* PRId32 and others: int32_t is long where the C library is newlib */

/* Of what takes a format and its arguments. It is not called in a run that nothing is wrong with, nor often: what leads
 * to it is made small, and laid out behind the rest. */
#if defined(__GNUC__)
#define BS_PRINTF(format_index, first) __attribute__((cold, format(printf, format_index, first)))
#else
#define BS_PRINTF(format_index, first)
#endif

/* Fills `error` (may be NULL) and returns the status. */
bs_status bs_fail(bs_error *error, bs_status status, const char *format, ...) BS_PRINTF(3, 4);
/* The same, but false. This and others are macros, so that compilers know what comes of a refusal: 2 KB of the library
 * would do what never follows one. */
#define bs_refuse(error, status, ...) bs_refused(bs_fail(error, status, __VA_ARGS__))
static inline __attribute__((always_inline)) bool bs_refused(bs_status status) { return (void)status, false; }
/* Reports a failure that was recorded in a local error, as the caller's may be NULL. Returns its status; BS_OK reports
 * nothing. */
bs_status bs_tell(const bs_error *here, bs_error *error);
/* Whether a number that a caller's function returned is in BS_STATUS_LIST. */
bool bs_status_is_known(int32_t number);
/* As bs_fail, for an arena that is too small: `what` says what the bytes were for. */
bs_status bs_fail_arena(bs_error *error, const bs_arena *arena, bs_bytes needed, const char *what);
/* The same where no arena is at hand: the room `name` has `available` bytes left. */
bs_status bs_fail_room(bs_error *error, const char *name, uint64_t available, bs_bytes bytes, const char *what);
/* Prefixes a message with where it happened: a file, a key, a node. What does not fit is cut at the end. */
void bs_error_prefix(bs_error *error, const char *format, ...) BS_PRINTF(2, 3);

#if defined(BS_NO_MESSAGES)
/* Reports the status with its own sentence as the message. */
bs_status bs_fail_bare(bs_error *error, bs_status status);
#define BS_UNTOLD(full) ((void)sizeof((void)(full), 0))
#define BS_TOLD(full, bare) (BS_UNTOLD(full), (bare))
#define BS_TEXT(text) (BS_UNTOLD(text), (const char *)0)
#define bs_fail(error, status, ...) BS_TOLD((bs_fail)(error, status, __VA_ARGS__), bs_fail_bare(error, status))
#define bs_fail_arena(error, arena, needed, what) (bs_fail_arena)(error, arena, needed, BS_TEXT(what))
#define bs_fail_room(error, name, available, bytes, what) \
    (bs_fail_room)(error, name, available, bytes, BS_TEXT(what))
#define bs_error_prefix(error, ...) BS_UNTOLD((bs_error_prefix)(error, __VA_ARGS__))
#endif

#endif
