/* messages.h - the table of error messages: every message in a source file is brought about by some row, word for word.
 *
 * A row makes one mistake and gives the whole text that must come of it: message_is(). messages_of("src/x.c") then
 * reads that file and finds a row for each call of a function that fails or refuses (bs_fail, bs_refuse, bs_graph_fail,
 * ..._fail_key). Owns: the texts seen by this program. Relies on: check.h, the repository's root as working directory.
 * Must never: count a message as seen that was not compared with a text of the table. Lines that carry a comment
 * "unreachable: why" are left out, as they are from the coverage. */
#ifndef BS_TEST_MESSAGES_H
#define BS_TEST_MESSAGES_H

#include "brainstorm.h"
#include "check.h"

#include <ctype.h>
#include <stdbool.h>

enum { MESSAGES = 1024, MESSAGE_SOURCE_BYTES = 1 << 17, MESSAGE_PATTERN_BYTES = 1024 };

static char messages_seen[MESSAGES][sizeof((bs_error *)0)->message];
static int32_t n_messages;
static char message_source[MESSAGE_SOURCE_BYTES];

/* One row: `error` has this status and says exactly this. */
static inline bool message_is(const bs_error *error, bs_status status, const char *text)
{
    const bool same = error->status == status && strcmp(error->message, text) == 0;
    if (!check(same, "%s: %s", bs_status_name(status), text))
        printf("  | %s: %s\n", bs_status_name(error->status), error->message);
    else if (n_messages < MESSAGES)
        strcpy(messages_seen[n_messages++], text);
    return same;
}

/* Whether `pattern`, in which * stands for anything, matches all of `text`. */
static inline bool message_matches(const char *pattern, const char *text)
{
    const char *star = NULL, *resume = text;
    while (*text) {
        if (*pattern == '*')
            star = pattern++, resume = text;
        else if (*pattern == *text)
            pattern++, text++;
        else if (star)
            pattern = star + 1, text = ++resume;
        else
            return false;
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

/* Comments become blanks; a line with an "unreachable:" comment becomes blank as a whole. Line breaks stay. */
static inline void message_blank_comments(char *s)
{
    bool quoted = false;
    for (char *line = s; *s; s++) {
        if (*s == '\n')
            line = s + 1;
        else if (quoted && *s == '\\')
            s++;
        else if (*s == '"')
            quoted = !quoted;
        else if (*s == '\'' && !quoted)
            s += s[1] == '\\' ? 3 : 2;
        else if (!quoted && s[0] == '/' && s[1] == '*') {
            char *end = strstr(s, "*/");
            if (strncmp(s, "/* unreachable:", 15) == 0)
                memset(line, ' ', (size_t)(s - line));
            for (; s < end + 2; s++)
                if (*s != '\n')
                    *s = ' ';
            s--;
        }
    }
}

/* Appends the literal at `s`, its conversions turned into *; returns what follows its closing quote. */
static inline const char *message_literal(const char *s, char *pattern)
{
    size_t n = strlen(pattern);
    for (s++; *s != '"' && n < MESSAGE_PATTERN_BYTES - 2; s++) {
        if (s[0] == '%' && s[1] == '%')
            pattern[n++] = *s++;
        else if (s[0] == '%') {
            s += strcspn(s, "diouxXcsgfp\"");
            pattern[n++] = '*';
            if (*s == '"')
                break;
        } else if (*s == '\\')
            pattern[n++] = *++s == 'n' ? '\n' : *s;
        else
            pattern[n++] = *s;
    }
    pattern[n] = '\0';
    return s + 1;
}

/* The literals of the call whose arguments begin at `s`, anything between them: * first * second *. False: it has
 * none. */
static inline bool message_pattern(const char *s, char *pattern)
{
    bool any = false;
    strcpy(pattern, "*");
    for (int32_t depth = 1; depth > 0 && *s;) {
        if (*s == '"') {
            s = message_literal(s, pattern);
            strcat(pattern, "*");
            any = true;
        } else {
            depth += (*s == '(') - (*s == ')');
            /* What follows a choice between texts, or stands in calls inside, is not the text itself. */
            if ((*s == '?' || *s == '(') && any)
                break;
            s++;
        }
    }
    return any;
}

static inline bool message_load(const char *path)
{
    FILE *file = fopen(path, "rb");
    const size_t n = file ? fread(message_source, 1, sizeof message_source - 1, file) : 0;
    message_source[n] = '\0';
    if (file)
        fclose(file);
    if (check(n > 0 && n < sizeof message_source - 1, "%s is read", path))
        message_blank_comments(message_source);
    return n > 0;
}

/* The start of the word before the parenthesis at `s` if that word says that something failed and has `teller` in it,
 * else NULL. */
static inline const char *message_call(const char *begin, const char *s, const char *teller)
{
    const char *word = s;
    while (word > begin && (isalnum((unsigned char)word[-1]) || word[-1] == '_'))
        word--;
    char name[64];
    const size_t n = (size_t)(s - word);
    if (n == 0 || n >= sizeof name)
        return NULL;
    memcpy(name, word, n);
    name[n] = '\0';
    return (strstr(name, "fail") || strstr(name, "refuse")) && strstr(name, teller) ? word : NULL;
}

/* Every message of this source file that a function with `teller` in its name gives has a row ("": every message). Call
 * it when all rows have run. */
static inline void messages_by(const char *teller, const char *path)
{
    if (!message_load(path))
        return;
    int32_t line = 1, calls = 0;
    for (const char *s = message_source; *s; s++) {
        char pattern[MESSAGE_PATTERN_BYTES];
        line += *s == '\n';
        if (*s != '(' || !message_call(message_source, s, teller) || !message_pattern(s + 1, pattern))
            continue;
        bool seen = false;
        for (int32_t i = 0; i < n_messages && !seen; i++)
            seen = message_matches(pattern, messages_seen[i]);
        calls++;
        check(seen, "%s:%d has a row: %s", path, line, pattern);
    }
    check(calls > 0, "%s has messages", path);
}

static inline void messages_of(const char *path) { messages_by("", path); }

/* Those of shape rules alone, or those of runs: the others are in another table. */
static inline void messages_of_builds(const char *path) { messages_by("infer_fail", path); }
static inline void messages_of_runs(const char *path) { messages_by("call_fail", path); }

#endif
