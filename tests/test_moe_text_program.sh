#!/bin/sh
# tags: asan tsan
# test_moe_text_program.sh - the text program: the same text however it is run, prompts, and errors that say what is
# wrong.
set -u
BUILD="${BUILD:-build}" RUN="${RUN:-}"
. tests/checks.sh
scratch moe_text_program

# writes FILE OPTION... : standard output goes to FILE, messages to FILE.err
writes() {
    file="$work/$1"
    shift
    $RUN "$BUILD/moe_text" "$@" >"$file" 2>"$file.err"
}

# refuses STATUS TEXT OPTION... : ends with STATUS, says TEXT, writes no text
refuses() {
    status=$1 said=$2
    shift 2
    writes refused "$@"
    [ $? -eq "$status" ] && grep -qF -- "$said" "$work/refused.err" && [ ! -s "$work/refused" ]
}

same() {
    cmp -s "$work/$1" "$work/$2"
}

bytes() { # FILE COUNT
    [ "$(wc -c <"$work/$1")" -eq "$2" ]
}

begins() { # FILE TEXT
    [ "$(head -c "${#2}" "$work/$1")" = "$2" ]
}

# The text between the marks of sequence $2, or all of a file with one text and its closing new line.
sequence() {
    sed -n "/^--- $2 ---\$/,/^--- $(($2 + 1)) ---\$/p" "$work/$1" | sed '/^--- [0-9]* ---$/d' >"$work/$1.$2"
}

printable() {
    [ -z "$(tr -d '\n -~' <"$work/$1" | head -c 1)" ]
}

# Half of the words or more are among the commonest.
COMMON='the and of to that in he shall unto for i his a lord they be is him not them it with all thou thy was god which
    my me said but ye their have will thee from as are when this out were upon man by you israel king son up there
    hath then people came had house into on her come one we children s before your also day land men let go no made
    hand us saying at an so or if'
readable() {
    total=$(tr -cs 'A-Za-z' '\n' <"$work/$1" | grep -c .)
    known=$(tr -cs 'A-Za-z' '\n' <"$work/$1" | tr 'A-Z' 'a-z' |
        grep -cxE "$(echo $COMMON | tr ' ' '|')")
    [ "$total" -gt 60 ] && [ $((known * 3)) -gt "$total" ]
}

check "a text is written" writes plain --length 600 --seed 3
check "of the length asked for" bytes plain 601
check "of printable characters" printable plain
check "with nothing else said" test ! -s "$work/plain.err"
check "and common words" readable plain
check "two threads" writes threads --length 600 --seed 3 --threads 2
check "write the same" same plain threads
check "another seed" writes seed --length 600 --seed 4
check "writes another text" eval '! same plain seed'

check "a prompt" writes prompt --prompt "And the king said" --length 50
check "stands before the text" begins prompt "And the king said"
check "and is not counted" bytes prompt 68
long=$(printf 'And they went up out of the land. %.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20)
check "a prompt of several runs" writes long --prompt "$long" --length 40
check "stands there whole" begins long "$long"

check "three texts at once" writes three --sequences 3 --length 200 --seed 9 --prompt "Then "
check "one text" writes one --length 200 --seed 9 --prompt "Then "
sequence three 1
check "the first is the one written alone" same three.1 one
check "in each is the prompt" test "$(grep -c '^Then ' "$work/three")" -ge 3
check "temperature 0" writes greedy --temperature 0 --length 80 --seed 1
check "with another seed" writes greedy2 --temperature 0 --length 80 --seed 2
check "writes the same" same greedy greedy2
check "--stats" writes stats --length 600 --seed 3 --stats
check "leaves the text as it is" same plain stats
check "tells speed and memory" grep -q 'characters in .* a second' "$work/stats.err"
check "--help" writes help --help
check "lists the options" grep -q -- '--temperature T' "$work/help"

# Experts that come and go change nothing but the time.
check "a short text" writes short --length 80 --seed 3
check "too few slots are refused" refuses 1 "arena slots" --slots 1
least=$(sed -n 's/.* needs \([0-9]*\) bytes.*/\1/p' "$work/refused.err")
check "and the least is named" test "$least" -gt 65536
check "less is refused" refuses 1 "$least bytes" --slots $((least - 1))
check "as a percentage too" refuses 1 "$least bytes" --slots 1%
for slots in "$least" "600K --speculate off" "1M --policy lru --threads 2" "2M --policy lfu --speculate on" \
    "50% --policy reuse" "100%" 100M "1M --lanes 1 --chunk 4K" "1M --lanes 8 --chunk 100000" \
    "1M --lanes 3 --chunk 1G" "1M --throttle nvme" "1M --check-records" \
    "1M --buffered --check-records --speculate auto"; do
    check "--slots $slots" eval "writes slots --length 80 --seed 3 --slots $slots"
    check "writes the same" same short slots
done
check "--slots 0, --throttle" writes slots --length 80 --seed 3 --slots 0 --throttle nvme --buffered --stats
check "writes the same" same short slots
check "and streams nothing" eval '! grep -q misses "$work/slots.err"'
check "--slots, three texts" writes three_slots --sequences 3 --length 200 --seed 9 --prompt "Then " --slots 1M --stats
check "writes the same" same three three_slots
check "tells what was read" grep -q '^read .* MiB .*; slots: ' "$work/three_slots.err"
check "for a character" grep -q 'KiB read a character' "$work/three_slots.err"
check "and what was there" grep -q 'hits, .* late, .* misses' "$work/three_slots.err"
check "and how good guesses were" grep -q 'look-ahead: .* right' "$work/three_slots.err"
check "--profile and --trace" writes profiled --length 600 --seed 3 --slots 1M \
    --profile "$work/p.bin" --trace "$work/t.json"
check "write the same" same plain profiled
check "and a profile" test -s "$work/p.bin"
check "that can be read" eval \
    '$RUN "$BUILD/brainstorm" profile "$work/p.bin" >"$work/told" && grep -q ": 600 runs" "$work/told"'
check "and a trace that names experts" grep -q 'layer3.expert' "$work/t.json"

if $RUN "$BUILD/brainstorm" device 2>&1 | grep -q "no CUDA backend"; then # else test_cuda_moe.sh says more
    check "a GPU that this build cannot use" refuses 1 "--device cuda: this build has no CUDA backend: make CUDA=1" \
        --device cuda
fi
check "f16 on a CPU" refuses 2 "--half is for --device cuda" --half
check "slots that are no number" refuses 2 "expected BYTES, with K, M or G" --slots 2T
check "no lanes" refuses 2 "expected 1 .. 8" --lanes 0
check "a chunk that is too small" refuses 2 "expected 4K .. 1G" --chunk 1K
check "a device that nobody knows" refuses 2 "sd (50 MB/s)" --throttle tape
check "a policy that does not run" refuses 2 "expected reuse, lru or lfu" --policy belady
check "speculation that is neither" refuses 2 "expected auto or off" --speculate yes
check "a profile that cannot be made" refuses 1 "none/p: " --profile "$work/none/p"
check "a trace that cannot be made" refuses 1 "none/t: " --trace "$work/none/t"
cp models/moe_text.gguf "$work/m"
check "a profile over the model" refuses 1 "the profile and the model are the same file" \
    --model "$work/m" --profile "$work/m"
check "a trace over the model" refuses 1 "the trace and the model are the same file" --model "$work/m" --trace "$work/m"
check "which is as it was" cmp models/moe_text.gguf "$work/m"
check "a profile over the trace" refuses 1 "same file" --profile "$work/p" --trace "$work/p"
check "an unknown option is refused" refuses 2 "unknown option --lenght" --lenght 5
check "a word that is no option" refuses 2 "a prompt is --prompt TEXT" hello
check "an option without its value" refuses 2 "expected a value" --seed
check "no length" refuses 2 "expected 1 .. 1000000" --length 0
check "a length that is no number" refuses 2 "expected 1 .. 1000000" --length ten
check "too many sequences" refuses 2 "expected 1 .. 32" --sequences 33
check "a temperature that is no number" refuses 2 "expected 0 .. 10" --temperature nan
check "a missing model" refuses 1 "none.gguf: cannot be opened: No such file" --model "$work/none.gguf"
check "another network's model" refuses 1 "models/sr2x.gguf" --model models/sr2x.gguf
head -c 20000 models/moe_text.gguf >"$work/cut.gguf"
check "a model cut short" refuses 1 "cut.gguf: " --model "$work/cut.gguf"
check "which is named once" test "$(grep -o cut.gguf "$work/refused.err" | wc -l)" -eq 1
check "a prompt beyond ASCII" refuses 1 "character 4 (byte 195)" --prompt "caf$(printf '\303\251')"

check_end
