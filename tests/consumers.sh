#!/bin/sh
# consumers.sh - what others make of it, each as docs/building.md says. `make consumers` calls it, in the repository's
# root.
#
# The library installed by make and by CMake, and added to another project, each then used by a program that runs; what
# is installed works from any folder and when its prefix has been moved. What lacks its tool is skipped and says so.
# CMAKE_TESTS=no: without the tests that CMake builds, half a minute.
set -u
BUILD="${BUILD:-build/consumers}" MAKE="${MAKE:-make}"
. tests/checks.sh
log="$BUILD/log" shown=40

rm -rf "$BUILD" && mkdir -p "$BUILD" || exit 1
root=$(pwd)
at=$(cd "$BUILD" && pwd)

# What is looked at is how the library is asked for, not how fast it is: a compiler that takes -O3 for -O0.
cat >"$at/quick_cc" <<'END'
#!/bin/sh
for word; do
    shift
    [ "$word" != -O3 ] || word=-O0
    set -- "$@" "$word"
done
exec cc "$@"
END
chmod +x "$at/quick_cc"
export CC="$at/quick_cc"

# A program that wants the library, and not only its header.
cat >"$at/user.c" <<'END'
#include <brainstorm.h>
#include <brainstorm_replay.h>
#include <stdio.h>

BS_ALIGNED static uint8_t memory[1 << 20];

int main(void)
{
    bs_arena arena;
    bs_arena_init(&arena, "persistent", memory, sizeof memory);
    bs_graph *graph = bs_graph_create(&arena, NULL);
    printf("%d\n", graph != NULL && bs_version() == BS_VERSION && bs_replay_bytes(NULL) == 0);
    return graph == NULL || bs_version() != BS_VERSION;
}
END

# project FOLDER HOW: a project of theirs that gets the library by HOW.
project() {
    mkdir -p "$at/$1" && cp "$at/user.c" "$at/$1/user.c" && cat >"$at/$1/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.13)
project(user C)
$2
add_executable(user user.c)
target_link_libraries(user PRIVATE brainstorm::brainstorm)
END
}

# --- make install ----------------------------------------------------------------------------------------

# Staged below another folder than the one that it is made for.
make_install() {
    "$MAKE" --no-print-directory install BUILD="$at/make" LEVEL=-O0 PREFIX=/opt/b DESTDIR="$at/staged" &&
        mv "$at/staged/opt/b" "$at/installed"
}

use_by_hand() {
    cc -I"$at/installed/include" "$at/user.c" -L"$at/installed/lib" -lbrainstorm -lm -lpthread -o "$at/user" &&
        "$at/user"
}

use_pkg_config() {
    flags=$(PKG_CONFIG_PATH="$at/installed/lib/pkgconfig" pkg-config --define-variable=prefix="$at/installed" \
        --cflags --libs brainstorm) &&
        cc "$at/user.c" $flags -o "$at/user" && "$at/user"
}

pkg_config_where_it_was_made_for() {
    "$MAKE" --no-print-directory install BUILD="$at/make" LEVEL=-O0 PREFIX="$at/in_place" &&
        flags=$(PKG_CONFIG_PATH="$at/in_place/lib/pkgconfig" pkg-config --cflags --libs brainstorm) &&
        cc "$at/user.c" $flags -o "$at/user" && "$at/user"
}

# finds NAME PREFIX [ARGUMENT...]: a project that finds what is installed.
finds() {
    folder=$1 prefix=$2
    shift 2
    project "$folder" 'find_package(brainstorm REQUIRED)' &&
        cmake -S "$at/$folder" -B "$at/$folder/build" -DCMAKE_PREFIX_PATH="$prefix" "$@" &&
        cmake --build "$at/$folder/build" && "$at/$folder/build/user"
}

wrong_version() {
    project version 'find_package(brainstorm 77.1 REQUIRED)' &&
        ! cmake -S "$at/version" -B "$at/version/build" -DCMAKE_PREFIX_PATH="$at/installed" &&
        grep -q 'brainstorm-config.cmake, version:' "$log"
}

# From / and by its name alone, with the model that was installed.
video_sr_anywhere() {
    printf 'YUV4MPEG2 W16 H16 F25:1 Ip C420jpeg\nFRAME\n%384s' '' >"$at/in.y4m"
    (cd / && PATH="$at/installed/bin:$PATH" video_sr --quiet "$at/in.y4m" "$at/out.y4m") &&
        head -c 40 "$at/out.y4m" | grep -q 'W32 H32'
}

program_checks_model() {
    for model in "$at"/installed/share/brainstorm/*.gguf; do
        "$at/installed/bin/brainstorm" check "$model" || return 1
    done
}

# --- CMake -----------------------------------------------------------------------------------------------

cmake_install() {
    cmake -S . -B "$at/cmake" -DCMAKE_INSTALL_PREFIX="$at/cmake_installed" -DCMAKE_C_FLAGS_RELEASE=-O0 &&
        cmake --build "$at/cmake" --target install
}

subdirectory() { # NAME [ARGUMENT...]
    folder=$1
    shift
    project "$folder" "add_subdirectory(\"$root\" brainstorm)" &&
        cmake -S "$at/$folder" -B "$at/$folder/build" -DCMAKE_INSTALL_PREFIX="$at/${folder}_installed" "$@" &&
        cmake --build "$at/$folder/build" && "$at/$folder/build/user"
}

# The tests are for those who change the library, and few build them by CMake: that they link.
cmake_tests() {
    cmake -S . -B "$at/cmake_tests" -DBRAINSTORM_TESTS=ON -DCMAKE_C_FLAGS_RELEASE=-O0 &&
        cmake --build "$at/cmake_tests" -j "${JOBS:-2}"
}

optimized() { # NAME: no build type does not mean slow
    grep -r --include=flags.make -q -e '-O3' "$at/$1/build/brainstorm"
}

# --- all of it -------------------------------------------------------------------------------------------

check "make install" make_install
check "then: cc" use_by_hand
if have pkg-config; then
    check "then: pkg-config" use_pkg_config
    check "then: pkg-config, by the prefix that it was made for" pkg_config_where_it_was_made_for
else
    skip "pkg-config (not here)"
fi
check "then: models, and a program that reads them" program_checks_model
check "then: video_sr from another folder, with its default model" video_sr_anywhere

if have cmake; then
    check "make install, then find_package" finds found "$at/installed"
    check "make install, then find_package of another version: refused" wrong_version
    check "cmake --install, then find_package" eval 'cmake_install && finds found_cmake "$at/cmake_installed"'
    [ "${CMAKE_TESTS:-yes}" = no ] || check "the tests, by CMake" cmake_tests
    check "add_subdirectory, parent without a build type" subdirectory child
    check "it is optimized" optimized child
    check "installed by that parent, then find_package" eval \
        'cmake --build "$at/child/build" --target install && finds found_child "$at/child_installed"'
    check "the same, parent with a build type" eval 'subdirectory debug -DCMAKE_BUILD_TYPE=Debug &&
        cmake --build "$at/debug/build" --target install &&
        finds found_debug "$at/debug_installed"'
else
    skip "CMake (not here)"
fi

check_end
