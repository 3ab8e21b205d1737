#!/bin/sh
# test_cuda_zoo.sh - small forms of the mixtures of the zoo on a GPU, resident and streamed, give what eager mode gave.
#
# Without a GPU the emulation of the tests computes. Without the CUDA backend in this build everything is skipped.
# Relies on tests/zoo (zoo/mixture_vectors.py).
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}"
. tests/checks.sh
scratch cuda_zoo
if ! $RUN "$BUILD/brainstorm" device >"$work/device" 2>"$work/message"; then
    echo "skipped: $(cat "$work/message")"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

# equal NAME "INPUT..." OPTION...: within a few roundings of f32; a decision that differs is far more
equal() {
    name=$1 given=
    for input in $2; do
        given="$given --input $input=tests/zoo/$name.$input.npy"
    done
    shift 2
    $RUN "$BUILD/brainstorm" run "tests/zoo/$name.gguf" $given --device cuda --quiet \
        --compare "y=tests/zoo/$name.y.npy" --tolerance 5e-6 "$@" >"$work/run" 2>"$work/message"
}

for network in "switch text answer" "taskmoe text task" "swinmoe images"; do
    set -- $network
    name=$1
    shift
    check "$name as in eager mode" equal "$name" "$*"
    check "$name as in eager mode, in slots of 60 % of its weights" equal "$name" "$*" --slots 60%
done

rm -rf "$work"
check_end
