/* stop.c: see stop.h.
 *
 * A signal that comes after the flag was looked at and before read() blocks would be missed: the call would wait for
 * data that never come. So an alarm follows every second, and interrupts that call too. Signals may be delivered to any
 * thread; they are passed on to the one that blocks, and by it to the second one, if there is one: while the first is
 * in its handler it cannot have waited for the second one's end. */
#define _POSIX_C_SOURCE 200809L
#include "stop.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t asked;
static pthread_t blocking_thread, second_thread;
static atomic_bool second_blocks;

static void on_stop(int signal_number, siginfo_t *info, void *context)
{
    const int before = errno;
    const bool passed_on = signal_number == SIGALRM && info->si_pid == getpid();
    (void)context;
    asked = 1;
    if (pthread_equal(pthread_self(), blocking_thread)) {
        alarm(1);
        if (atomic_load(&second_blocks))
            pthread_kill(second_thread, SIGALRM);
    } else if (!passed_on) {
        pthread_kill(blocking_thread, SIGALRM);
    }
    errno = before;
}

static bool is_ignored(int signal_number)
{
    struct sigaction now;
    return sigaction(signal_number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}

static void catch(int signal_number)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_stop;
    action.sa_flags = SA_SIGINFO; /* no SA_RESTART: calls that block must return */
    sigaction(signal_number, &action, NULL);
}

void stop_catch(void)
{
    static const int asking[] = {SIGINT, SIGTERM, SIGHUP};
    blocking_thread = pthread_self();
    atomic_init(&second_blocks, false);
    catch(SIGALRM);
    for (size_t i = 0; i < sizeof asking / sizeof asking[0]; i++)
        if (!is_ignored(asking[i]))
            catch(asking[i]);
    signal(SIGPIPE, SIG_IGN);
}

const volatile sig_atomic_t *stop_flag(void) { return &asked; }

void stop_enter(void)
{
    if (pthread_equal(pthread_self(), blocking_thread))
        return;
    second_thread = pthread_self();
    atomic_store(&second_blocks, true);
}

void stop_leave(void)
{
    if (!pthread_equal(pthread_self(), blocking_thread))
        atomic_store(&second_blocks, false);
}
