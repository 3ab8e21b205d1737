/* module.cpp - the module brainstorm._native: errors become brainstorm.Error, memory is taken, and what the library
 * says of itself.
 *
 * Relies on objects.hpp; brainstorm/error.py has the exception. Must never let a C++ exception of its own pass as
 * anything else. */
#include "objects.hpp"

#include <cstring>

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

namespace brainstorm {

failure::failure(bs_status status, const std::string &message) : error{}
{
    error.status = status;
    std::snprintf(error.message, sizeof error.message, "%s", message.c_str());
}

void throw_unless(bool ok, const bs_error &error)
{
    if (ok)
        return;
    bs_error told = error;
    if (told.status == BS_OK) /* a call that gives no error: more than a size_t holds, or its object has failed */
        told.status = BS_ERROR_LIMIT;
    if (!told.message[0])
        std::snprintf(told.message, sizeof told.message, "%s", bs_status_text(told.status));
    throw failure(told);
}

memory::memory(const char *name, uint64_t bytes) : arena{}, bytes(bytes)
{
    /* Without a byte of memory an arena is still one. */
    const uint64_t all = (bytes / BS_ALIGNMENT + 1) * BS_ALIGNMENT;
    if (all > SIZE_MAX - BS_ALIGNMENT || posix_memalign(&data, BS_ALIGNMENT, static_cast<size_t>(all)) != 0) {
        bs_error error{};
        error.status = BS_ERROR_ARENA;
        error.arena = name;
        error.needed = bytes;
        std::snprintf(error.message, sizeof error.message, "arena \"%s\": there are no %llu bytes of memory", name,
                      static_cast<unsigned long long>(bytes));
        throw failure(error);
    }
    bs_arena_init(&arena, name, data, static_cast<size_t>(all));
}

/* Raises brainstorm.Error. */
static void raise(const bs_error &error)
{
    const auto number = [&](uint64_t n) { return error.status == BS_ERROR_ARENA ? nb::cast(n) : nb::none(); };
    nb::object kind = nb::module_::import_("brainstorm.error").attr("Error");
    nb::object raised = kind(nb::str(error.message), nb::str(bs_status_name(error.status)),
                             error.arena ? nb::object(nb::str(error.arena)) : nb::none(), number(error.needed),
                             number(error.available));
    PyErr_SetObject(kind.ptr(), raised.ptr());
}

static std::vector<std::string> tiers_here()
{
    std::vector<std::string> names;
    for (int32_t tier = BS_TIER_SCALAR; tier <= BS_TIER_CUDA; tier++)
        if (bs_tier_available(static_cast<bs_tier>(tier)))
            names.push_back(bs_tier_name(static_cast<bs_tier>(tier)));
    return names;
}

} // namespace brainstorm

NB_MODULE(_native, m)
{
    using namespace brainstorm;
    m.doc() = "The C library, called: brainstorm/running.py is the way to use it.";
    nb::register_exception_translator([](const std::exception_ptr &thrown, void *) {
        try {
            std::rethrow_exception(thrown);
        } catch (const failure &f) {
            raise(f.error);
        }
    });
    nb::set_leak_warnings(false); /* sessions that a program leaves open at its end */
    m.attr("optimization") = BRAINSTORM_OPTIMIZE; /* how the library was compiled: tests want a quick build */
    m.def("version", &bs_version, "BS_VERSION of the library.");
    m.def("tiers", &tiers_here, "What can compute on this processor.");
    m.def("best_tier", [] { return std::string(bs_tier_name(bs_tier_best())); });
    define_models(m);
    define_plans(m);
    define_sessions(m);
}
