/* What writing one more token does most: products of a few rows, and a look at the past.

   Weights are packed once into panels of PANEL outputs, (panels, in, PANEL), and read as they lie.
   Shapes: r rows, in and out widths; h heads, g of them with keys and values of their own, j keys,
   d head width, a multiple of LANES. */

#include <math.h>

#include "tiles.h"

enum { STRAIGHT, RELU, GELU_TANH };
enum { SHARED_OUT_FROM = 1 << 14 }; /* multiplications; fewer are not worth waking a thread for */

int regard_version(void) { return VERSION; }

int regard_pack(const float *weight, float *packed, size_t outputs, size_t inputs) {
    for (size_t out = 0; out < outputs; out += PANEL)
        pack_panel(packed + out * inputs, weight + out * inputs, inputs,
                   least(PANEL, outputs - out), inputs);
    return 0;
}

/* x · σ(2u) with u = √(2/π) (x + 0.044715 x³), which is GELU by tanh */
INLINE __m256 gelu_tanh(__m256 x) {
    const float twice_in_twos = -2.0f * 0.7978845608028654f * LOG2_E;
    __m256 cubic =
        _mm256_fmadd_ps(_mm256_mul_ps(x, x), _mm256_set1_ps(0.044715f), _mm256_set1_ps(1.0f));
    __m256 power =
        power_of_2(_mm256_mul_ps(_mm256_mul_ps(x, cubic), _mm256_set1_ps(twice_in_twos)));
    return _mm256_div_ps(x, _mm256_add_ps(_mm256_set1_ps(1.0f), power));
}

INLINE __m256 bent(__m256 x, int bend) {
    if (bend == RELU) return _mm256_max_ps(_mm256_setzero_ps(), x);
    return bend == GELU_TANH ? gelu_tanh(x) : x;
}

INLINE void put_bent(float *out, const float *bias, __m256 sum, size_t outputs, int bend) {
    if (outputs >= LANES) {
        if (bias) sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias));
        _mm256_storeu_ps(out, bent(sum, bend));
    } else if (outputs) {
        __m256i mask = _mm256_castps_si256(first_lanes((ptrdiff_t)outputs));
        if (bias) sum = _mm256_add_ps(sum, _mm256_maskload_ps(bias, mask));
        _mm256_maskstore_ps(out, mask, bent(sum, bend));
    }
}

/* One row and one panel: four sums for each output, so that many are under way at once. */
static void row_product(float *out, const float *x, const float *panel, const float *bias,
                        size_t inputs, size_t outputs, int bend) {
    __m256 sums[4][WIDE];
    for (int n = 0; n < 4; n++)
        EACH_VECTOR(c, WIDE) sums[n][c] = _mm256_setzero_ps();
    size_t k = 0;
    for (; k + 4 <= inputs; k += 4) _Pragma("GCC unroll 4") for (int n = 0; n < 4; n++) {
            __m256 number = _mm256_broadcast_ss(x + k + n);
            EACH_VECTOR(c, WIDE)
                sums[n][c] = _mm256_fmadd_ps(
                    number, _mm256_loadu_ps(panel + (k + n) * PANEL + LANES * c), sums[n][c]);
        }
    for (; k < inputs; k++)
        EACH_VECTOR(c, WIDE)
            sums[0][c] =
                _mm256_fmadd_ps(_mm256_broadcast_ss(x + k),
                                _mm256_loadu_ps(panel + k * PANEL + LANES * c), sums[0][c]);
    EACH_VECTOR(c, WIDE) {
        __m256 sum = _mm256_add_ps(_mm256_add_ps(sums[0][c], sums[1][c]),
                                   _mm256_add_ps(sums[2][c], sums[3][c]));
        size_t before = LANES * c;
        put_bent(out + before, bias ? bias + before : NULL, sum,
                 outputs > before ? outputs - before : 0, bend);
    }
}

