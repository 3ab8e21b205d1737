#!/bin/sh
# check.sh - what must hold for the files that users copy. `make check` calls it, in the repository's root.
# (What nvcc makes of brainstorm_cuda.cu: cuda_build.sh.)
#
# brainstorm.c and brainstorm_cuda.cu are what src/ generates; header and source compile strictly, alone, with every
# compiler here; the parts compile separately; the object asks nothing of the system that the header rules out. A check
# that lacks its tool is skipped and says so. Links between pages lead somewhere; files and functions are short enough
# to be read. (What is installed can be used: consumers.sh.)
set -u
BUILD="${BUILD:-build/check}" PYTHON="${PYTHON:-python3}" MAKE="${MAKE:-make}"
STRICT='-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror'
SOURCE_STRICT="$STRICT -Wvla -Wstrict-prototypes -Wmissing-prototypes"
. tests/checks.sh
log="$BUILD/log" shown=40

# The trio is copied away, so that it cannot lean on anything beside it.
alone="$BUILD/alone"
rm -rf "$BUILD" && mkdir -p "$alone" || exit 1
cp brainstorm.h brainstorm.c "$alone" || exit 1
root=$(pwd)

# --- the header ------------------------------------------------------------------------------------------

header_alone() { # COMPILER FLAGS LANGUAGE [HEADER]
    header=${4:-brainstorm.h}
    printf '%s\n' "#include \"$header\"" "#include \"$header\"" 'int answer(void);' \
        'int answer(void) { return (int)BS_OK; }' \
        >"$alone/header.$3" && (cd "$alone" && $1 $2 $STRICT -I"${5:-.}" -c "header.$3" -o header.o)
}

# The list of contents names the sections in their order; a section's title stands behind a line of dashes.
contents() { # HEADER
    sed -n '/^ \* CONTENTS$/,/^ \*\/*$/p' "$1" | awk -F '  +' 'NF > 2 && $2 != "this comment" { print $2 }' \
        >"$BUILD/contents"
    sed -n 's|^/\* ----------*  *\(.*\)|\1|p' "$1" | sed 's| \*/$||' >"$BUILD/titles" &&
        [ -s "$BUILD/contents" ] && diff "$BUILD/contents" "$BUILD/titles"
}

# --- the source ------------------------------------------------------------------------------------------

source_alone() { # COMPILER FLAGS OBJECT
    (cd "$alone" && $1 -std=c11 $SOURCE_STRICT $2 -c brainstorm.c -o "$3")
}

# Headers through a file that includes one alone. Some files a process: a compiler takes as long to start as for one.
parts_separately() { # COMPILER
    mkdir -p "$BUILD/headers"
    {
        ls src/*/*.c
        for part in $(sed 's/#.*//' src/ORDER | awk '$1 != "template" && /\.h$/ { print $NF }'); do
            file="$BUILD/headers/$(echo "$part" | tr / _).c"
            printf '#include "%s"\nint not_empty;\n' "$part" >"$file" && echo "$file"
        done
    } | xargs -P "$(nproc 2>/dev/null || echo 2)" -n 16 $1 -std=c11 $SOURCE_STRICT -I. -Isrc -fsyntax-only
}

