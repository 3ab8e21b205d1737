#!/bin/sh
# tags: asan tsan uses:tests/test_plan_image,tests/test_model_plans
# test_plan_cli.sh - `brainstorm plan MODEL --save FILE`: the file is the image of the plan that was asked for, and
# gives what that plan gives, whether it is read or mapped (test_model_plans opens it). What cannot be saved is said,
# with the status of an error, and an old file stays as it was unless writing itself fails. What else --save must not
# destroy: test_same_files.sh.
set -u
export LC_ALL=C
BUILD="${BUILD:-build}" RUN="${RUN:-}"
. tests/checks.sh
scratch plan_cli
model=models/sr2x.gguf text=models/moe_text.gguf size=frame=1x88x132 image="$work/net.plan"
if [ ! -f $model ] || [ ! -f $text ]; then
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi

# saves ARGUMENT...: its exit status. What it says goes to $work/said, errors to $work/message.
saves() {
    $RUN "$BUILD/brainstorm" plan "$@" >"$work/said" 2>"$work/message"
}

# refuses STATUS TEXT ARGUMENT...: ends with that status, this is the first line of what it says, and it prints nothing.
refuses() {
    status=$1 expected=$2
    shift 2
    saves "$@"
    [ $? -eq "$status" ] && [ "$(head -n 1 "$work/message")" = "brainstorm: $expected" ] && [ ! -s "$work/said" ]
}

# alike MODEL INPUT... -- OPTION...: saved with these options, opened again, run beside a plan that is made anew.
alike() {
    file=$1 inputs='' options='' bits=''
    shift
    while [ "$1" != -- ]; do
        inputs="$inputs $1" options="$options --input $1"
        shift
    done
    shift
    case " $* " in *" --code-bits 10 "*) bits=10 ;; esac
    rm -f "$image"
    saves "$file" $options "$@" --save "$image" || return 1
    grep -q "^$image: the plan, $(wc -c <"$image") bytes$" "$work/said" || return 1
    $RUN "$BUILD/tests/test_model_plans" "$image" "$file" $inputs $bits >"$work/message" 2>&1
}

# --- what is saved is the plan ---------------------------------------------------------------------------

for options in "" "--threads 3 --order breadth" "--order depth --tier scalar" "--conv direct --patch 96" \
    "--conv winograd --threads 2" "--slots 100% --lanes 1" "--slots 900K --lanes 3 --chunk 16K --threads 2" \
    "--code-bits 10"; do
    check "$model ${options:-as it is}: opened again it gives the same bytes" alike $model $size -- $options
done
for options in "" "--order breadth --threads 3" "--slots 100% --threads 2" "--slots 150K --lanes 1 --chunk 8K"; do
    check "$text ${options:-as it is}: opened again it gives the same bytes" \
        alike $text tokens=30x1 lengths=3 past=3 -- $options
done
twice() {
    saves $model --input $size --save "$work/one" && saves $model --input $size --save "$work/two" &&
        cmp "$work/one" "$work/two" >"$work/message"
}
check "the same file every time" twice
again() { # where a longer file was
    head -c 100000 /dev/zero >"$work/two" && saves $model --input $size --save "$work/two" &&
        cmp "$work/one" "$work/two" >"$work/message"
}
check "... whole, where a longer one was" again
last_counts() {
    rm -f "$work/two" && saves $model --input $size --save "$work/three" --save "$work/two" &&
        cmp "$work/one" "$work/two" >"$work/message" && [ ! -e "$work/three" ]
}
check "given twice, the last name counts" last_counts
board() {
    saves $model --input $size --tier neon --save "$work/neon" && saves $model --input $size --device cuda --half \
        --save "$work/half" && ! cmp -s "$work/neon" "$work/one" && ! cmp -s "$work/half" "$work/one"
}
check "for processors that are not here" board
other() { # the test program would notice
    ! $RUN "$BUILD/tests/test_model_plans" "$work/one" $model frame=1x88x128 >"$work/message" 2>&1 &&
        grep -q "another graph" "$work/message" &&
        ! $RUN "$BUILD/tests/test_model_plans" "$work/one" $text >"$work/message" 2>&1
}
check "opened with another graph it is refused" other
half() { # of what was to be saved
    head -c 9000 "$work/one" >"$work/two"
    is_refused
}
is_refused() {
    [ -s "$work/two" ] && ! $RUN "$BUILD/tests/test_model_plans" "$work/two" $model $size >"$work/message" 2>&1
}
check "... and so is half of it" half

