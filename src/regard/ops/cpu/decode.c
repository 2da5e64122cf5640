/* What writing one more token does most: products of a few rows, and a look at the past.

   Weights are packed once into panels of PANEL outputs, (panels, in, PANEL), and read as they lie.
   Shapes: r rows, in and out widths; h heads, g of them with keys and values of their own, j keys,
   d head width, a multiple of LANES. */

#include <math.h>

#include "activations.h"
#include "tiles.h"

enum { FEW = 4 };                   /* rows that share a panel where they do not fill a tile */
enum { SHARED_OUT_FROM = 1 << 14 }; /* multiplications; fewer are not worth waking a thread for */

int regard_version(void) { return VERSION; }
int regard_lanes(void) { return LANES; }
int regard_panel(void) { return PANEL; }

int regard_pack(const float *weight, float *packed, size_t outputs, size_t inputs) {
    for (size_t out = 0; out < outputs; out += PANEL)
        pack_panel(packed + out * inputs, weight + out * inputs, inputs,
                   least(PANEL, outputs - out), inputs);
    return 0;
}

INLINE void put_bent(float *out, const float *bias, Vector sum, size_t outputs, int bend) {
    if (outputs >= LANES) {
        if (bias) sum += load(bias);
        store(out, bent(sum, bend).value);
    } else if (outputs) {
        Lanes there = first_lanes((ptrdiff_t)outputs);
        if (bias) sum += load_only(there, bias);
        store_only(there, out, bent(sum, bend).value);
    }
}

/* One row and one panel: four sums for each output, so that many are under way at once. */
static void row_product(float *out, const float *x, const float *panel, const float *bias,
                        size_t inputs, size_t outputs, int bend) {
    Vector sums[4][WIDE];
    for (int n = 0; n < 4; n++)
        EACH_VECTOR(c, WIDE) sums[n][c] = all(0.0f);
    size_t k = 0;
    for (; k + 4 <= inputs; k += 4) _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++) {
            Vector number = all(x[k + n]);
            EACH_VECTOR(c, WIDE)
                sums[n][c] =
                    times_plus(number, load(panel + (k + n) * PANEL + LANES * c), sums[n][c]);
        }
    for (; k < inputs; k++)
        EACH_VECTOR(c, WIDE)
            sums[0][c] = times_plus(all(x[k]), load(panel + k * PANEL + LANES * c), sums[0][c]);
    EACH_VECTOR(c, WIDE) {
        Vector sum = (sums[0][c] + sums[1][c]) + (sums[2][c] + sums[3][c]);
        size_t before = LANES * c;
        put_bent(out + before, bias ? bias + before : NULL, sum,
                 outputs > before ? outputs - before : 0, bend);
    }
}

/* Several rows, known when it is compiled, and one panel. */
INLINE void rows_product(int rows, float *out, size_t out_row, const float *x, const float *panel,
                         const float *bias, size_t inputs, size_t outputs, int bend) {
    Tile sums;
    clear(sums);
    add_products_of(rows, sums, WIDE, inputs, x, inputs, 1, panel, PANEL);
    EACH_OF(r, rows)
        EACH_VECTOR(c, WIDE) {
            size_t before = LANES * c;
            put_bent(out + r * out_row + before, bias ? bias + before : NULL, sums[r][c],
                     outputs > before ? outputs - before : 0, bend);
        }
}

/* bend(x Wᵀ + b): (r,in), packed W, (out) or nothing -> (r,out) */
int regard_product(const float *x, const float *packed, const float *bias, float *out, size_t rows,
                   size_t inputs, size_t outputs, size_t bend, size_t threads) {
    size_t panels = rounded_up(outputs, PANEL) / PANEL;
#pragma omp parallel for schedule(static)                                                          \
    num_threads((int)threads) if (rows * inputs * outputs >= SHARED_OUT_FROM)
    for (size_t p = 0; p < panels; p++) {
        size_t first = p * PANEL, real = least(PANEL, outputs - first), row = 0;
        const float *panel = packed + first * inputs, *added = bias ? bias + first : NULL;
        for (; row + ROWS <= rows; row += ROWS)
            rows_product(ROWS, out + row * outputs + first, outputs, x + row * inputs, panel, added,
                         inputs, real, (int)bend);
        for (; (int)FEW < (int)ROWS && row + FEW <= rows; row += FEW)
            rows_product(FEW, out + row * outputs + first, outputs, x + row * inputs, panel, added,
                         inputs, real, (int)bend);
        for (; row < rows; row++)
            row_product(out + row * outputs + first, x + row * inputs, panel, added, inputs, real,
                        (int)bend);
    }
    return 0;
}

