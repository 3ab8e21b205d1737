/* repeat.h: loops over small constants, written out by the preprocessor.
 *
 * Owns:      BS_EACH_n(M): M(0) ... M(n-1), and BS_UPTO_n(M, x): M(1, x) ... M(n, x), of which small ones (BS_SMALL)
 *            leave some out.
 * Relies on: nothing.
 * Must never: stay defined after a template: simd_end.h undefines all of it.
 *
 * Why not loops: accumulators must be separate variables to live in registers with every compiler and at -O2.
 */
#define BS_EACH_1(M) M(0)
#define BS_EACH_2(M) BS_EACH_1(M) M(1)
#define BS_EACH_3(M) BS_EACH_2(M) M(2)
#define BS_EACH_4(M) BS_EACH_3(M) M(3)
#define BS_EACH_5(M) BS_EACH_4(M) M(4)
#define BS_EACH_6(M) BS_EACH_5(M) M(5)
#define BS_EACH_7(M) BS_EACH_6(M) M(6)
#define BS_EACH_8(M) BS_EACH_7(M) M(7)
#define BS_EACH_9(M) BS_EACH_8(M) M(8)
#define BS_EACH_10(M) BS_EACH_9(M) M(9)
#define BS_EACH_11(M) BS_EACH_10(M) M(10)
#define BS_EACH_12(M) BS_EACH_11(M) M(11)
#define BS_EACH_13(M) BS_EACH_12(M) M(12)
#define BS_EACH_14(M) BS_EACH_13(M) M(13)

#ifdef BS_SMALL
#define BS_UPTO_4(M, x) M(1, x) M(4, x)
#define BS_UPTO_5(M, x) BS_UPTO_4(M, x) M(5, x)
#define BS_UPTO_6(M, x) BS_UPTO_4(M, x) M(6, x)
#define BS_UPTO_8(M, x) BS_UPTO_4(M, x) M(8, x)
#define BS_UPTO_12(M, x) BS_UPTO_8(M, x) M(12, x)
#define BS_UPTO_14(M, x) BS_UPTO_8(M, x) M(14, x)
#else
#define BS_UPTO_4(M, x) M(1, x) M(2, x) M(3, x) M(4, x)
#define BS_UPTO_5(M, x) BS_UPTO_4(M, x) M(5, x)
#define BS_UPTO_6(M, x) BS_UPTO_5(M, x) M(6, x)
#define BS_UPTO_8(M, x) BS_UPTO_6(M, x) M(7, x) M(8, x)
#define BS_UPTO_12(M, x) BS_UPTO_8(M, x) M(9, x) M(10, x) M(11, x) M(12, x)
#define BS_UPTO_14(M, x) BS_UPTO_12(M, x) M(13, x) M(14, x)
#endif
