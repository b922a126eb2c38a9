/* Tells ThreadSanitizer the happens-before edges that stand in the precompiled standard library.
 *
 * The race detector only knows the atomics of code that was compiled for it. Std is not, and its source is not
 * at hand to do so. Most of std's synchronisation is generic and inlined into the programs under test, where it
 * is seen; what isn't would turn every datum behind a contended mutex into a false alarm in the middle of this
 * crate, where nothing is suppressed. The linker's --wrap puts these functions in between. They add the edges
 * that the wrapped ones have, and no others; .ci/run looks up the mangled names.
 */
#include <stdbool.h>
#include <stdint.h>

void __tsan_acquire(void *address);
void __tsan_release(void *address);

#define PASTE(a, b) a##b
#define REAL(name) PASTE(__real_, name)
#define WRAP(name) PASTE(__wrap_, name)

/* A mutex or rwlock that was contended: the unlock is inlined and seen, this lock isn't. */
#define LOCK(name)                     \
    void REAL(name)(void *lock);       \
    void WRAP(name)(void *lock);       \
    void WRAP(name)(void *lock)        \
    {                                  \
        REAL(name)(lock);              \
        __tsan_acquire(lock);          \
    }
LOCK(MUTEX_LOCK)
LOCK(RWLOCK_READ)
LOCK(RWLOCK_WRITE)

/* Waiting unlocks the mutex and locks it again, both unseen. */
void REAL(CONDVAR_WAIT)(void *condvar, void *mutex);
void WRAP(CONDVAR_WAIT)(void *condvar, void *mutex);
void WRAP(CONDVAR_WAIT)(void *condvar, void *mutex)
{
    __tsan_release(mutex);
    REAL(CONDVAR_WAIT)(condvar, mutex);
    __tsan_acquire(mutex);
}

/* `Duration` is passed as its two fields. */
bool REAL(CONDVAR_WAIT_TIMEOUT)(void *condvar, void *mutex, uint64_t seconds, uint32_t nanoseconds);
bool WRAP(CONDVAR_WAIT_TIMEOUT)(void *condvar, void *mutex, uint64_t seconds, uint32_t nanoseconds);
bool WRAP(CONDVAR_WAIT_TIMEOUT)(void *condvar, void *mutex, uint64_t seconds, uint32_t nanoseconds)
{
    __tsan_release(mutex);
    bool in_time = REAL(CONDVAR_WAIT_TIMEOUT)(condvar, mutex, seconds, nanoseconds);
    __tsan_acquire(mutex);
    return in_time;
}

/* The end of a scoped thread: the count that `thread::scope` waits for is one of the first two words. */
void REAL(SCOPE_END)(char *scope, bool panicked);
void WRAP(SCOPE_END)(char *scope, bool panicked);
void WRAP(SCOPE_END)(char *scope, bool panicked)
{
    __tsan_release(scope);
    __tsan_release(scope + sizeof(uint64_t));
    REAL(SCOPE_END)(scope, panicked);
}

/* `Arc` counts down with Release and lets the last one do an Acquire fence, which the race detector doesn't
 * know. Counting down with AcqRel is the same order for the last one. What this hides: a 64-bit `fetch_sub` of
 * this crate that lacks its acquire side; that is what the models are for. */
uint64_t __real___tsan_atomic64_fetch_sub(volatile uint64_t *count, uint64_t by, int order);
uint64_t __wrap___tsan_atomic64_fetch_sub(volatile uint64_t *count, uint64_t by, int order);
uint64_t __wrap___tsan_atomic64_fetch_sub(volatile uint64_t *count, uint64_t by, int order)
{
    enum { RELEASE = 3, ACQ_REL = 4 };
    return __real___tsan_atomic64_fetch_sub(count, by, order == RELEASE ? ACQ_REL : order);
}