/* Scores of one query in powers of 2, (j) up to a whole vector; the largest of them. */
static float score_keys(float *scores, const float *q, const float *keys, const float *added,
                        size_t j, size_t d, float scale) {
    const float in_twos = scale * LOG2_E;
    Vector largest = all(-INFINITY);
    for (size_t key = 0; key < j; key += LANES) {
        Vector products[LANES];
        for (size_t n = 0; n < LANES; n++) {
            const float *at = keys + least(key + n, j - 1) * d;
            products[n] = all(0.0f);
            for (size_t k = 0; k < d; k += LANES)
                products[n] = times_plus(load(q + k), load(at + k), products[n]);
        }
        Vector score = sums_of_each(products) * all(in_twos);
        Lanes there = first_lanes((ptrdiff_t)(j - key));
        if (added) score = times_plus(load_only(there, added + key), all(LOG2_E), score);
        score = only_or(there, score, all(-INFINITY));
        largest = larger(largest, score);
        store(scores + key, score);
    }
    float lanes[LANES], found = -INFINITY;
    store(lanes, largest);
    for (int n = 0; n < LANES; n++) found = lanes[n] > found ? lanes[n] : found;
    return found;
}

INLINE void mix_values(float *out, int vectors, const float *weights, const float *values, size_t j,
                       size_t d, float factor) {
    Vector sums[2][WIDE];
    for (int n = 0; n < 2; n++)
        EACH_VECTOR(c, vectors) sums[n][c] = all(0.0f);
    size_t key = 0;
    for (; key + 2 <= j; key += 2) _Pragma("GCC unroll 2") for (int n = 0; n < 2; n++) {
            Vector weight = all(weights[key + n]);
            EACH_VECTOR(c, vectors)
                sums[n][c] =
                    times_plus(weight, load(values + (key + n) * d + LANES * c), sums[n][c]);
        }
    for (; key < j; key++)
        EACH_VECTOR(c, vectors)
            sums[0][c] =
                times_plus(all(weights[key]), load(values + key * d + LANES * c), sums[0][c]);
    EACH_VECTOR(c, vectors) store(out + LANES * c, (sums[0][c] + sums[1][c]) * all(factor));
}

static void look(float *out, float *scores, const float *q, const float *keys, const float *values,
                 const float *added, size_t j, size_t d, float scale) {
    Vector largest = all(score_keys(scores, q, keys, added, j, d, scale));
    Vector sum = all(0.0f);
    for (size_t key = 0; key < j; key += LANES) {
        Vector score = load(scores + key) - largest;
        /* 2^−∞ is 0, which a power that stays at its ends is not. */
        Vector weight = only(lanes_unlike(score, -INFINITY), power_of_2(score));
        sum += weight;
        store(scores + key, weight);
    }
    const float factor = 1.0f / sum_of(sum);
    EACH_GROUP(g, columns, d) {
        BY_VECTORS(columns, mix_values(out + g, vectors, scores, values + g, j, d, factor));
    }
}

/* Takes the newest keys and values into the cache, as place j − 1, and looks from there:
   made (r, h + 2g heads, d), keys and values (r,g,capacity,d), added (r,j) or nothing -> (r,h,d). */
int regard_look(const float *made, float *keys, float *values, const float *added, float *out,
                size_t rows, size_t h, size_t g, size_t j, size_t capacity, size_t d, float scale,
                size_t threads) {
    int missing = 0;
#pragma omp parallel num_threads((int)threads)                                                     \
    reduction(| : missing) if (rows * h * j * d >= SHARED_OUT_FROM)
    {
        float *scores = room(rounded_up(j, LANES));
        missing = !scores;
#pragma omp for schedule(static)
        for (size_t n = 0; n < rows * g; n++) {
            if (missing) continue;
            size_t row = n / g, head = n % g, each = h / g;
            const float *of_row = made + row * (h + 2 * g) * d;
            float *k = keys + n * capacity * d, *v = values + n * capacity * d;
            memcpy(k + (j - 1) * d, of_row + (h + head) * d, d * sizeof(float));
            memcpy(v + (j - 1) * d, of_row + (h + g + head) * d, d * sizeof(float));
            for (size_t query = head * each; query < (head + 1) * each; query++)
                look(out + (row * h + query) * d, scores, of_row + query * d, k, v,
                     added ? added + row * j : NULL, j, d, scale);
        }
        free(scores);
    }
    return missing;
}