verified() {
    saves $model --input $size --verify "$@" && grep -q "^verified: all that an instruction reads was written before" \
        "$work/said"
}
check "--verify says that nothing is read which was written over" verified
check "... of weights that come and go" verified --slots 100% --threads 2 --order depth
check "... and of a GPU" verified --device cuda --half

# --- what it refuses -------------------------------------------------------------------------------------

cp $model "$work/model.gguf"
kept() { # refused as below, and both files are as they were
    cp "$work/one" "$work/two"
    refuses "$@" && cmp "$work/one" "$work/two" >>"$work/message" && cmp $model "$work/model.gguf" >>"$work/message"
}
check "--save without a name" refuses 2 "an unknown option, or one without a value: --save" $model --save
check "... or with an empty one" refuses 2 "not understood: --save " $model --save ""
fails() { # TEXT ARGUMENT...: when it writes
    expected=$1
    shift
    saves $model --input $size "$@"
    [ $? -eq 1 ] && [ "$(cat "$work/message")" = "brainstorm: $expected" ]
}
check "without a model" kept 2 "plan takes a file" --save "$work/two"
check "with two" kept 2 "more than one file: $model" $text $model --save "$work/two"
check "a model that is not there" kept 1 "$work/none: cannot be opened: No such file or directory" "$work/none" \
    --save "$work/two"
nothing_new() {
    refuses 1 "arena slots: block \"large\" needs 906560 bytes, 1 are free" $model --slots 1 --save "$work/new" &&
        [ ! -e "$work/new" ]
}
check "a plan that is refused: no file" nothing_new
check "... and an old one stays" kept 1 \
    "arena slots: block \"large\" needs 906560 bytes, 1 are free" $model --slots 1 --save "$work/two"
check "a folder that is not there" refuses 1 "$work/no/p: cannot be opened: No such file or directory" \
    $model --save "$work/no/p"
check "a folder" refuses 1 "$work: cannot be opened: Is a directory" $model --save "$work"
check "the model itself" kept 1 "the plan and the model are the same file: $work/model.gguf" \
    "$work/model.gguf" --save "$work/model.gguf"
ln "$work/model.gguf" "$work/hard" && ln -s model.gguf "$work/soft" || exit 1
check "... by another name" kept 1 "the plan and the model are the same file: $work/hard" \
    "$work/model.gguf" --save "$work/hard"
check "... through a link" kept 1 "the plan and the model are the same file: $work/soft" \
    "$work/model.gguf" --save "$work/soft"
check "what it prints to" refuses 1 "the plan and standard output are the same file: $work/said" $model \
    --save "$work/said"
chmod 400 "$work/two"
if [ ! -w "$work/two" ]; then
    check "a file that cannot be written" refuses 1 "$work/two: cannot be opened: Permission denied" $model \
        --save "$work/two"
else
    skip "a file that cannot be written: this user can write all"
fi
chmod 600 "$work/two"
if [ -c /dev/full ]; then
    check "a full disk" fails "/dev/full: No space left on device" --save /dev/full
    full() {
        $RUN "$BUILD/brainstorm" plan $model --input $size --save "$work/two" >/dev/full 2>"$work/message"
        [ $? -eq 1 ] && grep -q "^brainstorm: standard output: writing failed: No space left" "$work/message" &&
            cmp "$work/one" "$work/two" >>"$work/message"
    }
    check "... that it prints to: the plan is saved" full
else
    skip "a full disk: there is no /dev/full"
fi
limited() { # 512 bytes each
    (ulimit -f 16 && fails "$work/two: File too large" --save "$work/two")
}
cp "$work/one" "$work/two"
check "a file that may not be as large" limited
check "... the plan of before is still there" cmp "$work/one" "$work/two"
help() { $RUN "$BUILD/brainstorm" --help | grep -q "^  --save FILE  *write the plan as an image"; }
check "--help tells of it" help

rm -rf "$work"
check_end