static void rows_product(float *out, size_t out_row, const float *x, const float *panel,
                         const float *bias, size_t inputs, size_t outputs, int bend) {
    Tile t;
    clear(t);
    add_products(t, WIDE, inputs, x, inputs, 1, panel, PANEL);
    EACH_ROW(r)
        EACH_VECTOR(c, WIDE) {
            size_t before = LANES * c;
            put_bent(out + r * out_row + before, bias ? bias + before : NULL, t[r][c],
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
            rows_product(out + row * outputs + first, outputs, x + row * inputs, panel, added,
                         inputs, real, (int)bend);
        for (; row < rows; row++)
            row_product(out + row * outputs + first, x + row * inputs, panel, added, inputs, real,
                        (int)bend);
    }
    return 0;
}

/* The sums of eight vectors, as one. */
INLINE __m256 sums_of_eight(const __m256 x[8]) {
    __m256 a = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
    __m256 b = _mm256_hadd_ps(_mm256_hadd_ps(x[4], x[5]), _mm256_hadd_ps(x[6], x[7]));
    __m256 low = _mm256_permute2f128_ps(a, b, 0x20), high = _mm256_permute2f128_ps(a, b, 0x31);
    return _mm256_add_ps(low, high);
}

/* Scores of one query in powers of 2, (j) up to a whole vector; the largest of them. */
static float score_keys(float *scores, const float *q, const float *keys, const float *added,
                        size_t j, size_t d, float scale) {
    const float in_twos = scale * LOG2_E;
    __m256 largest = _mm256_set1_ps(-INFINITY);
    for (size_t key = 0; key < j; key += LANES) {
        __m256 products[LANES];
        for (size_t n = 0; n < LANES; n++) {
            const float *at = keys + least(key + n, j - 1) * d;
            products[n] = _mm256_setzero_ps();
            for (size_t k = 0; k < d; k += LANES)
                products[n] =
                    _mm256_fmadd_ps(_mm256_loadu_ps(q + k), _mm256_loadu_ps(at + k), products[n]);
        }
        __m256 score = _mm256_mul_ps(sums_of_eight(products), _mm256_set1_ps(in_twos));
        __m256 there = first_lanes((ptrdiff_t)(j - key));
        if (added) {
            __m256 bar = _mm256_maskload_ps(added + key, _mm256_castps_si256(there));
            score = _mm256_fmadd_ps(bar, _mm256_set1_ps(LOG2_E), score);
        }
        score = _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), score, there);
        largest = _mm256_max_ps(largest, score);
        _mm256_storeu_ps(scores + key, score);
    }
    float lanes[LANES], found = -INFINITY;
    _mm256_storeu_ps(lanes, largest);
    for (int n = 0; n < LANES; n++) found = lanes[n] > found ? lanes[n] : found;
    return found;
}

INLINE void mix_values(float *out, int vectors, const float *weights, const float *values, size_t j,
                       size_t d, float factor) {
    __m256 sums[2][WIDE];
    for (int n = 0; n < 2; n++)
        EACH_VECTOR(c, vectors) sums[n][c] = _mm256_setzero_ps();
    size_t key = 0;
    for (; key + 2 <= j; key += 2) _Pragma("GCC unroll 2") for (int n = 0; n < 2; n++) {
            __m256 weight = _mm256_broadcast_ss(weights + key + n);
            EACH_VECTOR(c, vectors)
                sums[n][c] = _mm256_fmadd_ps(
                    weight, _mm256_loadu_ps(values + (key + n) * d + LANES * c), sums[n][c]);
        }
    for (; key < j; key++)
        EACH_VECTOR(c, vectors)
            sums[0][c] = _mm256_fmadd_ps(_mm256_broadcast_ss(weights + key),
                                         _mm256_loadu_ps(values + key * d + LANES * c), sums[0][c]);
    EACH_VECTOR(c, vectors)
        _mm256_storeu_ps(out + LANES * c, _mm256_mul_ps(_mm256_add_ps(sums[0][c], sums[1][c]),
                                                        _mm256_set1_ps(factor)));
}

static void look(float *out, float *scores, const float *q, const float *keys, const float *values,
                 const float *added, size_t j, size_t d, float scale) {
    __m256 largest = _mm256_set1_ps(score_keys(scores, q, keys, added, j, d, scale));
    __m256 sum = _mm256_setzero_ps();
    for (size_t key = 0; key < j; key += LANES) {
        __m256 score = _mm256_sub_ps(_mm256_loadu_ps(scores + key), largest);
        /* 2^−∞ is 0, which a power that stays at its ends is not. */
        __m256 seen = _mm256_cmp_ps(score, _mm256_set1_ps(-INFINITY), _CMP_NEQ_UQ);
        __m256 weight = _mm256_and_ps(power_of_2(score), seen);
        sum = _mm256_add_ps(sum, weight);
        _mm256_storeu_ps(scores + key, weight);
    }
    const float factor = 1.0f / sum_of(sum);
    for (size_t g = 0, columns; g < d; g += columns) {
        columns = columns_at(d - g);
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
