/* pnm.c: see pnm.h. */
#include "pnm.h"

#include <stdlib.h>
#include <string.h>

static bool fail(char *message, size_t room, const char *what)
{
    snprintf(message, room, "%s", what);
    return false;
}

/* The next number of the header, behind spaces and comments. -1: there is none, or one beyond PNM_MOST. */
static int number(FILE *file)
{
    int c = getc(file), n = -1;
    while (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '#') {
        while (c == '#' && (c = getc(file)) != EOF && c != '\n')
            c = '#';
        c = c == EOF ? EOF : getc(file);
    }
    for (; c >= '0' && c <= '9' && n <= PNM_MOST; c = getc(file))
        n = 10 * (n < 0 ? 0 : n) + (c - '0');
    const bool ends = c == ' ' || c == '\t' || c == '\r' || c == '\n'; /* one such sign: it is gone */
    return n > PNM_MOST || !ends ? -1 : n;
}

bool pnm_read(FILE *file, pnm_picture *picture, char *message, size_t room)
{
    memset(picture, 0, sizeof *picture);
    const int p = getc(file), kind = p == 'P' ? getc(file) : 0;
    if (kind != '5' && kind != '6')
        return fail(message, room, "it is no PGM or PPM of the binary form: it does not begin with P5 or P6");
    const int width = number(file), height = number(file), most = number(file);
    if (width < 1 || height < 1)
        return fail(message, room, "its extents are not 1 .. 32768");
    if (most != 255)
        return fail(message, room, "its samples do not go from 0 to 255");
    picture->width = width;
    picture->height = height;
    picture->channels = kind == '6' ? 3 : 1;
    const size_t bytes = (size_t)width * (size_t)height * (size_t)picture->channels;
    picture->pixels = malloc(bytes);
    if (!picture->pixels)
        return fail(message, room, "no memory for its pixels");
    if (fread(picture->pixels, 1, bytes, file) == bytes)
        return true;
    free(picture->pixels);
    picture->pixels = NULL;
    return fail(message, room, "it ends before its last pixel");
}

bool pnm_write(FILE *file, const pnm_picture *picture)
{
    const size_t bytes = (size_t)picture->width * (size_t)picture->height * (size_t)picture->channels;
    const char kind = picture->channels == 3 ? '6' : '5';
    return fprintf(file, "P%c\n%d %d\n255\n", kind, picture->width, picture->height) > 0 &&
           fwrite(picture->pixels, 1, bytes, file) == bytes;
}
