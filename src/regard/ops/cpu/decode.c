/* Decode-step kernels: linear layers over a few rows, and attention of one query per row over the
   KV cache.

   Weights are packed once into panels of PANEL outputs, (panels, in, PANEL), and read contiguously.
   Shapes: r rows, in and out widths; h query heads, g key-value heads, j keys, d head width, a
   multiple of LANES. */

#include <math.h>

#include "activations.h"
#include "tiles.h"

enum { SMALL_TILE_ROWS = 4 };         /* for rows that do not fill a whole tile */
enum { MIN_PARALLEL_MACS = 1 << 14 }; /* multiply-adds; fewer are faster on one thread */

int regard_version(void) { return VERSION; }
int regard_lanes(void) { return LANES; }
int regard_panel(void) { return PANEL; }

#define STRING_OF(...) #__VA_ARGS__ ";"
#define STRING(...) STRING_OF(__VA_ARGS__) /* after macros in it are expanded */
const char *regard_prototypes(void) { return KERNELS(STRING); }

int regard_pack(const float *weight, float *packed, size_t outputs, size_t inputs) {
    for (size_t out = 0; out < outputs; out += PANEL)
        pack_panel(packed + out * inputs, weight + out * inputs, inputs,
                   min_size(PANEL, outputs - out), inputs);
    return 0;
}

/* Stores activation(sum + bias), of a vector of which `outputs` lanes are valid, or of more. */
INLINE void store_activated(float *out, const float *bias, Vector sum, size_t outputs,
                            int activation) {
    if (outputs >= LANES) {
        if (bias) sum += load(bias);
        store(out, activate(sum, activation));
    } else if (outputs) {
        LaneMask valid = mask_first_clamped((ptrdiff_t)outputs);
        if (bias) sum += load_masked(valid, bias);
        store_masked(valid, out, activate(sum, activation));
    }
}

/* One row and one panel, with four accumulators per output to hide the latency of fmadd. */
static void linear_row(float *out, const float *x, const float *panel, const float *bias,
                       size_t inputs, size_t outputs, int activation) {
    Vector sums[4][TILE_VECTORS];
    for (int n = 0; n < 4; n++)
        FOR_VECTORS(c, TILE_VECTORS) sums[n][c] = broadcast(0.0f);
    size_t k = 0;
    for (; k + 4 <= inputs; k += 4) _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++) {
            Vector value = broadcast(x[k + n]);
            FOR_VECTORS(c, TILE_VECTORS)
                sums[n][c] = fmadd(value, load(panel + (k + n) * PANEL + LANES * c), sums[n][c]);
        }
    for (; k < inputs; k++)
        FOR_VECTORS(c, TILE_VECTORS)
            sums[0][c] = fmadd(broadcast(x[k]), load(panel + k * PANEL + LANES * c), sums[0][c]);
    FOR_VECTORS(c, TILE_VECTORS) {
        Vector sum = (sums[0][c] + sums[1][c]) + (sums[2][c] + sums[3][c]);
        size_t before = LANES * c;
        store_activated(out + before, bias ? bias + before : NULL, sum,
                        outputs > before ? outputs - before : 0, activation);
    }
}

/* Several rows, a compile-time constant, and one panel. */
INLINE void linear_rows(int rows, float *out, size_t out_stride, const float *x, const float *panel,
                        const float *bias, size_t inputs, size_t outputs, int activation) {
    Tile sums;
    tile_zero(sums);
    tile_matmul_rows(rows, sums, TILE_VECTORS, inputs, x, inputs, 1, panel, PANEL);
    FOR_ROWS(r, rows)
        FOR_VECTORS(c, TILE_VECTORS) {
            size_t before = LANES * c;
            store_activated(out + r * out_stride + before, bias ? bias + before : NULL, sums[r][c],
                            outputs > before ? outputs - before : 0, activation);
        }
}

/* activation(x Wᵀ + b): x (r,in), packed W, b (out) or NULL -> (r,out) */
int regard_packed_linear(const float *x, const float *packed, const float *bias, float *out,
                         size_t rows, size_t inputs, size_t outputs, size_t activation,
                         size_t threads) {
    size_t panels = round_up(outputs, PANEL) / PANEL;
#pragma omp parallel for schedule(static)                                                          \
    num_threads((int)threads) if (rows * inputs * outputs >= MIN_PARALLEL_MACS)
    for (size_t p = 0; p < panels; p++) {
        size_t first = p * PANEL, valid = min_size(PANEL, outputs - first), row = 0;
        const float *panel = packed + first * inputs, *panel_bias = bias ? bias + first : NULL;
        for (; row + TILE_ROWS <= rows; row += TILE_ROWS)
            linear_rows(TILE_ROWS, out + row * outputs + first, outputs, x + row * inputs, panel,
                        panel_bias, inputs, valid, (int)activation);
        for (; (int)SMALL_TILE_ROWS < (int)TILE_ROWS && row + SMALL_TILE_ROWS <= rows;
             row += SMALL_TILE_ROWS)
            linear_rows(SMALL_TILE_ROWS, out + row * outputs + first, outputs, x + row * inputs,
                        panel, panel_bias, inputs, valid, (int)activation);
        for (; row < rows; row++)
            linear_row(out + row * outputs + first, x + row * inputs, panel, panel_bias, inputs,
                       valid, (int)activation);
    }
    return 0;
}

