/* y4m.c: the header of a YUV4MPEG2 stream and the geometry that follows from it.
 *
 * Owns: the tag syntax, the accepted layouts, plane sizes, and the error texts.
 * Relies on: nothing but the bytes it is given.
 * Must never: do input or output (y4m_io.c does), or accept a number it did not read to the end.
 *
 * What ffmpeg's reader tolerates is tolerated here: repeated spaces, CRLF, unknown tags, missing F,
 * I, A and C, the older XYSCSS= in place of C. What would silently turn into wrong pixels is not:
 * unknown layouts, interlacing, numbers with something behind them.
 */
#define _POSIX_C_SOURCE 200809L
#include "y4m.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const y4m_layout_facts layouts[Y4M_LAYOUT_COUNT] = {
#define X(id, name, bits, hx, hy, cx, cy) {name, bits, hx, hy, cx, cy},
    Y4M_LAYOUT_LIST(X)
#undef X
};

static const char *const texts[Y4M_STATUS_COUNT] = {
#define X(name, text) text,
    Y4M_STATUS_LIST(X)
#undef X
};

/* A stretch of the header line: not terminated, may hold any byte. */
typedef struct span {
    const char *at;
    size_t length;
} span;

/* --- errors ------------------------------------------------------------------------------- */

/* Unprintable bytes of a foreign file must not reach the user's terminal. */
static void quote(y4m_error *error, span text)
{
    size_t n = text.length < Y4M_QUOTE_MAX - 1 ? text.length : Y4M_QUOTE_MAX - 1;
    for (size_t i = 0; i < n; i++)
        error->quote[i] = text.at[i] > ' ' && text.at[i] <= '~' ? text.at[i] : '?';
    error->quote[n] = 0;
}

static y4m_status refuse(y4m_error *error, y4m_status status, span text)
{
    memset(error, 0, sizeof *error);
    error->status = status;
    quote(error, text);
    return status;
}

typedef struct text_buffer {
    char *at;
    size_t size, length;
} text_buffer;

static void put(text_buffer *out, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = out->length < out->size ? out->size - out->length : 0;
    int n = vsnprintf(room ? out->at + out->length : NULL, room, format, arguments);
    va_end(arguments);
    if (n > 0)
        out->length += (size_t)n;
}

size_t y4m_message(const y4m_error *error, char *buffer, size_t size)
{
    text_buffer out = {buffer, size, 0};
    unsigned status = (unsigned)error->status;
    put(&out, "%s", status < Y4M_STATUS_COUNT ? texts[status] : "unknown error");
    if (status == Y4M_NOT_Y4M)
        put(&out, "%s", Y4M_FFMPEG);
    if (error->quote[0])
        put(&out, " %s", error->quote);
    for (int i = 0; status == Y4M_BAD_LAYOUT && i < Y4M_LAYOUT_COUNT; i++)
        put(&out, "%s%s", i ? " C" : ", known: C", layouts[i].name);
    if (error->frame > 0)
        put(&out, ", frame %lld", (long long)error->frame);
    if (error->missing_bytes > 0)
        put(&out, " (%llu bytes missing)", (unsigned long long)error->missing_bytes);
    if (error->system_error)
        put(&out, ": %s", strerror(error->system_error));
    return out.length;
}

/* --- values of tags ----------------------------------------------------------------------- */

static bool equals(span text, const char *word)
{
    return text.length == strlen(word) && memcmp(text.at, word, text.length) == 0;
}

static bool starts(span text, const char *word)
{
    size_t n = strlen(word);
    return text.length >= n && memcmp(text.at, word, n) == 0;
}

static span after(span text, size_t n) { return (span){text.at + n, text.length - n}; }

/* Digits only, and all of them; -1 for anything else or beyond 31 bits. */
static int32_t number(span text)
{
    int64_t value = 0;
    if (text.length == 0)
        return -1;
    for (size_t i = 0; i < text.length; i++) {
        if (text.at[i] < '0' || text.at[i] > '9')
            return -1;
        value = value * 10 + (text.at[i] - '0');
        if (value > INT32_MAX)
            return -1;
    }
    return (int32_t)value;
}

static bool side(span text, int *out)
{
    int32_t value = number(text);
    if (value <= 0)
        return false;
    *out = value;
    return true;
}

/* 0:0 is the format's "unknown". Some writers say 0:1 for an aspect they do not know. */
static bool ratio(span text, bool zero_over_one, y4m_ratio *out)
{
    const char *colon = memchr(text.at, ':', text.length);
    if (!colon)
        return false;
    size_t n = (size_t)(colon - text.at);
    out->n = number((span){text.at, n});
    out->d = number(after(text, n + 1));
    out->given = true;
    if (out->n < 0 || out->d < 0)
        return false;
    if (out->n == 0)
        return out->d == 0 || (zero_over_one && out->d == 1);
    return out->d > 0;
}

