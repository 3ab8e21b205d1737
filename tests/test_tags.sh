#!/bin/sh
# tags: long
# test_tags.sh - every test has tags that tests/tags.txt explains, each runs in some stage of CI but for those of `make
# test-all`, and each word chooses something: a test that nothing runs, or a word that nobody reads, is found here.
set -u
BUILD="${BUILD:-build}"
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL TEST TAGS TIER
. tests/checks.sh
scratch tags

tags() { sed -n '1,2s/^[^a-z]*tags: \(.*\)$/\1/p' "$1" | sed 's| *\*/$||' | tr ' ' '\n'; }

for test in tests/test_*.c tests/test_*.sh tests/test_*.py; do
    name=$(basename "$test" | sed 's/\.[a-z]*$//')
    echo "$name" >>"$work/tests"
    tags "$test" | sed "s/^/$name /" >>"$work/tags"
done
sort -o "$work/tests" "$work/tests"
sed -n 's/^\([a-z0-9-]*:\{0,1\}\)[A-Z, ]* .*/\1/p' tests/tags.txt | sort -u >"$work/words"

# none COMMAND...: it prints nothing.
none() { "$@" >"$work/message" && [ ! -s "$work/message" ]; }

untagged() { cut -d ' ' -f 1 "$work/tags" | sort -u | comm -13 - "$work/tests"; }
check "every test has tags in its first comment" none untagged

unknown_words() { sed 's/^[^ ]* //; s/:.*/:/' "$work/tags" | sort -u | comm -3 - "$work/words"; }
check "the words are those of tests/tags.txt, and each is used" none unknown_words

# chosen TIER: what the stages of a tier run, by the Makefile's own word.
chosen() {
    bash tests/stages.sh "$1" list | grep -o 'make .*' | while read -r command; do
        case $command in
        "make test-modules"*) ;;
        "make sweep"*) make -s test LIST=1 TAGS=sweep; make -s test LIST=1 TAGS=sweep CUDA=emulated ;;
        "make test"* | "make bare"*) eval "$command -s LIST=1" ;;
        esac
    done | grep '^test_' | sort -u >"$work/$1"
}
chosen ci
chosen all

not_in_ci() {
    sed -n 's/ minutes$//p' "$work/tags" | sort -u - "$work/ci" | comm -13 - "$work/tests"
}
check "CI runs every test that is not for make test-all" none not_in_ci
check "make test-all runs every test" none comm -13 "$work/all" "$work/tests"
check_end
