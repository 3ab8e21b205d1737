/* elementwise_end.h: takes back the macros of one instance of elementwise.inc. */
#undef BS_TIER_FN
#undef BS_TARGET
#undef BS_VERTICAL_DEFINE
#undef BS_BICUBIC_DEFINE