/* Log2-scaled scores of one query, (j) padded to whole vectors; returns the largest. */
static float score_keys(float *scores, const float *q, const float *keys, const float *bias,
                        size_t j, size_t d, float scale) {
    const float log2_scale = scale * LOG2_E;
    Vector largest = broadcast(-INFINITY);
    for (size_t key = 0; key < j; key += LANES) {
        Vector products[LANES];
        for (size_t n = 0; n < LANES; n++) {
            const float *at = keys + min_size(key + n, j - 1) * d;
            products[n] = broadcast(0.0f);
            for (size_t k = 0; k < d; k += LANES)
                products[n] = fmadd(load(q + k), load(at + k), products[n]);
        }
        Vector score = reduce_add_each(products) * broadcast(log2_scale);
        LaneMask valid = mask_first_clamped((ptrdiff_t)(j - key));
        if (bias) score = fmadd(load_masked(valid, bias + key), broadcast(LOG2_E), score);
        score = blend(valid, score, broadcast(-INFINITY));
        largest = vmax(largest, score);
        store(scores + key, score);
    }
    float lanes[LANES], result = -INFINITY;
    store(lanes, largest);
    for (int n = 0; n < LANES; n++) result = lanes[n] > result ? lanes[n] : result;
    return result;
}

INLINE void mix_values(float *out, int vectors, const float *weights, const float *values, size_t j,
                       size_t d, float factor) {
    Vector sums[2][TILE_VECTORS];
    for (int n = 0; n < 2; n++)
        FOR_VECTORS(c, vectors) sums[n][c] = broadcast(0.0f);
    size_t key = 0;
    for (; key + 2 <= j; key += 2) _Pragma("GCC unroll 2") for (int n = 0; n < 2; n++) {
            Vector weight = broadcast(weights[key + n]);
            FOR_VECTORS(c, vectors)
                sums[n][c] = fmadd(weight, load(values + (key + n) * d + LANES * c), sums[n][c]);
        }
    for (; key < j; key++)
        FOR_VECTORS(c, vectors)
            sums[0][c] =
                fmadd(broadcast(weights[key]), load(values + key * d + LANES * c), sums[0][c]);
    FOR_VECTORS(c, vectors) store(out + LANES * c, (sums[0][c] + sums[1][c]) * broadcast(factor));
}

/* Attention of one query; `scores` is scratch space, (j) padded to whole vectors. */
static void attend(float *out, float *scores, const float *q, const float *keys,
                   const float *values, const float *bias, size_t j, size_t d, float scale) {
    Vector largest = broadcast(score_keys(scores, q, keys, bias, j, d, scale));
    Vector sum = broadcast(0.0f);
    for (size_t key = 0; key < j; key += LANES) {
        Vector score = load(scores + key) - largest;
        /* vexp2 clamps, so 2^−∞ = 0 needs the mask. */
        Vector weight = blend_zero(mask_not_equal(score, -INFINITY), vexp2(score));
        sum += weight;
        store(scores + key, weight);
    }
    const float factor = 1.0f / reduce_add(sum);
    FOR_COLUMN_GROUPS(g, columns, d) {
        DISPATCH_VECTORS(columns, mix_values(out + g, vectors, scores, values + g, j, d, factor));
    }
}

/* Appends the new keys and values to the cache, as position j − 1, and attends from there: qkv
   (r, h + 2g heads, d), keys and values (r,g,capacity,d), bias (r,j) or NULL -> (r,h,d). Returns 1
   if out of memory. */
int regard_decode_attention(const float *qkv, float *keys, float *values, const float *bias,
                            float *out, size_t rows, size_t h, size_t g, size_t j, size_t capacity,
                            size_t d, float scale, size_t threads) {
    int out_of_memory = 0;
#pragma omp parallel num_threads((int)threads)                                                     \
    reduction(| : out_of_memory) if (rows * h * j * d >= MIN_PARALLEL_MACS)
    {
        float *scores = alloc_buffer(round_up(j, LANES));
        out_of_memory = !scores;
#pragma omp for schedule(static)
        for (size_t n = 0; n < rows * g; n++) {
            if (out_of_memory) continue;
            size_t row = n / g, head = n % g, group = h / g;
            const float *row_qkv = qkv + row * (h + 2 * g) * d;
            float *k = keys + n * capacity * d, *v = values + n * capacity * d;
            memcpy(k + (j - 1) * d, row_qkv + (h + head) * d, d * sizeof(float));
            memcpy(v + (j - 1) * d, row_qkv + (h + g + head) * d, d * sizeof(float));
            for (size_t query = head * group; query < (head + 1) * group; query++)
                attend(out + (row * h + query) * d, scores, row_qkv + query * d, k, v,
                       bias ? bias + row * j : NULL, j, d, scale);
        }
        free(scores);
    }
    return out_of_memory;
}
