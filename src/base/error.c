/* base/error.c - status names and the filling of bs_error. Relies on base/base.h. Must never print. */
#include "base/base.h"

const char *bs_name_of(const char *names, int64_t number, int64_t count)
{
    if (number < 0 || number >= count)
        return "unknown";
    for (; number > 0; number--)
        names += strlen(names) + 1;
    return names;
}

/* In the order of their numbers, which count down from 0. */
#define STATUS_ONE(name, number, text) +1
#define STATUS_NAME(name, number, text) #name "\0"
#define STATUS_TEXT(name, number, text) text "\0"
enum { N_STATUSES = BS_STATUS_LIST(STATUS_ONE) };

bool bs_status_is_known(int32_t number) { return number <= 0 && number > -N_STATUSES; }

const char *bs_status_name(bs_status status)
{
    return bs_status_is_known(status) ? bs_name_of(BS_STATUS_LIST(STATUS_NAME), -(int64_t)status, N_STATUSES)
                                      : "BS_UNKNOWN";
}

const char *bs_status_text(bs_status status)
{
    return bs_status_is_known(status) ? bs_name_of(BS_STATUS_LIST(STATUS_TEXT), -(int64_t)status, N_STATUSES)
                                      : "unknown status";
}
#undef STATUS_ONE
#undef STATUS_NAME
#undef STATUS_TEXT

int32_t bs_version(void)
{
    return BS_VERSION;
}

bs_status (bs_fail)(bs_error *error, bs_status status, const char *format, ...)
{
    if (!error)
        return status;
    va_list arguments;
    memset(error, 0, sizeof *error);
    error->status = status;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    return status;
}

#if defined(BS_NO_MESSAGES)
bs_status bs_fail_bare(bs_error *error, bs_status status)
{
    return (bs_fail)(error, status, "%s", bs_status_text(status));
}
#endif

bs_status bs_tell(const bs_error *here, bs_error *error)
{
    if (error && here->status != BS_OK)
        *error = *here;
    return here->status;
}

void (bs_error_prefix)(bs_error *error, const char *format, ...)
{
    if (!error)
        return;
    va_list arguments;
    char message[sizeof error->message];
    memcpy(message, error->message, sizeof message);
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
    const size_t used = strlen(error->message);
    snprintf(error->message + used, sizeof error->message - used, "%s", message);
}

bs_status (bs_fail_room)(bs_error *error, const char *name, uint64_t available, bs_bytes bytes, const char *what)
{
    /* aligned, as an arena would take it, so that it is always more than what is available */
    const uint64_t needed = bs_bytes_figure(bs_bytes_align(bytes));
    bs_fail(error, BS_ERROR_ARENA, "arena %s: %s needs %llu bytes, %llu are free", name, what,
            (unsigned long long)needed, (unsigned long long)available);
    if (error) {
        error->arena = name;
        error->needed = needed;
        error->available = available;
    }
    return BS_ERROR_ARENA;
}

bs_status (bs_fail_arena)(bs_error *error, const bs_arena *arena, bs_bytes needed, const char *what)
{
    const char *name = arena && arena->name ? arena->name : "?";
    return bs_fail_room(error, name, arena ? arena->size - arena->used : 0, needed, what);
}

bs_bytes bs_table_bytes(uint64_t count, size_t each)
{
    return bs_bytes_align(bs_bytes_max(bs_bytes_product(bs_bytes_of(count), bs_bytes_of(each)), bs_bytes_of(1)));
}

void *(bs_take_table)(bs_arena *arena, uint64_t count, size_t each, const char *what, bs_error *error)
{
    const bs_bytes bytes = bs_table_bytes(count, each);
    void *table = bs_take(arena, bytes);
    if (!table)
        bs_fail_arena(error, arena, bytes, what);
    return table;
}