# Which folder uses which; the objects want no speed.
floors() { # COMPILER
    for part in src/*/*.c; do
        object=$BUILD/parts/${part#src/}
        mkdir -p "$(dirname "$object")" && echo "$part ${object%.c}.o"
    done | xargs -P "$(nproc 2>/dev/null || echo 2)" -n 2 sh -c '$0 -std=c11 -O0 -I. -Isrc -c "$1" -o "$2"' "$1" &&
        "$PYTHON" tests/tower.py "$BUILD/parts"
}

# Not the lists of planted faults and other tables (*.txt): they have an entry a line.
long_lines() {
    {
        find src bench examples tests tools training python -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' \
            -o -name '*.cuh' -o -name '*.inc' -o -name '*.hpp' -o -name '*.sh' -o -name '*.py' \
            -o -name '*.awk' -o -name '*.mk'
        ls brainstorm.h brainstorm_replay.h Makefile .ci/run
    } | xargs awk 'length($0) > 120 { print FILENAME ":" FNR ": " length($0) " columns"; bad = 1 } END { exit bad }'
}

# Passes, runs and devices ask what an op or a value does and is (src/graph/op.h), not which one it is.
at_most() { # NUMBER PATTERN
    grep -rnE "$2" src >"$BUILD/places"
    [ "$(wc -l <"$BUILD/places")" -le "$1" ] && return
    cat "$BUILD/places"
    return 1
}

# Symbols that brainstorm.h promises not to use: memory, printing, leaving. (A stack protector refers to
# __stack_chk_fail, which is the compiler's and not in this list.)
FORBIDDEN='malloc calloc realloc reallocarray free strdup strndup aligned_alloc posix_memalign memalign valloc
    mmap mmap64 munmap brk sbrk printf fprintf vprintf vfprintf dprintf vdprintf puts fputs putc putchar fputc
    fwrite perror __printf_chk __fprintf_chk __vprintf_chk __vfprintf_chk __dprintf_chk stdout stderr
    exit _exit _Exit quick_exit abort raise atexit __assert_fail longjmp system getenv'

forbidden_symbols() { # OBJECT
    nm -u "$1" >"$BUILD/undefined" || return 1
    bad=0
    for symbol in $FORBIDDEN; do
        awk -v s="$symbol" '{ sub(/@.*/, "", $NF) } $NF == s { found = 1 } END { exit found }' "$BUILD/undefined" ||
            { echo "refers to $symbol"; bad=1; }
    done
    return $bad
}

# Everything it defines for others begins with bs_.
foreign_symbols() { # OBJECT
    nm -g --defined-only "$1" >"$BUILD/defined" || return 1
    awk '$NF !~ /^bs_/ { print "defines " $NF; bad = 1 } END { exit bad }' "$BUILD/defined"
}

# Functions that a program can call: those of the two headers, and what brainstorm_cuda.cu is linked with.
inner_functions() { # OBJECT
    grep -ohw 'bs_[a-z0-9_]*' brainstorm.h brainstorm_replay.h brainstorm_cuda.cu | sort -u >"$BUILD/outer" &&
        nm -g --defined-only "$1" >"$BUILD/defined" || return 1
    awk 'FNR == NR { outer[$1] = 1; next }
         $2 == "T" && !($3 in outer) { print "shows " $3; bad = 1 } END { exit bad }' "$BUILD/outer" "$BUILD/defined"
}

# State belongs to sessions: nothing in the object can be written.
writable_data() { # OBJECT
    size -A "$1" >"$BUILD/sections" || return 1
    awk '$1 ~ /^\.(data|bss|tdata|tbss)(\.|$)/ && $1 !~ /^\.data\.rel\.ro/ && $2 > 0 { print; bad = 1 }
         END { exit bad }' "$BUILD/sections"
}

