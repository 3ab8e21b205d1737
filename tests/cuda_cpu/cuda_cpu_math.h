/* cuda_cpu_math.h - device arithmetic that host headers lack: bits, conversions, cached loads, fast functions, halves.
 * Names that the C library may declare itself are macros. Exact where the device is exact; fast functions are the
 * accurate ones, so results agree within tolerances, not in every bit. Must never be included before math.h. */
#ifndef CUDA_CPU_MATH_H
#define CUDA_CPU_MATH_H

extern "C" long long cuda_cpu_clock(void);
#define clock64()      cuda_cpu_clock()
#define __nanosleep(n) ((void)(n))

template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldca(const T *p) { return *p; }
template <class T> static inline T __ldlu(const T *p) { return *p; }
template <class T> static inline T __ldcv(const T *p) { return *p; }
template <class T> static inline void __stcs(T *p, typename cuda_cpu_as<T>::type v) { *p = v; }
template <class T> static inline void __stcg(T *p, typename cuda_cpu_as<T>::type v) { *p = v; }
template <class T> static inline void __stwb(T *p, typename cuda_cpu_as<T>::type v) { *p = v; }
template <class T> static inline void __stwt(T *p, typename cuda_cpu_as<T>::type v) { *p = v; }

template <class To, class From> static inline To cuda_cpu_bits(From from)
{
    static_assert(sizeof(To) == sizeof(From), "bit casts keep their size");
    To to;
    memcpy(&to, &from, sizeof to);
    return to;
}
static inline float __int_as_float(int v) { return cuda_cpu_bits<float>(v); }
static inline int __float_as_int(float v) { return cuda_cpu_bits<int>(v); }
static inline float __uint_as_float(unsigned v) { return cuda_cpu_bits<float>(v); }
static inline unsigned __float_as_uint(float v) { return cuda_cpu_bits<unsigned>(v); }
static inline double __longlong_as_double(long long v) { return cuda_cpu_bits<double>(v); }
static inline long long __double_as_longlong(double v) { return cuda_cpu_bits<long long>(v); }

static inline int __popc(unsigned v) { return __builtin_popcount(v); }
static inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
static inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
static inline int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
static inline int __ffs(int v) { return __builtin_ffs(v); }
static inline int __ffsll(long long v) { return __builtin_ffsll(v); }
static inline unsigned __brev(unsigned v)
{
    unsigned r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1u) << (31 - i);
    return r;
}
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector)
{
    const uint64_t both = static_cast<uint64_t>(b) << 32 | a;
    unsigned r = 0;
    for (int i = 0; i < 4; i++) {
        const unsigned one = selector >> 4 * i, byte = static_cast<unsigned>(both >> 8 * (one & 7u)) & 0xffu;
        r |= (one & 8u ? (byte & 0x80u ? 0xffu : 0u) : byte) << 8 * i;
    }
    return r;
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift)
{
    return static_cast<unsigned>(((static_cast<uint64_t>(high) << 32 | low) << (shift & 31u)) >> 32);
}
static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift)
{
    return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (shift & 31u));
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
static inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    __extension__ typedef unsigned __int128 wide;
    return static_cast<unsigned long long>(static_cast<wide>(a) * b >> 64);
}
static inline int __dp4a(int a, int b, int c)
{
    for (int i = 0; i < 4; i++)
        c += static_cast<int8_t>(a >> 8 * i) * static_cast<int8_t>(b >> 8 * i);
    return c;
}

#define __expf(x)    expf(x)
#define __exp10f(x)  exp10f(x)
#define __logf(x)    logf(x)
#define __log2f(x)   log2f(x)
#define __log10f(x)  log10f(x)
#define __sinf(x)    sinf(x)
#define __cosf(x)    cosf(x)
#define __tanf(x)    tanf(x)
#define __powf(x, y) powf(x, y)
#define __tanhf(x)   tanhf(x)
#define rsqrtf(x)    cuda_cpu_rsqrtf(x)
#define rsqrt(x)     cuda_cpu_rsqrt(x)
static inline float cuda_cpu_rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double cuda_cpu_rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float __frsqrt_rn(float x) { return 1.0f / sqrtf(x); }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

/* Kept apart from a neighbouring operation, as on the device: no contraction. */
static inline float __fmul_rn(float a, float b) { volatile float r = a * b; return r; }
static inline float __fadd_rn(float a, float b) { volatile float r = a + b; return r; }
static inline float __fsub_rn(float a, float b) { volatile float r = a - b; return r; }

