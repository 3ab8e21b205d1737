/* lock.h - locks and conditions on raw futexes. Relies on Linux. Must never become a pthread mutex: a sanitizer
 * intercepts those, and a stream's queue would order host and device by accident and hide missing waits. */
#ifndef CUDA_CPU_LOCK_H
#define CUDA_CPU_LOCK_H

#include <atomic>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace cuda_cpu {

inline void futex_wait(std::atomic<int> *word, int value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
inline void futex_wake(std::atomic<int> *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

class Lock {
public:
    void lock()
    {
        int free = 0;
        if (word.compare_exchange_strong(free, 1))
            return;
        while (word.exchange(2))
            futex_wait(&word, 2);
    }
    void unlock()
    {
        if (word.exchange(0) == 2)
            futex_wake(&word, 1);
    }

private:
    std::atomic<int> word{0}; /* 0 free, 1 held, 2 held and waited for */
};

class Held {
public:
    explicit Held(Lock &which) : lock(which) { lock.lock(); }
    ~Held() { lock.unlock(); }
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;
    Lock &lock;
};

class Signal {
public:
    void tell()
    {
        word.fetch_add(1);
        futex_wake(&word, 1 << 30);
    }
    template <class Until> void wait(Held &held, Until until)
    {
        while (!until()) {
            const int seen = word.load();
            held.lock.unlock();
            futex_wait(&word, seen);
            held.lock.lock();
        }
    }

private:
    std::atomic<int> word{0};
};

} // namespace cuda_cpu

#endif
