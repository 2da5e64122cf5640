/* Matrix products over many rows, with packed operands: the GEMMs of linear layers.

       y = x R        out += Lᵀ R

   A matrix is packed by column groups: (rows, columns) of the first group, then of the next. It is
   then read contiguously as the right operand of a product, and as the left of a transposed one.

   Shapes: n rows, processed in chunks; a and b widths, multiples of LANES. */

#ifndef REGARD_GEMM_H
#define REGARD_GEMM_H

#include <omp.h>

#include "tiles.h"

enum { CHUNK_ROWS = 256 }; /* rows between two barriers of the backward pass */
enum { SUM_ROWS = 128 };   /* rows of one partial sum: their operands stay in L1 */
enum { BLOCK_ROWS = 64 };  /* rows multiplied by a column group while both are in L2 */

INLINE float *group_row(float *packed, size_t rows, size_t g, size_t columns, size_t row) {
    return packed + g * rows + row * columns;
}

/* Packs (count,width) as rows first, first + 1, … of a packed matrix of `rows` rows. */
static inline void pack_rows(float *packed, size_t rows, size_t first, const float *from,
                             size_t count, size_t width) {
    FOR_COLUMN_GROUPS(g, columns, width)
        for (size_t n = 0; n < count; n++)
            memcpy(group_row(packed, rows, g, columns, first + n), from + n * width + g,
                   columns * sizeof(float));
}

/* Packs a thread's rows of a weight (rows,width). */
static inline void pack_weight(float *packed, size_t rows, const float *from, size_t width,
                               size_t thread, size_t threads) {
    const Range mine = thread_range(rows, thread, threads);
    pack_rows(packed, rows, mine.begin, from + mine.begin * width, mine.end - mine.begin, width);
}

/* Packs the transpose of a weight (width,rows): a thread's rows of the transpose. */
static inline void pack_transposed_weight(float *packed, size_t rows, const float *from,
                                          size_t width, size_t thread, size_t threads) {
    const Range mine = thread_range(rows, thread, threads);
    FOR_COLUMN_GROUPS(g, columns, width)
        for (size_t k = mine.begin; k < mine.end; k++)
            for (size_t c = 0; c < columns; c++)
                group_row(packed, rows, g, columns, k)[c] = from[(g + c) * rows + k];
}

/* Consumes a finished tile, given its first row and column. */
typedef void (*Epilogue)(Tile t, int vectors, size_t row, size_t column, const void *context);

INLINE void gemm_tile(int vectors, const float *left, size_t inner, const float *group, size_t row,
                      size_t column, Epilogue epilogue, const void *context) {
    Tile t;
    tile_zero(t);
    tile_matmul(t, vectors, inner, left, inner, 1, group, LANES * vectors);
    epilogue(t, vectors, row, column, context);
}

/* Rows of (n,inner) · packed (inner,width), at least TILE_ROWS of them. The last tile overlaps its
   predecessor where the rows do not fill it: both compute the same bits. */
INLINE void gemm(const float *left, Range rows, size_t inner, float *packed, size_t width,
                 Epilogue epilogue, const void *context) {
    for (size_t first = rows.begin; first < rows.end; first += BLOCK_ROWS)
        FOR_COLUMN_GROUPS(g, columns, width) {
            const float *group = group_row(packed, inner, g, columns, 0);
            for (size_t n = first; n < min_size(rows.end, first + BLOCK_ROWS); n += TILE_ROWS) {
                const size_t row = min_size(n, rows.end - TILE_ROWS);
                const float *from = left + row * inner;
                DISPATCH_VECTORS(columns,
                                 gemm_tile(vectors, from, inner, group, row, g, epilogue, context));
            }
        }
}

/* Epilogue that adds a bias, if there is one, and stores to (n,width). */
typedef struct {
    float *out;
    const float *bias;
    size_t width;
} BiasStore;

INLINE void bias_store(Tile t, int vectors, size_t row, size_t column, const void *context) {
    const BiasStore *s = context;
    if (s->bias)
        FOR_VECTORS(c, vectors) {
            Vector bias = load(s->bias + column + LANES * c);
            FOR_TILE_ROWS(r) t[r][c] += bias;
        }
    tile_store(s->out + row * s->width + column, s->width, vectors, t);
}

/* Output rows `rows` of out += Lᵀ R, (n,a), (n,b) -> (a,b), both packed. */
static inline void gemm_transposed(float *out, Range rows, float *left, size_t a, float *right,
                                   size_t b, size_t n) {
    for (size_t first = 0; first < n; first += SUM_ROWS) {
        const size_t depth = min_size(SUM_ROWS, n - first);
        FOR_COLUMN_GROUPS(g, columns, b) {
            const float *right_group = group_row(right, n, g, columns, first);
            FOR_COLUMN_GROUPS(h, left_columns, a)
                for (size_t row = h; row < h + left_columns; row += TILE_ROWS) {
                    if (row < rows.begin || row >= rows.end) continue;
                    const float *from = group_row(left, n, h, left_columns, first) + row - h;
                    float *to = out + row * b + g;
                    DISPATCH_VECTORS(columns,
                                     tile_accumulate_transposed(to, b, vectors, from, left_columns,
                                                                right_group, columns, depth));
                }
        }
    }
}

/* Columns `range` of out += Σ_n x, (n,a) -> (a), x packed. */
static inline void sum_rows(float *out, Range range, float *x, size_t a, size_t rows) {
    FOR_COLUMN_GROUPS(g, columns, a)
        for (size_t c = g; c < g + columns; c += LANES) {
            if (c < range.begin || c >= range.end) continue;
            Vector sum = broadcast(0.0f);
            for (size_t n = 0; n < rows; n++)
                sum += load(group_row(x, rows, g, columns, n) + c - g);
            store(out + c, load(out + c) + sum);
        }
}

/* A thread's rows: whole tiles; the last thread also takes the remainder. */
INLINE Range thread_rows(size_t rows, size_t thread, size_t threads) {
    Range tiles = thread_range(rows / TILE_ROWS, thread, threads);
    return (Range){tiles.begin * TILE_ROWS, thread + 1 == threads ? rows : tiles.end * TILE_ROWS};
}

/* A thread's columns: whole vectors. */
INLINE Range thread_columns(size_t columns, size_t thread, size_t threads) {
    Range vectors = thread_range(columns / LANES, thread, threads);
    return (Range){vectors.begin * LANES, vectors.end * LANES};
}

/* End of the block that begins at `first`; the last block absorbs a remainder below its size, which
   may be too small for a tile. */
INLINE size_t block_end(size_t first, size_t n, size_t block) {
    return n - first < 2 * block ? n : first + block;
}

#endif
