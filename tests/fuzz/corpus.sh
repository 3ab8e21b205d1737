#!/bin/sh
# corpus.sh NAME... - makes tests/fuzz/corpus/NAME anew: as few of the inputs that runs of `make fuzz` have grown (and
# of those committed) as reach all that they reach, at most 64 and $MOST bytes for each fuzzer. `make fuzz-corpus`.
#
# Names that begin with "found-" are of bugs that were found: they stay as they are.
set -u
BUILD="${BUILD:-build/fuzz}" MOST="${MOST:-36000}"
for name in "$@"; do
    new="$BUILD/merged/$name" kept="tests/fuzz/corpus/$name"
    rm -rf "$new" && mkdir -p "$new" "$kept" "$BUILD/corpus/$name" "$BUILD/found" || exit 1
    "$BUILD/make_corpus" "$BUILD/seeds" || exit 1
    # Seeds come first: what the generator makes anyway need not be committed.
    cp "$BUILD/seeds/$name/"* "$new/"
    "$BUILD/fuzz_$name" -merge=1 -max_len=6000 -timeout=30 -rss_limit_mb=2000 -artifact_prefix="$BUILD/found/$name-" \
        "$new" "$kept" "$BUILD/corpus/$name" \
        >"$BUILD/$name.merge.log" 2>&1 </dev/null || { tail -n 5 "$BUILD/$name.merge.log"; exit 1; }
    rm -f "$new"/seed-*
    find "$kept" -type f ! -name 'found-*' -delete
    # Small ones and large ones, as far as they fit.
    every=$(($(ls "$new" | wc -l) / 64 + 1)) room=$MOST
    for file in $(ls -rS "$new" | grep -v '^found-' | awk "NR % $every == 0"); do
        room=$((room - $(wc -c <"$new/$file")))
        [ "$room" -ge 0 ] || break
        cp "$new/$file" "$kept/$(echo "$file" | cut -c 1-12)"
    done
    echo "$name: $(ls "$kept" | wc -l) inputs of $(ls "$new" | wc -l), $(cat "$kept"/* /dev/null | wc -c) bytes"
done
