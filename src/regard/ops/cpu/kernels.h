/* Prototypes of all kernels, declared here alone: the compiler checks every definition against them,
   and regard_prototypes() tells library.py how the kernels of this very binary are called. Kernels
   return nonzero if out of memory. */

#ifndef REGARD_KERNELS_H
#define REGARD_KERNELS_H

#include <stddef.h>
#include <stdint.h>

enum { VERSION = 5 }; /* of the meaning of the arguments, as in library.py */

/* Parameters of all attention kernels; what a kernel does not use is NULL. */
#define STRIDED_PARAMETER(x)                                                                       \
    float *x, size_t x##_batch_stride, size_t x##_head_stride, size_t x##_row_stride
#define ATTENTION_PARAMETERS                                                                       \
    STRIDED_PARAMETER(q), STRIDED_PARAMETER(k), STRIDED_PARAMETER(v), STRIDED_PARAMETER(out),      \
        STRIDED_PARAMETER(d_out), STRIDED_PARAMETER(d_q), STRIDED_PARAMETER(d_k),                  \
        STRIDED_PARAMETER(d_v), float *weight, float *d_weight, float *denominator,                \
        const int16_t *draws, size_t batch, size_t heads, size_t i, size_t j, size_t m, size_t d,  \
        size_t causal, ptrdiff_t keep_threshold, float scale, float keep_probability,              \
        size_t threads

#define KERNELS(KERNEL)                                                                            \
    KERNEL(int regard_pack(const float *weight, float *packed, size_t outputs, size_t inputs))     \
    KERNEL(int regard_packed_linear(const float *x, const float *packed, const float *bias,        \
                                    float *out, size_t rows, size_t inputs, size_t outputs,        \
                                    size_t activation, size_t threads))                            \
    KERNEL(int regard_decode_attention(const float *qkv, float *keys, float *values,               \
                                       const float *bias, float *out, size_t rows, size_t h,       \
                                       size_t g, size_t j, size_t capacity, size_t d, float scale, \
                                       size_t threads))                                            \
    KERNEL(int regard_linear_forward(const float *x, const float *weight, const float *bias,       \
                                     float *y, size_t n, size_t inputs, size_t outputs,            \
                                     size_t threads))                                              \
    KERNEL(int regard_linear_backward(const float *d_y, const float *x, const float *weight,       \
                                      float *d_x, float *d_weight, float *d_bias, size_t n,        \
                                      size_t inputs, size_t outputs, size_t threads))              \
    KERNEL(int regard_cross_entropy(const float *x, const float *log2_scaled,                      \
                                    const float *weights, const float *table,                      \
                                    float *denominators, float *d_x, float *d_table, size_t n,     \
                                    size_t v, size_t w, size_t chunk, size_t threads))             \
    KERNEL(int regard_dot_forward(ATTENTION_PARAMETERS))                                           \
    KERNEL(int regard_dot_backward(ATTENTION_PARAMETERS))                                          \
    KERNEL(int regard_additive_forward(ATTENTION_PARAMETERS))                                      \
    KERNEL(int regard_additive_backward(ATTENTION_PARAMETERS))

#define DECLARE(...) __VA_ARGS__;
KERNELS(DECLARE)

int regard_version(void);
int regard_lanes(void);      /* floats in a SIMD vector */
int regard_panel(void);      /* columns that are packed together */
int regard_block_rows(void); /* fewest rows of a linear layer */
const char *regard_prototypes(void);

#endif
