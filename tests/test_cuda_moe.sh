#!/bin/sh
# tags: emulated
# test_cuda_moe.sh - moe_text --device cuda: the text of the CPU, with experts that stay on the GPU or come and go.
#
# Texts are short: without a GPU the emulation of the tests computes. Without the CUDA backend in this build everything
# is skipped. Sampling is in integers, so that a letter differs only where logits all but tie.
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}"
. tests/checks.sh
scratch cuda_moe
if ! $RUN "$BUILD/brainstorm" device >"$work/device" 2>"$work/message"; then
    echo "skipped: $(cat "$work/message")"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

# writes FILE OPTION...: standard output goes to FILE, messages to $work/message
writes() {
    file="$work/$1"
    shift
    $RUN "$BUILD/moe_text" "$@" >"$file" 2>"$work/message"
}

# same OPTION...: the GPU writes what the CPU writes, and more than a line's end
same() {
    writes plain "$@" && writes gpu "$@" --device cuda && cmp "$work/plain" "$work/gpu" &&
        [ $(($(wc -c <"$work/gpu"))) -gt 8 ]
}

# refuses STATUS TEXT OPTION...: ends with STATUS, says TEXT in one line, writes no text
refuses() {
    status=$1 said=$2
    shift 2
    writes refused "$@"
    [ $? -eq "$status" ] && grep -q -- "$said" "$work/message" && [ "$(wc -l <"$work/message")" -eq 1 ] &&
        [ ! -s "$work/refused" ]
}

# without COMMAND...: as on a machine without a GPU; for the emulation and for CUDA
without() {
    CUDA_CPU_DEVICES=0 CUDA_VISIBLE_DEVICES=-1 "$@"
}

tells() {
    grep -q -- "$1" "$work/message"
}

# --- experts that stay -----------------------------------------------------------------------------------

check "a text" same --length 12 --seed 3 --stats
check "... tells the GPU's name" tells \
    "^GPU: $(sed -n 's/^name *//p' "$work/device") ([0-9.]*), f32; [0-9.]* MiB on it, [0-9.]* MiB pinned"
check "... and what was copied" tells "^copied a run: 12 bytes to it, 384 back"
check "the likeliest letters after a prompt" same --temperature 0 --length 10 --prompt "And the king said unto"
check "three texts side by side" same --sequences 3 --length 8 --seed 9 --prompt "Then "
check "--half" writes half --device cuda --half --length 10 --seed 3 --stats
check "... tells so" tells "^GPU: .*, f16;"
check "... writes as many letters" [ $(($(wc -c <"$work/half"))) -eq 11 ]

# --- experts that come and go ----------------------------------------------------------------------------

writes refused --slots 1 --device cuda
least=$(sed -n 's/.* needs \([0-9]*\) bytes.*/\1/p' "$work/message")
check "too few slots are refused, and the least is named" [ "${least:-0}" -gt 65536 ]
for slots in "$least" "1M --policy lru" "50%" "100%" "1M --speculate off --lanes 1 --chunk 4K" \
    "1M --lanes 4 --check-records --buffered"; do
    check "--slots $slots" same --length 40 --seed 3 --slots $slots
done
check "--slots, three texts" same --sequences 3 --length 10 --seed 9 --prompt "Then " --slots 1M --stats
check "... tells what was read" tells '^read .* MiB .*; slots: '
check "--slots --half" writes half_slots --device cuda --half --length 10 --seed 3 --slots 50%
check "... writes what it does without slots" cmp "$work/half" "$work/half_slots"

# --- where it cannot -------------------------------------------------------------------------------------

check "without a GPU --device cuda is refused" without refuses 1 "--device cuda: .*no CUDA device" --device cuda
fallback() {
    writes plain --length 20 && without writes gpu --length 20 --device cuda --half --fallback &&
        cmp "$work/plain" "$work/gpu" &&
        tells "no CUDA device.*; the CPU computes" && [ "$(wc -l <"$work/message")" -eq 1 ]
}
check "--fallback lets the CPU compute, and says so" fallback
check "--device must be known" refuses 2 "expected cpu or cuda" --device gpu
check "--half is for a GPU" refuses 2 "--half is for --device cuda" --half
check "a missing model is the model's error" refuses 1 "none.gguf: " --device cuda --model "$work/none.gguf"

rm -rf "$work"
check_end
