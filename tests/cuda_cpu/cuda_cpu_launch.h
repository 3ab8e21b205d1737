/* cuda_cpu_launch.h - launching a kernel: a typed copy of its arguments, handed to the stream. Relies on grid.cpp.
 * Must never leave the last reference to the copy with the host: the stream frees it. */
#ifndef CUDA_CPU_LAUNCH_H
#define CUDA_CPU_LAUNCH_H

struct cuda_cpu_kernel {
    void (*call)(const void *closure);
    void (*drop)(void *closure);
    void *closure;
    const void *function;
    const char *text; /* the launch as written: the kernel's name, a comma, the rest */
    const char *file;
    int line;
};

extern "C" void cuda_cpu_launch(const struct cuda_cpu_kernel *kernel, dim3 grid, dim3 block, size_t shared_bytes,
                                cudaStream_t stream);

template <class... Parameters> struct cuda_cpu_closure {
    void (*kernel)(Parameters...);
    std::tuple<Parameters...> arguments;

    template <size_t... index> void apply(std::index_sequence<index...>) const
    {
        kernel(std::get<index>(arguments)...);
    }
    static void call(const void *closure)
    {
        static_cast<const cuda_cpu_closure *>(closure)->apply(std::index_sequence_for<Parameters...>());
    }
    static void drop(void *closure) { delete static_cast<cuda_cpu_closure *>(closure); }
};

template <class... Parameters, class... Arguments>
static inline void cuda_cpu_launch_typed(const char *text, const char *file, int line, void (*kernel)(Parameters...),
                                         dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
                                         Arguments &&...arguments)
{
    typedef cuda_cpu_closure<Parameters...> closure;
    static_assert(sizeof...(Parameters) == sizeof...(Arguments), "the kernel takes another number of arguments");
    const cuda_cpu_kernel what = {
        closure::call,
        closure::drop,
        new closure{kernel, std::tuple<Parameters...>(static_cast<Parameters>(arguments)...)},
        reinterpret_cast<const void *>(kernel),
        text,
        file,
        line};
    cuda_cpu_launch(&what, grid, block, shared_bytes, stream);
}

/* The toolkit offers these typed forms to device compilers only. */
template <class... Parameters>
static inline cudaError_t cudaFuncSetAttribute(void (*kernel)(Parameters...), cudaFuncAttribute attribute, int value)
{
    return ::cudaFuncSetAttribute(reinterpret_cast<const void *>(kernel), attribute, value);
}
template <class... Parameters>
static inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, void (*kernel)(Parameters...))
{
    return ::cudaFuncGetAttributes(attributes, reinterpret_cast<const void *>(kernel));
}

/* BS_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...): no value, as <<<>>> has none. */
#define BS_LAUNCH(...) cuda_cpu_launch_typed(#__VA_ARGS__, __FILE__, __LINE__, __VA_ARGS__)

#endif
