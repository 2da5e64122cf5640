/* Products of many rows, as linear layers have them.

       y = x R        out += Lᵀ R

   A matrix is packed into groups of columns, as many as go together: (rows, columns) of the first
   group, then of the next. Packed so, it is read as it lies on the right of a product, and on the left
   of one that is turned.

   Shapes: n places, of which a chunk is at work at a time; a and b widths, multiples of LANES. */

#ifndef REGARD_PRODUCTS_H
#define REGARD_PRODUCTS_H

#include <omp.h>

#include "tiles.h"

enum { CHUNK = 256 };       /* places between two looks at what other threads have done */
enum { ADDED_UP = 128 };    /* places of one sum: what they hold stays in a core's first cache */
enum { ROWS_AT_ONCE = 64 }; /* that meet a group, while both are in a core's own cache */

INLINE float *in_group(float *packed, size_t rows, size_t g, size_t columns, size_t row) {
    return packed + g * rows + row * columns;
}

/* (count,width) becomes rows from `first` on of what is packed, of `rows` in all. */
static inline void pack_rows(float *packed, size_t rows, size_t first, const float *from,
                             size_t count, size_t width) {
    EACH_GROUP(g, columns, width)
        for (size_t n = 0; n < count; n++)
            memcpy(in_group(packed, rows, g, columns, first + n), from + n * width + g,
                   columns * sizeof(float));
}

/* A weight as it lies, (rows,width): a thread's part of its rows. */
static inline void pack_weight(float *packed, size_t rows, const float *from, size_t width,
                               size_t me, size_t threads) {
    const Range part = part_of(rows, me, threads);
    pack_rows(packed, rows, part.begin, from + part.begin * width, part.end - part.begin, width);
}

/* A weight that lies as (width,rows): a thread's part of its rows once it is turned. */
static inline void pack_turned_weight(float *packed, size_t rows, const float *from, size_t width,
                                      size_t me, size_t threads) {
    const Range part = part_of(rows, me, threads);
    EACH_GROUP(g, columns, width)
        for (size_t k = part.begin; k < part.end; k++)
            for (size_t c = 0; c < columns; c++)
                in_group(packed, rows, g, columns, k)[c] = from[(g + c) * rows + k];
}

/* What is done with a tile once it is made: its first row and column. */
typedef void (*Finish)(Tile t, int vectors, size_t row, size_t column, const void *with);

INLINE void make_tile(int vectors, const float *left, size_t inner, const float *group, size_t row,
                      size_t column, Finish finish, const void *with) {
    Tile t;
    clear(t);
    add_products(t, vectors, inner, left, inner, 1, group, LANES * vectors);
    finish(t, vectors, row, column, with);
}

/* Rows of (n,inner) · packed (inner,width), at least ROWS of them. The last tile begins earlier where
   they do not come out even: what is made twice comes out alike. */
INLINE void multiply(const float *left, Range rows, size_t inner, float *packed, size_t width,
                     Finish finish, const void *with) {
    for (size_t first = rows.begin; first < rows.end; first += ROWS_AT_ONCE)
        EACH_GROUP(g, columns, width) {
            const float *group = in_group(packed, inner, g, columns, 0);
            for (size_t n = first; n < least(rows.end, first + ROWS_AT_ONCE); n += ROWS) {
                const size_t row = least(n, rows.end - ROWS);
                const float *from = left + row * inner;
                BY_VECTORS(columns, make_tile(vectors, from, inner, group, row, g, finish, with));
            }
        }
}

/* As it is, to where it belongs; a bias is added where there is one. */
typedef struct {
    float *out;
    const float *bias;
    size_t width;
} Put;

INLINE void put_tile(Tile t, int vectors, size_t row, size_t column, const void *with) {
    const Put *p = with;
    if (p->bias)
        EACH_VECTOR(c, vectors) {
            Vector added = load(p->bias + column + LANES * c);
            EACH_ROW(r) t[r][c] += added;
        }
    put(p->out + row * p->width + column, p->width, vectors, t);
}

/* Rows of out += Lᵀ R, (n,a), (n,b) -> (a,b), both packed. */
static inline void gather(float *out, Range rows, float *left, size_t a, float *right, size_t b,
                          size_t places) {
    for (size_t first = 0; first < places; first += ADDED_UP) {
        const size_t count = least(ADDED_UP, places - first);
        EACH_GROUP(g, columns, b) {
            const float *with = in_group(right, places, g, columns, first);
            EACH_GROUP(h, high, a)
                for (size_t row = h; row < h + high; row += ROWS) {
                    if (row < rows.begin || row >= rows.end) continue;
                    const float *from = in_group(left, places, h, high, first) + row - h;
                    float *to = out + row * b + g;
                    BY_VECTORS(columns,
                               gather_tile(to, b, vectors, from, high, with, columns, count));
                }
        }
    }
}

/* Columns of out += Σ_n L, (n,a) -> (a), packed. */
static inline void sum_rows(float *out, Range wanted, float *left, size_t a, size_t places) {
    EACH_GROUP(h, high, a)
        for (size_t c = h; c < h + high; c += LANES) {
            if (c < wanted.begin || c >= wanted.end) continue;
            Vector sum = all(0.0f);
            for (size_t n = 0; n < places; n++)
                sum += load(in_group(left, places, h, high, n) + c - h);
            store(out + c, load(out + c) + sum);
        }
}

/* A thread's part of so many rows: whole tiles, and the last one what is left over. */
INLINE Range tiles_of(size_t rows, size_t me, size_t threads) {
    Range tiles = part_of(rows / ROWS, me, threads);
    return (Range){tiles.begin * ROWS, me + 1 == threads ? rows : tiles.end * ROWS};
}

/* A thread's part of so many columns: whole vectors. */
INLINE Range vectors_of(size_t columns, size_t me, size_t threads) {
    Range vectors = part_of(columns / LANES, me, threads);
    return (Range){vectors.begin * LANES, vectors.end * LANES};
}

/* Where the block ends that begins here: the last takes along what would be too little for a tile. */
INLINE size_t end_of(size_t first, size_t n, size_t block) {
    return n - first < 2 * block ? n : first + block;
}

#endif
