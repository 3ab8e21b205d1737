#!/bin/sh
# modules.sh - each module of the library left out, and all of them: brainstorm.c compiles strictly, and a program does
# what the rest can do. `make test-modules` calls it, in the repository's root.
#
# Objects are not optimised, but where texts must have vanished, which no kernel has: it is minutes of a compiler's time
# as it is.
# RUN_EACH=no: what lacks one module, or none, is compiled and not run.
set -u
BUILD="${BUILD:-build/modules}" RUN="${RUN:-}" COMPILERS="${COMPILERS:-gcc clang}"
STRICT='-std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wvla -Wstrict-prototypes -Wmissing-prototypes -Werror'
. tests/checks.sh
log="$BUILD/log" shown=40
mkdir -p "$BUILD" || exit 1

MODULES='PLANNER MODEL STREAM PROFILE REPLAY REPORT MESSAGES WINOGRAD'
ALL=$(for module in $MODULES; do printf ' -DBS_NO_%s' "$module"; done)
OPS='-DBS_ONLY_OPS -DBS_OP_conv2d -DBS_OP_linear -DBS_OP_pool2d'

object() { # COMPILER NAME FLAG...
    cc=$1 build=$2
    shift 2
    $cc $STRICT -O0 "$@" -c brainstorm.c -o "$BUILD/$build.o"
}

# What a build without a planner opens, one with all else that it has has saved.
images() { # COMPILER NAME FLAG...
    case " $* " in
    *" -DBS_NO_PLANNER "*) ;;
    *) return 0 ;;
    esac
    planner="$BUILD/$2.planner" saved="$BUILD/$2.images" with=$1
    shift 2
    flags=$(printf ' %s ' "$@" | sed 's/ -DBS_NO_PLANNER / /')
    mkdir -p "$saved" && object $with "${planner##*/}" $flags &&
        $with $STRICT -O1 $flags -I. -Itests tests/modules/modules.c "$planner.o" -lm -lpthread -o "$planner" &&
        $RUN "$planner" models/sr2x.gguf "$saved"
}

program() { # COMPILER NAME FLAG...
    images "$@" || return 1
    cc=$1 build=$2
    shift 2
    $cc $STRICT -O1 "$@" -I. -Itests tests/modules/modules.c "$BUILD/$build.o" -lm -lpthread -o "$BUILD/$build" &&
        $RUN "$BUILD/$build" models/sr2x.gguf "$BUILD/$build.images"
}

syntax() { # COMPILER NAME FLAG...
    cc=$1
    shift 2
    $cc $STRICT "$@" -fsyntax-only brainstorm.c
}

both() { # COMPILER NAME FLAG...
    check "brainstorm.c, $2, $1" object "$@"
    check "what it has works, $2, $1" program "$@"
}

# A call of a module that is left out does not compile; it does where the module is.
gone() { # MODULE CALL
    printf '#include "brainstorm_replay.h"\nint main(void) { return %s != 0; }\n' "$2" >"$BUILD/gone.c"
    cc -std=c11 -Werror -I. -fsyntax-only "$BUILD/gone.c" && ! cc -std=c11 -Werror -I. "-DBS_NO_$1" -fsyntax-only \
        "$BUILD/gone.c"
}

# Texts of the object, from the compiler's assembly: of all formats those of names and of the one message remain.
formats() { # FLAG...
    gcc -std=c11 -O1 -DBS_NO_SIMD "$@" -S brainstorm.c -o - |
        sed -n 's/^[[:space:]]*\.string[[:space:]]"\(.*\)"$/\1/p' | grep '%' |
        grep -v -x -F -e '%s' -e '%.*s' -e '%s%s%s' -e '%s%s%s%.63s%s: ' -e '%s \"%s\" (node %d): %s'
}

no_texts() {
    formats >"$BUILD/with" &
    formats -DBS_NO_MESSAGES -DBS_NO_REPORT >"$BUILD/without"
    wait
    cat "$BUILD/without"
    [ ! -s "$BUILD/without" ] && [ "$(wc -l <"$BUILD/with")" -gt 200 ]
}

parts_separately() {
    ls src/*/*.c | xargs -P "$(nproc 2>/dev/null || echo 2)" -n 8 gcc $STRICT $ALL -I. -Isrc -fsyntax-only
}

# Every second build, from number `first` on.
share() { # COMPILER FIRST
    n=$2
    for module in everything $MODULES; do
        n=$((n + 1))
        [ $((n % 2)) -eq 1 ] || continue
        flag=-DBS_NO_$module
        case ${RUN_EACH:-yes}.$module in
        yes.everything) both "$1" everything ;;
        yes.*) both "$1" "no_$module" "$flag" ;;
        *.everything) ;;
        *) check "brainstorm.c, no_$module, $1" syntax "$1" "no_$module" "$flag" ;;
        esac
    done
    if [ "$2" -eq 0 ]; then
        both "$1" only_ops $OPS
    else
        both "$1" none $ALL
        both "$1" least $ALL -DBS_NO_POSIX -DBS_NO_SIMD $OPS
    fi
}

# Side by side, each share in a folder of its own: what they print comes when all have ended.
shares=
for compiler in $COMPILERS; do
    have $compiler || { skip "everything with $compiler (not here)"; continue; }
    for first in 0 1; do
        shares="$shares $compiler.$first"
        (
            BUILD="$BUILD/$compiler.$first"
            log="$BUILD/log"
            mkdir -p "$BUILD" && share $compiler $first >"$BUILD/said"
            echo "$passed $failed" >"$BUILD/counts"
        ) &
    done
done
wait
for share in $shares; do
    cat "$BUILD/$share/said"
    read -r p f <"$BUILD/$share/counts" || p=0 f=1
    passed=$((passed + p)) failed=$((failed + f))
done

least() { # it plans by itself
    gcc $STRICT -Os -DBS_SMALL -ffunction-sections -fdata-sections ${ALL#*-DBS_NO_PLANNER} $OPS -I. \
        tests/modules/least.c brainstorm.c -Wl,--gc-sections -lm -lpthread -o "$BUILD/least" && $RUN "$BUILD/least"
}

check "bs_plan_create is not declared" gone PLANNER 'bs_plan_create(0, NULL, 0, 0, 0)'
check "bs_model_open_memory is not declared" gone MODEL 'bs_model_open_memory(0, 0, 0, 0)'
check "bs_policy_name is not declared" gone STREAM 'bs_policy_name(BS_POLICY_LRU)'
check "bs_profile_create is not declared" gone PROFILE 'bs_profile_create(0, 0, 0)'
check "bs_replay is not declared" gone REPLAY 'bs_replay(0, 0, 0, 0, 0)'
check "bs_plan_report is not declared" gone REPORT 'bs_plan_report(0, 0, 0)'
check "bs_session_report is not declared" gone REPORT 'bs_session_report(0, 0, 0)'
if have gcc; then
    check "the smallest program runs without what it does not use" least
    check "without messages no texts are compiled" no_texts
    check "parts compile separately with all modules left out" parts_separately
fi
check_end
