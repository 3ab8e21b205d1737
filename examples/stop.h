/* stop.h: signals that ask a program to end, for programs whose files must be whole when they do.
 *
 * Owns: what SIGINT, SIGTERM, SIGHUP, SIGPIPE and SIGALRM do; the flag.
 * Relies on: POSIX signals and threads.
 * Must never: end the program by itself, or let a call that blocks outlast the signal.
 */
#ifndef STOP_H
#define STOP_H

#include <signal.h>

/* SIGINT, SIGTERM and SIGHUP (those that are not ignored, as under nohup) set the flag. A reader that has gone becomes
 * an error of write. Called once, by the thread that reads and writes, before there are others. */
void stop_catch(void);

/* Not 0: end soon. Calls that block then return EINTR, however late they were entered. */
const volatile sig_atomic_t *stop_flag(void);

/* Around calls by which one thread beside that one may block: they return EINTR as well. */
void stop_enter(void);
void stop_leave(void);

#endif
