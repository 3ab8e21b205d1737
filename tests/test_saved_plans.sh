#!/bin/sh
# tags: minutes asan uses:tests/test_plan_image,tests/test_model_plans
# test_saved_plans.sh - what test_model_plans and test_plan_image do a part of, whole: every case of the shipped models,
# and 1,000 random graphs. GRAPHS=5000 SEED=7 takes so many, from another seed on.
set -u
BUILD="${BUILD:-build}" RUN="${RUN:-}" GRAPHS="${GRAPHS:-1000}" SEED="${SEED:-1}"
. tests/checks.sh
scratch saved_plans

models() { $RUN "$BUILD/tests/test_model_plans" all >"$work/message" 2>&1; }
graphs() {
    $RUN "$BUILD/tests/test_plan_image" "$SEED" "$GRAPHS" >"$work/message" 2>&1 &&
        grep -q "^ok $GRAPHS random graphs: " "$work/message"
}
# told PATTERN: the figures.
told() { sed -n "s/^ok \($1\)/  \1/p" "$work/message"; }

check "every shipped model, planned in every way: saved and opened again it gives the same bytes" models
told "models\/.*"
check "$GRAPHS random graphs from seed $SEED: saved and opened again they give what their definition gives" graphs
told "$GRAPHS random.*"

rm -rf "$work"
check_end
