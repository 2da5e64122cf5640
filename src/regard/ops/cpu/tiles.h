/* What all kernels are made of: tiles of a product that stay in registers.

   A tile is ROWS rows of up to WIDE vectors of LANES floats. Products of several rows have one form,

       tile[r][c] += Σ_k left[r][k] · right[k][c]

   where left is read number by number and right vector by vector; what differs is how far apart
   the numbers lie. Right sides are packed into panels, so that they are read as they lie: of PANEL
   columns where they are scored, of `columns_at` where something is mixed. */

#ifndef REGARD_TILES_H
#define REGARD_TILES_H

#include <stdlib.h>
#include <string.h>

#include "vectors.h"

enum { WIDE = 3, PANEL = LANES * WIDE };
enum { VERSION = 2 }; /* of how kernels are called, as in library.py */

typedef Vector Tile[ROWS][WIDE];

#define EACH_OF(r, rows) _Pragma("GCC unroll 8") for (int r = 0; r < (rows); r++)
#define EACH_ROW(r) EACH_OF(r, ROWS)
#define EACH_VECTOR(c, vectors) _Pragma("GCC unroll 3") for (int c = 0; c < (vectors); c++)

INLINE size_t least(size_t a, size_t b) { return a < b ? a : b; }
INLINE size_t rounded_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

typedef struct {
    size_t begin, end;
} Range;

/* What a thread does of it. */
INLINE Range part_of(size_t count, size_t me, size_t threads) {
    return (Range){count * me / threads, count * (me + 1) / threads};
}

/* How many of the remaining columns go together: three vectors, two or one, and of four twice two,
   because eight sums at least have to be under way at once. */
INLINE size_t columns_at(size_t remaining) {
    if (remaining >= PANEL && remaining != 4 * LANES) return PANEL;
    return remaining >= 2 * LANES ? 2 * LANES : LANES;
}

/* Groups of columns: where each begins, and how many it has. */
#define EACH_GROUP(g, columns, width)                                                              \
    for (size_t g = 0, columns; g < (width) && (columns = columns_at((width) - g)); g += columns)

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
        EACH_VECTOR(c, WIDE) t[r][c] = all(0.0f);
}

/* Of the first `rows` rows of a tile, a constant. */
INLINE void add_products_of(int rows, Tile t, int vectors, size_t count, const float *left,
                            size_t left_row, size_t left_step, const float *right,
                            size_t right_step) {
    Tile sums; /* a copy of its own, or every step would be written to memory */
    EACH_OF(r, rows)
        EACH_VECTOR(c, vectors) sums[r][c] = t[r][c];
    for (size_t k = 0; k < count; k++, left += left_step, right += right_step) {
        Vector row[WIDE];
        EACH_VECTOR(c, vectors) row[c] = load(right + LANES * c);
        EACH_OF(r, rows) {
            Vector number = all(left[r * left_row]);
            EACH_VECTOR(c, vectors) sums[r][c] = times_plus(number, row[c], sums[r][c]);
        }
    }
    EACH_OF(r, rows)
        EACH_VECTOR(c, vectors) t[r][c] = sums[r][c];
}

INLINE void add_products(Tile t, int vectors, size_t count, const float *left, size_t left_row,
                         size_t left_step, const float *right, size_t right_step) {
    add_products_of(ROWS, t, vectors, count, left, left_row, left_step, right, right_step);
}

INLINE void put(float *out, size_t out_row, int vectors, Tile t) {
    EACH_ROW(r)
        EACH_VECTOR(c, vectors) store(out + r * out_row + LANES * c, t[r][c]);
}

INLINE void add_to(float *out, size_t out_row, int vectors, Tile t) {
    EACH_ROW(r)
        EACH_VECTOR(c, vectors) {
            float *at = out + r * out_row + LANES * c;
            store(at, load(at) + t[r][c]);
        }
}

/* out += leftᵀ · right over `count` rows: a tile of it, of as many rows of out as left is read from
   side by side. */
INLINE void gather_tile(float *out, size_t out_row, int vectors, const float *left,
                        size_t left_step, const float *right, size_t right_step, size_t count) {
    Tile t;
    clear(t);
    add_products(t, vectors, count, left, 1, left_step, right, right_step);
    add_to(out, out_row, vectors, t);
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