# What an op refuses has a row in a table of messages (tests/messages.h), which finds those of a file that it is told.
messages_have_rows() {
    bad=0
    for part in $(grep -lE '(fail|refuse)[a-z_]*\(' src/ops/*.c); do
        grep -qF "\"$part\"" tests/test_messages_*.c ||
            { echo "$part: no tests/test_messages_*.c has its messages (messages_of)"; bad=1; }
    done
    return $bad
}

# --- with it ---------------------------------------------------------------------------------------------

program() { # COMPILER FLAGS FILE
    $1 $2 $STRICT -I"$alone" "$3" "$alone/$4.o" -lm -lpthread -o "$BUILD/program"
}

# The C program of docs/bring_your_model.md.
example_of_model_page() { # COMPILER
    awk '/^```c$/ { inside = 1; next } /^```$/ { inside = 0 } inside' docs/bring_your_model.md >"$BUILD/model_page.c" &&
        grep -q bs_model_open_file "$BUILD/model_page.c" && program $1 "-std=c11" "$BUILD/model_page.c" $1
}

# --- all of it -------------------------------------------------------------------------------------------

if have "$PYTHON"; then
    check "tests/test_amalgamate.py passes" "$PYTHON" tests/test_amalgamate.py
    check "brainstorm.c and brainstorm_cuda.cu are what src/ generates" "$PYTHON" tools/amalgamate.py --check
    check "the lists of kinds in Python are those of brainstorm.h" "$PYTHON" tools/lists.py --check
    if have cc; then
        check "what Python, tests and docs/format.md have of ops is what the library has" "$PYTHON" tools/ops.py --check
    else
        skip "what Python, tests and docs/format.md have of ops is what the library has (no cc)"
    fi
else
    skip "brainstorm.c and brainstorm_cuda.cu are what src/ generates (no $PYTHON)"
fi
check "lines have 120 columns at most" long_lines
check "10 places at most know an op by its name" \
    at_most 10 'kernel (==|!=)|bs_node_is\(|strcmp\(bs_(node_op|op_get)\(|(==|!=) *&bs_op_'
check "what ops refuse has rows in the tables of messages" messages_have_rows
check "10 places at most compare a rank with 3" at_most 10 'rank (==|!=|<|>|<=|>=) ?3'
for header in brainstorm.h brainstorm_replay.h; do
    check "the list of contents of $header names its sections" contents $header
done
if have "$PYTHON"; then
    check "tests/lengths.py tests itself" "$PYTHON" tests/lengths.py --self-test
    check "files have 500 lines at most, functions of src/ 50, kernels 80" "$PYTHON" tests/lengths.py
else
    skip "files have 500 lines at most, functions of src/ 50, kernels 80 (no $PYTHON)"
fi
if have "$PYTHON"; then
    check "tests/links.py tests itself" "$PYTHON" tests/links.py --self-test
    check "links in README and docs resolve; README has 150 lines at most" "$PYTHON" tests/links.py
else
    skip "links in README and docs resolve (no $PYTHON)"
fi
if have "$PYTHON" && have gcc; then
    check "tests/tower.py tests itself" "$PYTHON" tests/tower.py --self-test
    check "no folder of src/ calls upwards" floors gcc
else
    skip "no folder of src/ calls upwards (no $PYTHON, or no gcc)"
fi

for pair in gcc:g++ clang:clang++; do
    c=${pair%:*} cxx=${pair#*:}
    if ! have $c; then
        skip "everything with $c (not here)"
        continue
    fi
    check "header alone, C99, $c" header_alone $c "-std=c99 -Wc++-compat" c
    check "header of replays, C99, $c" header_alone $c "-std=c99 -Wc++-compat" c brainstorm_replay.h "$root"
    check "source alone, $c" source_alone $c "-O0" $c.o # optimized: make lint, which asks for more warnings
    check "source without POSIX, $c" source_alone $c "-fsyntax-only -DBS_NO_POSIX" none.o
    check "source without SIMD, $c" source_alone $c "-fsyntax-only -DBS_NO_SIMD" none.o
    check "source without both, $c" source_alone $c "-fsyntax-only -DBS_NO_POSIX -DBS_NO_SIMD" none.o
    check "parts separately, $c" parts_separately $c
    check "object allocates, prints, exits nothing, $c" forbidden_symbols "$alone/$c.o"
    check "object defines only bs_ names, $c" foreign_symbols "$alone/$c.o"
    check "object shows no inner function, $c" inner_functions "$alone/$c.o"
    check "object has no writable data, $c" writable_data "$alone/$c.o"
    [ ! -f examples/minimal.c ] || check "examples/minimal.c, $c" program $c "-std=c11" examples/minimal.c $c
    for example in examples/time/*.c; do
        check "$example, $c" program $c "-std=c11" "$example" $c
    done
    check "docs/bring_your_model.md's program, $c" example_of_model_page $c
    if ! have $cxx; then
        skip "header alone, C++17, $cxx (not here)"
        continue
    fi
    check "header alone, C++17, $cxx" header_alone $cxx -std=c++17 cpp
    check "header of replays, C++17, $cxx" header_alone $cxx -std=c++17 cpp brainstorm_replay.h "$root"
    case $cxx in
    g++) strictest='-Wold-style-cast -Wuseless-cast -Wzero-as-null-pointer-constant -Wsign-conversion' ;;
    *) strictest='-Weverything -Wno-c++98-compat -Wno-c++98-compat-pedantic -Wno-padded' ;;
    esac
    check "header's macros in strict C++11, $cxx" $cxx -std=c++11 $STRICT $strictest -I. -fsyntax-only tests/header.cpp
    [ ! -f examples/minimal.cpp ] || check "examples/minimal.cpp, $cxx" program $cxx -std=c++17 examples/minimal.cpp $c
done

check_end
