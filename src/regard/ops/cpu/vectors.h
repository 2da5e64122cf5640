/* SIMD vectors of floats: AVX-512 where it is enabled, else AVX2.

   Vectors are added, subtracted, multiplied and divided by C's operators (GCC vector extensions);
   everything else is wrapped here, once for each instruction set. A LaneMask selects lanes. */

#ifndef REGARD_VECTORS_H
#define REGARD_VECTORS_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LOG2_E 1.44269504088896341f
#define INLINE static inline __attribute__((always_inline))

#ifdef __AVX512F__

enum { LANES = 16, TILE_ROWS = 8 }; /* rows of a register tile: leaves registers for operands */
typedef __m512 Vector;
typedef __mmask16 LaneMask;

INLINE Vector broadcast(float x) { return _mm512_set1_ps(x); }
INLINE Vector load(const float *from) { return _mm512_loadu_ps(from); }
INLINE void store(float *to, Vector x) { _mm512_storeu_ps(to, x); }
INLINE Vector fmadd(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
/* Both return the second operand where either is NaN. */
INLINE Vector vmax(Vector a, Vector b) { return _mm512_max_ps(a, b); }
INLINE Vector vmin(Vector a, Vector b) { return _mm512_min_ps(a, b); }
INLINE Vector round_nearest(Vector x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/* x · 2^n, n integral */
INLINE Vector scale_by_exp2(Vector x, Vector n) { return _mm512_scalef_ps(x, n); }

/* 0 ≤ n ≤ LANES */
INLINE LaneMask mask_first(int n) { return (LaneMask)((1u << n) - 1); }
INLINE LaneMask mask_not_equal(Vector x, float y) {
    return _mm512_cmp_ps_mask(x, broadcast(y), _CMP_NEQ_UQ);
}
/* x > y, or NaN */
INLINE LaneMask mask_greater(Vector x, float y) {
    return _mm512_cmp_ps_mask(x, broadcast(y), _CMP_NLE_UQ);
}
INLINE LaneMask mask_at_least(const int16_t *values, int threshold) {
    __m512i wide = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)values));
    return _mm512_cmpge_epi32_mask(wide, _mm512_set1_epi32(threshold));
}
INLINE Vector blend_zero(LaneMask mask, Vector x) { return _mm512_maskz_mov_ps(mask, x); }
INLINE Vector blend(LaneMask mask, Vector x, Vector other) {
    return _mm512_mask_mov_ps(other, mask, x);
}
INLINE Vector load_masked(LaneMask mask, const float *from) {
    return _mm512_maskz_loadu_ps(mask, from);
}
INLINE void store_masked(LaneMask mask, float *to, Vector x) { _mm512_mask_storeu_ps(to, mask, x); }

INLINE __m256 fold_to_256(Vector x) {
    return _mm512_castps512_ps256(x) + _mm512_extractf32x8_ps(x, 1);
}

#else

enum { LANES = 8, TILE_ROWS = 4 };
typedef __m256 Vector;
typedef __m256 LaneMask;

INLINE Vector broadcast(float x) { return _mm256_set1_ps(x); }
INLINE Vector load(const float *from) { return _mm256_loadu_ps(from); }
INLINE void store(float *to, Vector x) { _mm256_storeu_ps(to, x); }
INLINE Vector fmadd(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
INLINE Vector vmax(Vector a, Vector b) { return _mm256_max_ps(a, b); }
INLINE Vector vmin(Vector a, Vector b) { return _mm256_min_ps(a, b); }
INLINE Vector round_nearest(Vector x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE Vector scale_by_exp2(Vector x, Vector n) {
    __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
    return x * _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
}

INLINE LaneMask mask_first(int n) {
    __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}
INLINE LaneMask mask_not_equal(Vector x, float y) {
    return _mm256_cmp_ps(x, broadcast(y), _CMP_NEQ_UQ);
}
INLINE LaneMask mask_greater(Vector x, float y) {
    return _mm256_cmp_ps(x, broadcast(y), _CMP_NLE_UQ);
}
INLINE LaneMask mask_at_least(const int16_t *values, int threshold) {
    __m256i wide = _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)values));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_set1_epi32(threshold - 1)));
}
INLINE Vector blend_zero(LaneMask mask, Vector x) { return _mm256_and_ps(x, mask); }
INLINE Vector blend(LaneMask mask, Vector x, Vector other) {
    return _mm256_blendv_ps(other, x, mask);
}
INLINE Vector load_masked(LaneMask mask, const float *from) {
    return _mm256_maskload_ps(from, _mm256_castps_si256(mask));
}
INLINE void store_masked(LaneMask mask, float *to, Vector x) {
    _mm256_maskstore_ps(to, _mm256_castps_si256(mask), x);
}

INLINE __m256 fold_to_256(Vector x) { return x; }

#endif

/* mask_first for any n: clamped to [0, LANES]. */
INLINE LaneMask mask_first_clamped(ptrdiff_t n) {
    return mask_first(n < 0 ? 0 : n > LANES ? LANES : (int)n);
}

INLINE float reduce_add(Vector x) {
    __m256 eight = fold_to_256(x);
    __m128 half = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
    half = half + _mm_movehl_ps(half, half);
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

INLINE __m256 reduce_add_8(const Vector x[8]) {
    __m256 pairs[4], fours[2];
    for (int n = 0; n < 4; n++)
        pairs[n] = _mm256_hadd_ps(fold_to_256(x[2 * n]), fold_to_256(x[2 * n + 1]));
    for (int n = 0; n < 2; n++) fours[n] = _mm256_hadd_ps(pairs[2 * n], pairs[2 * n + 1]);
    return _mm256_permute2f128_ps(fours[0], fours[1], 0x20) +
           _mm256_permute2f128_ps(fours[0], fours[1], 0x31);
}

/* Lane n of the result is the sum of x[n]. */
INLINE Vector reduce_add_each(const Vector x[LANES]) {
#ifdef __AVX512F__
    Vector low = _mm512_castps256_ps512(reduce_add_8(x));
    return _mm512_insertf32x8(low, reduce_add_8(x + 8), 1);
#else
    return reduce_add_8(x);
#endif
}

/* 2^x to about one ulp (7.7e-8). x is clamped to [−126, 127], so over- and underflow show up in the
   caller's sums; NaN stays NaN. (Coefficients: Cephes, exp2f.) */
INLINE Vector vexp2(Vector x) {
    x = vmin(broadcast(127.0f), vmax(broadcast(-126.0f), x));
    Vector whole = round_nearest(x), rest = x - whole, p = broadcast(1.535336188319500e-4f);
    p = fmadd(p, rest, broadcast(1.339887440266574e-3f));
    p = fmadd(p, rest, broadcast(9.618437357674640e-3f));
    p = fmadd(p, rest, broadcast(5.550332471162809e-2f));
    p = fmadd(p, rest, broadcast(2.402264791363012e-1f));
    p = fmadd(p, rest, broadcast(6.931472028550421e-1f));
    return scale_by_exp2(fmadd(p, rest, broadcast(1.0f)), whole);
}

#endif