/* Conversions saturate, and NaN becomes 0. */
template <class To> static inline To cuda_cpu_clamp(float x)
{
    if (!(x == x))
        return 0;
    const double low = sizeof(To) == 4 ? (std::is_signed<To>::value ? -2147483648.0 : 0.0) : -9223372036854775808.0;
    const double high = sizeof(To) == 4 ? (std::is_signed<To>::value ? 2147483647.0 : 4294967295.0)
                                        : 9223372036854775807.0;
    if (static_cast<double>(x) <= low)
        return static_cast<To>(low);
    if (static_cast<double>(x) >= high)
        return std::is_signed<To>::value ? static_cast<To>(~(static_cast<To>(1) << (8 * sizeof(To) - 1)))
                                         : static_cast<To>(~static_cast<To>(0));
    return static_cast<To>(x);
}
static inline int __float2int_rn(float x) { return cuda_cpu_clamp<int>(rintf(x)); }
static inline int __float2int_rz(float x) { return cuda_cpu_clamp<int>(truncf(x)); }
static inline int __float2int_rd(float x) { return cuda_cpu_clamp<int>(floorf(x)); }
static inline int __float2int_ru(float x) { return cuda_cpu_clamp<int>(ceilf(x)); }
static inline unsigned __float2uint_rn(float x) { return cuda_cpu_clamp<unsigned>(rintf(x)); }
static inline unsigned __float2uint_rz(float x) { return cuda_cpu_clamp<unsigned>(truncf(x)); }
static inline unsigned __float2uint_rd(float x) { return cuda_cpu_clamp<unsigned>(floorf(x)); }
static inline unsigned __float2uint_ru(float x) { return cuda_cpu_clamp<unsigned>(ceilf(x)); }
static inline long long __float2ll_rn(float x) { return cuda_cpu_clamp<long long>(rintf(x)); }
static inline float __int2float_rn(int x) { return static_cast<float>(x); }
static inline float __uint2float_rn(unsigned x) { return static_cast<float>(x); }
static inline float __ll2float_rn(long long x) { return static_cast<float>(x); }

#define CUDA_CPU_LESSER_GREATER(type, a, b)                                                                            \
    static inline type min(a x, b y)                                                                                   \
    {                                                                                                                  \
        const type p = static_cast<type>(x), q = static_cast<type>(y);                                                 \
        return q < p ? q : p;                                                                                          \
    }                                                                                                                  \
    static inline type max(a x, b y)                                                                                   \
    {                                                                                                                  \
        const type p = static_cast<type>(x), q = static_cast<type>(y);                                                 \
        return p < q ? q : p;                                                                                          \
    }
CUDA_CPU_LESSER_GREATER(int, int, int)
CUDA_CPU_LESSER_GREATER(unsigned, unsigned, unsigned)
CUDA_CPU_LESSER_GREATER(unsigned, int, unsigned)
CUDA_CPU_LESSER_GREATER(unsigned, unsigned, int)
CUDA_CPU_LESSER_GREATER(long, long, long)
CUDA_CPU_LESSER_GREATER(unsigned long, unsigned long, unsigned long)
CUDA_CPU_LESSER_GREATER(unsigned long, long, unsigned long)
CUDA_CPU_LESSER_GREATER(unsigned long, unsigned long, long)
CUDA_CPU_LESSER_GREATER(long long, long long, long long)
CUDA_CPU_LESSER_GREATER(unsigned long long, unsigned long long, unsigned long long)
CUDA_CPU_LESSER_GREATER(unsigned long long, long long, unsigned long long)
CUDA_CPU_LESSER_GREATER(unsigned long long, unsigned long long, long long)
#undef CUDA_CPU_LESSER_GREATER
/* A NaN gives way to a number, as on the device. */
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(float a, double b) { return fmin(static_cast<double>(a), b); }
static inline double max(float a, double b) { return fmax(static_cast<double>(a), b); }
static inline double min(double a, float b) { return fmin(a, static_cast<double>(b)); }
static inline double max(double a, float b) { return fmax(a, static_cast<double>(b)); }

/* Halves and bfloat16: what the toolkit offers to devices only, by way of float. A product of two halves is exact in
 * float and in double, so the sum rounds once here too. */
static inline __half __hfma(__half a, __half b, __half c)
{
    return __double2half(static_cast<double>(__half2float(a)) * static_cast<double>(__half2float(b)) +
                         static_cast<double>(__half2float(c)));
}
static inline __half2 __hfma2(__half2 a, __half2 b, __half2 c)
{
    return __halves2half2(__hfma(__low2half(a), __low2half(b), __low2half(c)),
                          __hfma(__high2half(a), __high2half(b), __high2half(c)));
}
static inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c)
{
    return __double2bfloat16(static_cast<double>(__bfloat162float(a)) * static_cast<double>(__bfloat162float(b)) +
                             static_cast<double>(__bfloat162float(c)));
}
static inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c)
{
    return __halves2bfloat162(__hfma(__low2bfloat16(a), __low2bfloat16(b), __low2bfloat16(c)),
                              __hfma(__high2bfloat16(a), __high2bfloat16(b), __high2bfloat16(c)));
}
#define CUDA_CPU_HALF_FUNCTION(name, name2, function)                                                                  \
    static inline __half name(__half x) { return __float2half_rn(function(__half2float(x))); }                         \
    static inline __half2 name2(__half2 x) { return __halves2half2(name(__low2half(x)), name(__high2half(x))); }
CUDA_CPU_HALF_FUNCTION(hexp, h2exp, expf)
CUDA_CPU_HALF_FUNCTION(hexp2, h2exp2, exp2f)
CUDA_CPU_HALF_FUNCTION(hlog, h2log, logf)
CUDA_CPU_HALF_FUNCTION(hsqrt, h2sqrt, sqrtf)
CUDA_CPU_HALF_FUNCTION(hrsqrt, h2rsqrt, cuda_cpu_rsqrtf)
CUDA_CPU_HALF_FUNCTION(hrcp, h2rcp, 1.0f /)
CUDA_CPU_HALF_FUNCTION(htanh, h2tanh, tanhf)
CUDA_CPU_HALF_FUNCTION(hfloor, h2floor, floorf)
CUDA_CPU_HALF_FUNCTION(hceil, h2ceil, ceilf)
#undef CUDA_CPU_HALF_FUNCTION

#endif
