/* A vector of floats, as wide as the processor has them: with AVX2, or with AVX-512.

   Sums, differences, products and quotients of vectors are written as such. What C has no sign for
   stands here, once for each. Lanes are some of a vector's places: those that are there, or seen. */

#ifndef REGARD_VECTORS_H
#define REGARD_VECTORS_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#define LOG2_E 1.44269504088896341f
#define INLINE static inline __attribute__((always_inline))

#ifdef __AVX512F__

enum { LANES = 16, ROWS = 8 }; /* rows of a tile: as many as leave registers for the rest */
typedef __m512 Vector;
typedef __mmask16 Lanes;

INLINE Vector all(float x) { return _mm512_set1_ps(x); }
INLINE Vector load(const float *from) { return _mm512_loadu_ps(from); }
INLINE void store(float *to, Vector x) { _mm512_storeu_ps(to, x); }
INLINE Vector times_plus(Vector a, Vector b, Vector c) { return _mm512_fmadd_ps(a, b, c); }
/* The second where either is no number. */
INLINE Vector larger(Vector a, Vector b) { return _mm512_max_ps(a, b); }
INLINE Vector smaller(Vector a, Vector b) { return _mm512_min_ps(a, b); }
INLINE Vector nearest_whole(Vector x) {
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE Vector times_2_to(Vector x, Vector whole) { return _mm512_scalef_ps(x, whole); }

INLINE Lanes first_lanes_of(int n) { return (Lanes)((1u << n) - 1); }
INLINE Lanes lanes_unlike(Vector x, float y) { return _mm512_cmp_ps_mask(x, all(y), _CMP_NEQ_UQ); }
/* Where x is larger, or no number. */
INLINE Lanes lanes_above(Vector x, float y) { return _mm512_cmp_ps_mask(x, all(y), _CMP_NLE_UQ); }
INLINE Lanes lanes_from(const int16_t *numbers, int least) {
    __m512i wide = _mm512_cvtepi16_epi32(_mm256_loadu_si256((const __m256i *)numbers));
    return _mm512_cmpge_epi32_mask(wide, _mm512_set1_epi32(least));
}
INLINE Vector only(Lanes lanes, Vector x) { return _mm512_maskz_mov_ps(lanes, x); }
INLINE Vector only_or(Lanes lanes, Vector x, Vector other) {
    return _mm512_mask_mov_ps(other, lanes, x);
}
INLINE Vector load_only(Lanes lanes, const float *from) {
    return _mm512_maskz_loadu_ps(lanes, from);
}
INLINE void store_only(Lanes lanes, float *to, Vector x) { _mm512_mask_storeu_ps(to, lanes, x); }

INLINE __m256 both_halves(Vector x) {
    return _mm512_castps512_ps256(x) + _mm512_extractf32x8_ps(x, 1);
}

#else

enum { LANES = 8, ROWS = 4 };
typedef __m256 Vector;
typedef __m256 Lanes;

INLINE Vector all(float x) { return _mm256_set1_ps(x); }
INLINE Vector load(const float *from) { return _mm256_loadu_ps(from); }
INLINE void store(float *to, Vector x) { _mm256_storeu_ps(to, x); }
INLINE Vector times_plus(Vector a, Vector b, Vector c) { return _mm256_fmadd_ps(a, b, c); }
INLINE Vector larger(Vector a, Vector b) { return _mm256_max_ps(a, b); }
INLINE Vector smaller(Vector a, Vector b) { return _mm256_min_ps(a, b); }
INLINE Vector nearest_whole(Vector x) {
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
INLINE Vector times_2_to(Vector x, Vector whole) {
    __m256i power = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return x * _mm256_castsi256_ps(_mm256_slli_epi32(power, 23));
}

INLINE Lanes first_lanes_of(int n) {
    __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), number));
}
INLINE Lanes lanes_unlike(Vector x, float y) { return _mm256_cmp_ps(x, all(y), _CMP_NEQ_UQ); }
INLINE Lanes lanes_above(Vector x, float y) { return _mm256_cmp_ps(x, all(y), _CMP_NLE_UQ); }
INLINE Lanes lanes_from(const int16_t *numbers, int least) {
    __m256i wide = _mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)numbers));
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(wide, _mm256_set1_epi32(least - 1)));
}
INLINE Vector only(Lanes lanes, Vector x) { return _mm256_and_ps(x, lanes); }
INLINE Vector only_or(Lanes lanes, Vector x, Vector other) {
    return _mm256_blendv_ps(other, x, lanes);
}
INLINE Vector load_only(Lanes lanes, const float *from) {
    return _mm256_maskload_ps(from, _mm256_castps_si256(lanes));
}
INLINE void store_only(Lanes lanes, float *to, Vector x) {
    _mm256_maskstore_ps(to, _mm256_castps_si256(lanes), x);
}

INLINE __m256 both_halves(Vector x) { return x; }

#endif

/* n may be negative or too many. */
INLINE Lanes first_lanes(ptrdiff_t n) {
    return first_lanes_of(n < 0 ? 0 : n > LANES ? LANES : (int)n);
}

INLINE float sum_of(Vector x) {
    __m256 eight = both_halves(x);
    __m128 half = _mm256_castps256_ps128(eight) + _mm256_extractf128_ps(eight, 1);
    half = half + _mm_movehl_ps(half, half);
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

INLINE __m256 sums_of_eight(const Vector x[8]) {
    __m256 pairs[4], fours[2];
    for (int n = 0; n < 4; n++)
        pairs[n] = _mm256_hadd_ps(both_halves(x[2 * n]), both_halves(x[2 * n + 1]));
    for (int n = 0; n < 2; n++) fours[n] = _mm256_hadd_ps(pairs[2 * n], pairs[2 * n + 1]);
    return _mm256_permute2f128_ps(fours[0], fours[1], 0x20) +
           _mm256_permute2f128_ps(fours[0], fours[1], 0x31);
}

/* The sums of as many vectors as there are lanes, as one. */
INLINE Vector sums_of_each(const Vector x[LANES]) {
#ifdef __AVX512F__
    Vector low = _mm512_castps256_ps512(sums_of_eight(x));
    return _mm512_insertf32x8(low, sums_of_eight(x + 8), 1);
#else
    return sums_of_eight(x);
#endif
}

/* 2^x to about a unit in the last place (7.7e-8). Beyond what a float can hold it stays at the
   ends, where whoever sums sees it; what is no number stays none. (Coefficients: Cephes, exp2f.) */
INLINE Vector power_of_2(Vector x) {
    x = smaller(all(127.0f), larger(all(-126.0f), x));
    Vector whole = nearest_whole(x), rest = x - whole, p = all(1.535336188319500e-4f);
    p = times_plus(p, rest, all(1.339887440266574e-3f));
    p = times_plus(p, rest, all(9.618437357674640e-3f));
    p = times_plus(p, rest, all(5.550332471162809e-2f));
    p = times_plus(p, rest, all(2.402264791363012e-1f));
    p = times_plus(p, rest, all(6.931472028550421e-1f));
    return times_2_to(times_plus(p, rest, all(1.0f)), whole);
}

#endif
