/* libc.c: the functions of a C library that brainstorm.c and this example call, but for those of <math.h>.
 * Owns: nothing. Relies on: the compiler, which must not make calls of these functions out of their loops
 * (-ffreestanding). Must never: be taken for a C library: snprintf knows what brainstorm's messages use. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------- memory */

typedef uint64_t __attribute__((may_alias)) word;
#define WORD sizeof(word)

static bool both_aligned(const void *a, const void *b)
{
    return (((uintptr_t)a | (uintptr_t)b) & (WORD - 1)) == 0;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    uint8_t *t = to;
    const uint8_t *f = from;
    if (both_aligned(t, f))
        for (; bytes >= WORD; bytes -= WORD, t += WORD, f += WORD)
            *(word *)(void *)t = *(const word *)(const void *)f;
    while (bytes-- > 0)
        *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    uint8_t *t = to;
    const uint8_t *f = from;
    if ((uintptr_t)t - (uintptr_t)f >= bytes) /* forwards is right: `to` is not within what is still to be read */
        return memcpy(to, from, bytes);
    while (bytes-- > 0)
        t[bytes] = f[bytes];
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    uint8_t *t = to;
    const word all = (uint8_t)value * (word)0x0101010101010101u;
    if (both_aligned(t, t))
        for (; bytes >= WORD; bytes -= WORD, t += WORD)
            *(word *)(void *)t = all;
    while (bytes-- > 0)
        *t++ = (uint8_t)value;
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
    const uint8_t *x = a, *y = b;
    for (size_t i = 0; i < bytes; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

size_t strlen(const char *text)
{
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

int strcmp(const char *a, const char *b)
{
    while (*a && *a == *b)
        a++, b++;
    return (uint8_t)*a - (uint8_t)*b;
}

/* ------------------------------------------------------------------------------------------------- printing */

typedef struct printer {
    char *text;
    size_t bytes, used; /* used: also of what did not fit */
} printer;

/* What stands between % and its letter. */
typedef struct spec {
    bool left, zeros, sign;
    int width, precision; /* precision -1: none */
    int longs;
} spec;

static void put(printer *p, char c)
{
    if (p->used + 1 < p->bytes)
        p->text[p->used] = c;
    p->used++;
}

static void put_padded(printer *p, const spec *s, const char *text, int length)
{
    const char pad = s->zeros && !s->left ? '0' : ' ';
    for (int i = length; i < s->width && !s->left; i++)
        put(p, pad);
    for (int i = 0; i < length; i++)
        put(p, text[i]);
    for (int i = length; i < s->width && s->left; i++)
        put(p, ' ');
}

static void put_text(printer *p, const spec *s, const char *text)
{
    int length = 0;
    while (text[length] && (s->precision < 0 || length < s->precision))
        length++;
    put_padded(p, s, text, length);
}

static void put_number(printer *p, const spec *s, uint64_t value, bool negative, unsigned base)
{
    char digits[24];
    int first = (int)sizeof digits;
    do
        digits[--first] = "0123456789abcdef"[value % base];
    while ((value /= base) != 0);
    if (negative || s->sign)
        digits[--first] = negative ? '-' : '+';
    put_padded(p, s, digits + first, (int)sizeof digits - first);
}

/* A double in a message: three digits behind the point, and no more than 18 before it. */
static void put_real(printer *p, const spec *s, double value)
{
    const spec fraction = {false, true, false, 3, -1, 0};
    const double size = value < 0 ? -value : value;
    if (!(size < 1e15)) {
        put_text(p, s, size == size ? "(large)" : "nan");
        return;
    }
    const uint64_t thousandths = (uint64_t)(size * 1000 + 0.5);
    put_number(p, s, thousandths / 1000, value < 0, 10);
    put(p, '.');
    put_number(p, &fraction, thousandths % 1000, false, 10);
}

static uint64_t next_unsigned(const spec *s, va_list *arguments)
{
    return s->longs == 0 ? va_arg(*arguments, unsigned) : va_arg(*arguments, uint64_t);
}

static int64_t next_signed(const spec *s, va_list *arguments)
{
    return s->longs == 0 ? va_arg(*arguments, int) : va_arg(*arguments, int64_t);
}

static int read_number(const char **format)
{
    int number = 0;
    for (; **format >= '0' && **format <= '9'; ++*format)
        number = number * 10 + **format - '0';
    return number;
}

static spec read_spec(const char **format)
{
    spec s = {false, false, false, 0, -1, 0};
    for (;; ++*format)
        if (**format == '-')
            s.left = true;
        else if (**format == '0')
            s.zeros = true;
        else if (**format == '+')
            s.sign = true;
        else
            break;
    s.width = read_number(format);
    if (**format == '.') {
        ++*format;
        s.precision = read_number(format);
    }
    for (; **format == 'l' || **format == 'z'; ++*format)
        s.longs++;
    return s;
}

static void put_argument(printer *p, char letter, const spec *s, va_list *arguments)
{
    int64_t number;
    switch (letter) {
    case 's': put_text(p, s, va_arg(*arguments, const char *)); break;
    case 'u': put_number(p, s, next_unsigned(s, arguments), false, 10); break;
    case 'x': put_number(p, s, next_unsigned(s, arguments), false, 16); break;
    case 'd':
        number = next_signed(s, arguments);
        put_number(p, s, number < 0 ? 0 - (uint64_t)number : (uint64_t)number, number < 0, 10);
        break;
    case 'g':
    case 'f': put_real(p, s, va_arg(*arguments, double)); break;
    default: put(p, letter); break;
    }
}

int vsnprintf(char *text, size_t bytes, const char *format, va_list arguments)
{
    printer p = {text, bytes, 0};
    va_list rest;
    va_copy(rest, arguments); /* a va_list that was passed has no address of its own type everywhere */
    while (*format) {
        if (*format != '%') {
            put(&p, *format++);
            continue;
        }
        format++;
        const spec s = read_spec(&format);
        if (*format)
            put_argument(&p, *format++, &s, &rest);
    }
    va_end(rest);
    if (bytes > 0)
        text[p.used < bytes ? p.used : bytes - 1] = 0;
    return (int)p.used;
}

int snprintf(char *text, size_t bytes, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, bytes, format, arguments);
    va_end(arguments);
    return length;
}

/* What functions of <math.h> set when a result overflows. Nobody asks. */
_Thread_local int errno;
