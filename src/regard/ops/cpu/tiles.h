/* Register tiles: the building blocks of all kernels.

   A tile is TILE_ROWS rows of up to TILE_VECTORS vectors of LANES floats. Every product of several
   rows has one form,

       tile[r][c] += Σ_k left[r][k] · right[k][c]

   where left is read by broadcasting single values and right by vector loads; products differ in
   strides alone. Right operands are packed so that they are read contiguously: into zero-padded
   panels of PANEL columns, or into groups of `group_columns` columns, which need no padding. */

#ifndef REGARD_TILES_H
#define REGARD_TILES_H

#include <stdlib.h>
#include <string.h>

#include "kernels.h"
#include "vectors.h"

enum { TILE_VECTORS = 3, PANEL = LANES * TILE_VECTORS };

typedef Vector Tile[TILE_ROWS][TILE_VECTORS];

#define FOR_ROWS(r, rows) _Pragma("GCC unroll 8") for (int r = 0; r < (rows); r++)
#define FOR_TILE_ROWS(r) FOR_ROWS(r, TILE_ROWS)
#define FOR_VECTORS(c, vectors) _Pragma("GCC unroll 3") for (int c = 0; c < (vectors); c++)

INLINE size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
INLINE size_t round_up(size_t n, size_t multiple) {
    return (n + multiple - 1) / multiple * multiple;
}

typedef struct {
    size_t begin, end;
} Range;

/* A thread's contiguous slice of `count` items. */
INLINE Range thread_range(size_t count, size_t thread, size_t threads) {
    return (Range){count * thread / threads, count * (thread + 1) / threads};
}

/* Columns of the next group: three vectors, two or one. Four are split into two and two: at least
   eight accumulators have to be in flight. */
INLINE size_t group_columns(size_t remaining) {
    if (remaining >= PANEL && remaining != 4 * LANES) return PANEL;
    return remaining >= 2 * LANES ? 2 * LANES : LANES;
}

/* Column groups of a width: g is a group's first column, columns its size. */
#define FOR_COLUMN_GROUPS(g, columns, width)                                                       \
    for (size_t g = 0, columns; g < (width) && (columns = group_columns((width) - g)); g += columns)

/* Makes the number of vectors a compile-time constant, so that tiles live in registers. */
#define DISPATCH_VECTORS(columns, call)                                                            \
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

INLINE void tile_zero(Tile t) {
    FOR_TILE_ROWS(r)
        FOR_VECTORS(c, TILE_VECTORS) t[r][c] = broadcast(0.0f);
}

/* tile_matmul for the first `rows` rows of a tile, a compile-time constant. */
INLINE void tile_matmul_rows(int rows, Tile t, int vectors, size_t depth, const float *left,
                             size_t left_row_stride, size_t left_k_stride, const float *right,
                             size_t right_k_stride) {
    Tile sums; /* a local copy: otherwise each step would write t to memory */
    FOR_ROWS(r, rows)
        FOR_VECTORS(c, vectors) sums[r][c] = t[r][c];
    for (size_t k = 0; k < depth; k++, left += left_k_stride, right += right_k_stride) {
        Vector right_row[TILE_VECTORS];
        FOR_VECTORS(c, vectors) right_row[c] = load(right + LANES * c);
        FOR_ROWS(r, rows) {
            Vector value = broadcast(left[r * left_row_stride]);
            FOR_VECTORS(c, vectors) sums[r][c] = fmadd(value, right_row[c], sums[r][c]);
        }
    }
    FOR_ROWS(r, rows)
        FOR_VECTORS(c, vectors) t[r][c] = sums[r][c];
}

/* t += left · right over `depth` inner indices k */
INLINE void tile_matmul(Tile t, int vectors, size_t depth, const float *left,
                        size_t left_row_stride, size_t left_k_stride, const float *right,
                        size_t right_k_stride) {
    tile_matmul_rows(TILE_ROWS, t, vectors, depth, left, left_row_stride, left_k_stride, right,
                     right_k_stride);
}

INLINE void tile_store(float *out, size_t out_stride, int vectors, Tile t) {
    FOR_TILE_ROWS(r)
        FOR_VECTORS(c, vectors) store(out + r * out_stride + LANES * c, t[r][c]);
}

INLINE void tile_accumulate(float *out, size_t out_stride, int vectors, Tile t) {
    FOR_TILE_ROWS(r)
        FOR_VECTORS(c, vectors) {
            float *at = out + r * out_stride + LANES * c;
            store(at, load(at) + t[r][c]);
        }
}

/* out += leftᵀ · right over `depth` rows, for TILE_ROWS adjacent columns of left. */
INLINE void tile_accumulate_transposed(float *out, size_t out_stride, int vectors,
                                       const float *left, size_t left_stride, const float *right,
                                       size_t right_stride, size_t depth) {
    Tile t;
    tile_zero(t);
    tile_matmul(t, vectors, depth, left, 1, left_stride, right, right_stride);
    tile_accumulate(out, out_stride, vectors, t);
}

/* Transposes PANEL rows of w values into w rows of PANEL; rows from `valid` on are zeros. */
INLINE void pack_panel(float *panel, const float *rows, size_t row_stride, size_t valid, size_t w) {
    for (size_t k = 0; k < w; k++)
        for (size_t j = 0; j < PANEL; j++)
            panel[k * PANEL + j] = j < valid ? rows[j * row_stride + k] : 0.0f;
}

INLINE float *alloc_buffer(size_t floats) {
    return aligned_alloc(64, round_up(floats * sizeof(float), 64));
}

#endif
