/* stop.c: see stop.h.
 *
 * A signal that comes after the flag was looked at and before read() blocks would be missed: the call would wait for data
 * that never come. So an alarm follows every second, and interrupts that call too. Signals may be delivered to any thread;
 * they are passed on to the one that blocks. */
#define _POSIX_C_SOURCE 200809L
#include "stop.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t asked;
static pthread_t blocking_thread;

static void on_stop(int signal_number)
{
    const int before = errno;
    (void)signal_number;
    asked = 1;
    alarm(1);
    if (!pthread_equal(pthread_self(), blocking_thread))
        pthread_kill(blocking_thread, SIGALRM);
    errno = before;
}

static void set(int signal_number, void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler; /* no SA_RESTART: calls that block must return */
    sigaction(signal_number, &action, NULL);
}

void stop_catch(void)
{
    struct sigaction hangup;
    blocking_thread = pthread_self();
    set(SIGALRM, on_stop);
    set(SIGINT, on_stop);
    set(SIGTERM, on_stop);
    if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
        set(SIGHUP, on_stop);
    set(SIGPIPE, SIG_IGN);
}

const volatile sig_atomic_t *stop_flag(void) { return &asked; }