static bool same_letters(span text, const char *lower_case)
{
    size_t n = strlen(lower_case);
    if (text.length != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        char c = text.at[i];
        if ((c >= 'A' && c <= 'Z' ? (char)(c + 32) : c) != lower_case[i])
            return false;
    }
    return true;
}

static bool layout_named(span name, bool any_case, y4m_layout *out)
{
    for (int i = 0; i < Y4M_LAYOUT_COUNT; i++) {
        if (any_case ? same_letters(name, layouts[i].name) : equals(name, layouts[i].name)) {
            *out = (y4m_layout)i;
            return true;
        }
    }
    return false;
}

/* --- the header line ---------------------------------------------------------------------- */

/* Room is kept for what can be written; a tag beyond it could only have been dropped later. */
static void keep_extra(y4m_info *info, span tag)
{
    size_t used = strlen(info->extra);
    if (used + 1 + tag.length + 1 > sizeof info->extra)
        return;
    for (size_t i = 0; i < tag.length; i++)
        if (tag.at[i] < '!' || tag.at[i] > '~')
            return;
    info->extra[used] = ' ';
    memcpy(info->extra + used + 1, tag.at, tag.length);
    info->extra[used + 1 + tag.length] = 0;
}

/* What the tags have told beyond y4m_info: the two ways of naming a layout. */
typedef struct layout_tags {
    bool by_c;
    y4m_layout c, x;
    span unknown_x; /* matters only where no C tag says better */
} layout_tags;

static void private_tag(span tag, y4m_info *info, layout_tags *seen)
{
    static const char range[] = "XCOLORRANGE=", old_layout[] = "XYSCSS=";
    if (starts(tag, range) && equals(after(tag, sizeof range - 1), "FULL"))
        info->range = Y4M_RANGE_FULL;
    else if (starts(tag, range) && equals(after(tag, sizeof range - 1), "LIMITED"))
        info->range = Y4M_RANGE_LIMITED;
    else
        keep_extra(info, tag);
    if (starts(tag, old_layout) && !layout_named(after(tag, sizeof old_layout - 1), true, &seen->x))
        seen->unknown_x = tag;
}

static y4m_status interlacing_tag(span tag, y4m_info *info, y4m_error *error)
{
    char kind = tag.length == 2 ? tag.at[1] : 0;
    if (kind == 'p' || kind == '?') {
        info->interlacing = kind;
        return Y4M_OK;
    }
    bool known = tag.length >= 2 && (tag.at[1] == 't' || tag.at[1] == 'b' || tag.at[1] == 'm');
    return refuse(error, known ? Y4M_INTERLACED : Y4M_BAD_TAG, tag);
}

static y4m_status read_tag(span tag, y4m_info *info, layout_tags *seen, y4m_error *error)
{
    span value = after(tag, 1);
    bool good = true;
    switch (tag.at[0]) {
    case 'W':
        good = side(value, &info->width);
        break;
    case 'H':
        good = side(value, &info->height);
        break;
    case 'F':
        good = ratio(value, false, &info->rate);
        break;
    case 'A':
        good = ratio(value, true, &info->aspect);
        break;
    case 'I':
        return interlacing_tag(tag, info, error);
    case 'X':
        private_tag(tag, info, seen);
        break;
    case 'C':
        seen->by_c = layout_named(value, false, &seen->c);
        return seen->by_c ? Y4M_OK : refuse(error, Y4M_BAD_LAYOUT, tag);
    default:
        break;
    }
    return good ? Y4M_OK : refuse(error, Y4M_BAD_TAG, tag);
}

static span next_tag(span *rest)
{
    size_t skip = 0, n = 0;
    while (skip < rest->length && rest->at[skip] == ' ')
        skip++;
    *rest = after(*rest, skip);
    while (n < rest->length && rest->at[n] != ' ')
        n++;
    span tag = {rest->at, n};
    *rest = after(*rest, n);
    return tag;
}

/* Checked for twice the size, since that is what callers go on to allocate. */
static y4m_status check_size(const y4m_info *info, y4m_error *error)
{
    if (info->width == 0 || info->height == 0)
        return refuse(error, Y4M_NO_SIZE, (span){info->width ? "H" : "W", 1});
    uint64_t bytes = (uint64_t)info->width * (uint64_t)info->height * Y4M_PLANES_MAX * 4 * 2;
    if (info->width <= Y4M_SIDE_MAX && info->height <= Y4M_SIDE_MAX && bytes <= SIZE_MAX / 2)
        return Y4M_OK;
    char text[Y4M_QUOTE_MAX];
    int n = snprintf(text, sizeof text, "W%d,H%d", info->width, info->height);
    return refuse(error, Y4M_TOO_LARGE, (span){text, (size_t)n});
}

