/* declarations.h - what a header declares, without what only its comments and structs say. Relies on nothing. */
#ifndef BS_TEST_DECLARATIONS_H
#define BS_TEST_DECLARATIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Comments, preprocessor lines and what stands in braces or parentheses become blanks. */
static inline void keep_declarations(char *s)
{
    int32_t depth = 0, braces = 0;
    for (bool start = true; *s; s++) {
        char *end = start && *s == '#' ? strchr(s, '\n') : s[0] == '/' && s[1] == '*' ? strstr(s, "*/") + 2 : s;
        while (end && end > s + 1 && start && *s == '#' && end[-1] == '\\')
            end = strchr(end + 1, '\n');
        start = end == s ? *s == '\n' : false;
        for (; s < end; s++)
            *s = ' ';
        start = start || *s == '\n';
        const bool inside = depth > 0 || braces > 1;
        depth += (*s == '(') - (*s == ')'), braces += (*s == '{') - (*s == '}');
        if (inside && *s != '(' && *s != ')')
            *s = ' ';
    }
}

#endif
