/* What all kernels are made of: tiles of a product that stay in registers, and powers of 2.

   A tile is ROWS rows of up to WIDE vectors of LANES floats. Products of several rows have one form,

       tile[r][c] += Σ_k left[r][k] · right[k][c]

   where left is read number by number and right vector by vector; what differs is how far apart
   the numbers lie. Right sides are packed into panels, so that they are read as they lie: of PANEL
   columns where they are scored, of `columns_at` where something is mixed. */

#ifndef REGARD_TILES_H
#define REGARD_TILES_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 4, LANES = 8, WIDE = 3, PANEL = LANES * WIDE };
enum { VERSION = 1 }; /* of how kernels are called, as in library.py */

#define LOG2_E 1.44269504088896341f

typedef __m256 Tile[ROWS][WIDE];

#define INLINE static inline __attribute__((always_inline))
#define EACH_ROW(r) _Pragma("GCC unroll 4") for (int r = 0; r < ROWS; r++)
#define EACH_VECTOR(c, vectors) _Pragma("GCC unroll 3") for (int c = 0; c < (vectors); c++)

INLINE size_t least(size_t a, size_t b) { return a < b ? a : b; }
INLINE size_t rounded_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

/* How many of the remaining columns go together: 24, 16 or 8, and of 32 twice 16, because eight sums
   at least have to be under way at once. */
INLINE size_t columns_at(size_t remaining) {
    if (remaining >= PANEL && remaining != 4 * LANES) return PANEL;
    return remaining >= 2 * LANES ? 2 * LANES : LANES;
}

/* Calls with the number of vectors as a constant, so that tiles are taken apart into registers. */
#define BY_VECTORS(columns, call)                                                                  \
    do {                                                                                           \
        if ((columns) == PANEL) {                                                                  \
            enum { vectors = 3 };                                                                  \
            call;                                                                                  \
        } else if ((columns) == 2 * LANES) {                                                       \
            enum { vectors = 2 };                                                                  \
            call;                                                                                  \
        } else {                                                                                   \
            enum { vectors = 1 };                                                                  \
            call;                                                                                  \
        }                                                                                          \
    } while (0)

INLINE void clear(Tile t) {
    EACH_ROW(r)
        EACH_VECTOR(c, WIDE) t[r][c] = _mm256_setzero_ps();
}

INLINE void add_products(Tile t, int vectors, size_t count, const float *left, size_t left_row,
                         size_t left_step, const float *right, size_t right_step) {
    __m256 sums[ROWS][WIDE]; /* a copy of its own, or every step would be written to memory */
    EACH_ROW(r)
        EACH_VECTOR(c, vectors) sums[r][c] = t[r][c];
    for (size_t k = 0; k < count; k++, left += left_step, right += right_step) {
        __m256 row[WIDE];
        EACH_VECTOR(c, vectors) row[c] = _mm256_loadu_ps(right + LANES * c);
        EACH_ROW(r) {
            __m256 number = _mm256_broadcast_ss(left + r * left_row);
            EACH_VECTOR(c, vectors) sums[r][c] = _mm256_fmadd_ps(number, row[c], sums[r][c]);
        }
    }
    EACH_ROW(r)
        EACH_VECTOR(c, vectors) t[r][c] = sums[r][c];
}

INLINE void put(float *out, size_t out_row, int vectors, Tile t) {
    EACH_ROW(r)
        EACH_VECTOR(c, vectors) _mm256_storeu_ps(out + r * out_row + LANES * c, t[r][c]);
}

INLINE void add_to(float *out, size_t out_row, int vectors, Tile t) {
    EACH_ROW(r)
        EACH_VECTOR(c, vectors) {
            float *at = out + r * out_row + LANES * c;
            _mm256_storeu_ps(at, _mm256_add_ps(_mm256_loadu_ps(at), t[r][c]));
        }
}

/* 2^x to about a unit in the last place (7.7e-8). Beyond what a float can hold it stays at the
   ends, where whoever sums sees it; what is no number stays none. (Coefficients: Cephes, exp2f.) */
INLINE __m256 power_of_2(__m256 x) {
    x = _mm256_max_ps(_mm256_set1_ps(-126.0f), x);
    x = _mm256_min_ps(_mm256_set1_ps(127.0f), x);
    __m256 whole = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 rest = _mm256_sub_ps(x, whole), p = _mm256_set1_ps(1.535336188319500e-4f);
    p = _mm256_fmadd_ps(p, rest, _mm256_set1_ps(1.339887440266574e-3f));
    p = _mm256_fmadd_ps(p, rest, _mm256_set1_ps(9.618437357674640e-3f));
    p = _mm256_fmadd_ps(p, rest, _mm256_set1_ps(5.550332471162809e-2f));
    p = _mm256_fmadd_ps(p, rest, _mm256_set1_ps(2.402264791363012e-1f));
    p = _mm256_fmadd_ps(p, rest, _mm256_set1_ps(6.931472028550421e-1f));
    p = _mm256_fmadd_ps(p, rest, _mm256_set1_ps(1.0f));
    __m256i scale = _mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127));
    return _mm256_mul_ps(p, _mm256_castsi256_ps(_mm256_slli_epi32(scale, 23)));
}

INLINE float sum_of(__m256 x) {
    __m128 half = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_add_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}

/* All bits of the first n lanes; n may be negative or too many. */
INLINE __m256 first_lanes(ptrdiff_t n) {
    int bounded = n < 0 ? 0 : n > LANES ? LANES : (int)n;
    __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(bounded), number));
}

/* PANEL rows of w numbers, `real` of them there, as w rows of PANEL: the others are zeros. */
INLINE void pack_panel(float *panel, const float *rows, size_t row, size_t real, size_t w) {
    for (size_t k = 0; k < w; k++)
        for (size_t j = 0; j < PANEL; j++)
            panel[k * PANEL + j] = j < real ? rows[j * row + k] : 0.0f;
}

INLINE float *room(size_t floats) {
    return aligned_alloc(64, rounded_up(floats * sizeof(float), 64));
}

#endif