y4m_status y4m_parse_header(const char *line, size_t length, y4m_info *info, y4m_error *error)
{
    static const char magic[] = "YUV4MPEG2";
    span rest = {line, length};
    layout_tags seen = {false, Y4M_LAYOUT_420JPEG, Y4M_LAYOUT_420JPEG, {NULL, 0}};
    memset(info, 0, sizeof *info);
    memset(error, 0, sizeof *error);
    if (rest.length > 0 && rest.at[rest.length - 1] == '\r')
        rest.length--;
    if (!equals(next_tag(&rest), magic) || (length > 0 && line[0] == ' '))
        return refuse(error, Y4M_NOT_Y4M, (span){"", 0});
    for (span tag = next_tag(&rest); tag.length > 0; tag = next_tag(&rest)) {
        y4m_status status = read_tag(tag, info, &seen, error);
        if (status)
            return status;
    }
    if (!seen.by_c && seen.unknown_x.at)
        return refuse(error, Y4M_BAD_LAYOUT, seen.unknown_x);
    info->layout = seen.by_c ? seen.c : seen.x;
    return check_size(info, error);
}

/* Adds text unless the line, its newline included, would grow beyond the limit. */
static void add_if_fits(char *line, const char *text, size_t length)
{
    size_t used = strlen(line);
    if (used + length + 1 > Y4M_HEADER_WRITE_MAX)
        return;
    memcpy(line + used, text, length);
    line[used + length] = 0;
}

static void add_extras(char *line, const char *extra)
{
    while (*extra) {
        size_t n = 1 + strcspn(extra + 1, " ");
        add_if_fits(line, extra, n);
        extra += n;
    }
}

size_t y4m_format_header(const y4m_info *info, char line[Y4M_HEADER_WRITE_MAX + 1])
{
    static const char *const ranges[] = {"", " XCOLORRANGE=LIMITED", " XCOLORRANGE=FULL"};
    char tag[64];
    /* The longest line without aspect and X tags has 82 bytes, so what matters always fits. */
    snprintf(line, Y4M_HEADER_WRITE_MAX, "YUV4MPEG2 W%d H%d", info->width, info->height);
    if (info->rate.given) {
        snprintf(tag, sizeof tag, " F%d:%d", (int)info->rate.n, (int)info->rate.d);
        add_if_fits(line, tag, strlen(tag));
    }
    if (info->interlacing) {
        snprintf(tag, sizeof tag, " I%c", info->interlacing);
        add_if_fits(line, tag, strlen(tag));
    }
    snprintf(tag, sizeof tag, " C%s%s", layouts[info->layout].name, ranges[info->range]);
    add_if_fits(line, tag, strlen(tag));
    if (info->aspect.given) {
        snprintf(tag, sizeof tag, " A%d:%d", (int)info->aspect.n, (int)info->aspect.d);
        add_if_fits(line, tag, strlen(tag));
    }
    add_extras(line, info->extra);
    size_t length = strlen(line);
    line[length] = '\n';
    line[length + 1] = 0;
    return length + 1;
}

/* --- names -------------------------------------------------------------------------------- */

bool y4m_misnamed(const char *path)
{
    static const char *const others[] = {"mp4",  "m4v", "mkv", "webm", "mov",  "avi",  "ts",  "mpg",
                                         "mpeg", "flv", "wmv", "ogv",  "h264", "h265", "264", "265",
                                         "hevc", "yuv", "gif", "png",  "jpg",  "jpeg", "bmp", "ppm"};
    const char *dot = strrchr(path, '.');
    if (!dot || dot == path || strchr(dot, '/'))
        return false;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (same_letters((span){dot + 1, strlen(dot + 1)}, others[i]))
            return true;
    return false;
}

/* --- geometry ----------------------------------------------------------------------------- */

const y4m_layout_facts *y4m_facts(y4m_layout layout) { return &layouts[layout]; }

int y4m_planes(const y4m_info *info) { return info->layout == Y4M_LAYOUT_MONO ? 1 : 3; }

int y4m_plane_width(const y4m_info *info, int plane)
{
    int halved = plane > 0 && layouts[info->layout].halved_x;
    return halved ? (info->width + 1) / 2 : info->width;
}

int y4m_plane_height(const y4m_info *info, int plane)
{
    int halved = plane > 0 && layouts[info->layout].halved_y;
    return halved ? (info->height + 1) / 2 : info->height;
}

size_t y4m_sample_bytes(const y4m_info *info) { return layouts[info->layout].bits > 8 ? 2 : 1; }

size_t y4m_row_bytes(const y4m_info *info, int plane)
{
    return (size_t)y4m_plane_width(info, plane) * y4m_sample_bytes(info);
}

size_t y4m_plane_bytes(const y4m_info *info, int plane)
{
    return y4m_row_bytes(info, plane) * (size_t)y4m_plane_height(info, plane);
}

size_t y4m_plane_offset(const y4m_info *info, int plane)
{
    size_t offset = 0;
    for (int i = 0; i < plane; i++)
        offset += y4m_plane_bytes(info, i);
    return offset;
}

size_t y4m_frame_bytes(const y4m_info *info) { return y4m_plane_offset(info, y4m_planes(info)); }
