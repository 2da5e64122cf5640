/* Additive attention, forward and backward.

       s = 2^(Σ_m w'_m σ(q_m + k_m))      denominator = Σ_j s      p = s / denominator
       out = (p · keep) v
       ds = p · dp − p · delta      dp = keep · (d_out vᵀ)      delta = Σ_j p · dp
       dw = Σ ds · σ      dq = w Σ_j ds · (σ − σ²)      dk = w Σ_i ds · (σ − σ²)

   w' = log₂e · w. σ(u) = 1 / (1 + 2^(−log₂e · u)): queries and keys are stored times −log₂e. σ is
   recomputed in the backward pass. Unlike in dot.c, weights are normalised before they are used
   there: for a query that sees a single key, ds is then exactly zero. Shapes as in attention.h. */

#include "attention.h"

/* σ(u) of x = −log₂e · u */
INLINE Vector sigmoid(Vector x) {
    const Vector one = broadcast(1.0f);
    return one / (one + vexp2(x));
}

INLINE const float *head_weight(const Attention *a, size_t bh) {
    return a->weight + bh % a->heads * a->m;
}

static void score(Tile out, const Attention *a, const Workspace *ws, size_t bh, size_t first,
                  size_t n, size_t p) {
    const float *q = ws->q_log2_scaled + n * a->m, *k = ws->k_panels + p * PANEL * a->m,
                *w = head_weight(a, bh);
    Tile t;
    tile_zero(t);
    for (size_t m = 0; m < a->m; m++, k += PANEL) {
        const Vector weight = broadcast(w[m] * LOG2_E);
        FOR_TILE_ROWS(r) {
            const Vector query = broadcast(q[r * a->m + m]);
            FOR_VECTORS(c, TILE_VECTORS) {
                Vector inner = sigmoid(query + load(k + LANES * c));
                t[r][c] = fmadd(weight, inner, t[r][c]);
            }
        }
    }
    exp2_visible(t, a, first + n, p * PANEL);
    FOR_TILE_ROWS(r)
        FOR_VECTORS(c, TILE_VECTORS) out[r][c] = t[r][c];
}

/* Keys and queries times −log₂e, as `sigmoid` takes them. */
static void pack_scaled_keys(const Attention *a, const Workspace *ws, size_t bh) {
    pack_keys(ws->k_panels, head_data(a->k, a, bh), a->k.row_stride, a->j, a->m);
    for (size_t n = 0; n < round_up(a->j, PANEL) * a->m; n++) ws->k_panels[n] *= -LOG2_E;
}

static void copy_scaled_queries(const Attention *a, const Workspace *ws, size_t bh, size_t first,
                                size_t valid) {
    const float *q = head_data(a->q, a, bh) + first * a->q.row_stride;
    copy_scaled(ws->q_log2_scaled, q, a->q.row_stride, valid, a->m, -LOG2_E);
}

static void block_forward(const Attention *a, const Workspace *ws, size_t bh, size_t first) {
    const size_t valid = min_size(BLOCK_QUERIES, a->i - first), rows = round_up(valid, TILE_ROWS);
    copy_scaled_queries(a, ws, bh, first, valid);
    memset(ws->sums, 0, rows * LANES * sizeof(float));
    FOR_VISIBLE_TILES(a, first, rows, n, p) {
        Tile t;
        score(t, a, ws, bh, first, n, p);
        store_weights(a, ws, t, bh, first, n, p);
    }
    write_output(a, ws, bh, first, valid);
}

static void head_forward(const Attention *a, const Workspace *ws, size_t bh) {
    pack_scaled_keys(a, ws, bh);
    copy_keys(ws->v, head_data(a->v, a, bh), a->v.row_stride, a->j, a->d);
    for (size_t first = 0; first < a->i; first += BLOCK_QUERIES) block_forward(a, ws, bh, first);
}

/* Weights p of one tile and their gradients dp; adds p · dp to the lane sums of delta. */
static void backward_weights(const Attention *a, const Workspace *ws, size_t bh, size_t first,
                             size_t n, size_t p) {
    Tile t;
    score(t, a, ws, bh, first, n, p);
    FOR_TILE_ROWS(r) {
        size_t query = min_size(first + n + r, a->i - 1);
        Vector denominator = broadcast(a->denominator[bh * a->i + query]);
        FOR_VECTORS(c, TILE_VECTORS)
            store(ws->weights + (p * BLOCK_QUERIES + n + r) * PANEL + LANES * c,
                  t[r][c] / denominator);
    }
    tile_zero(t);
    tile_matmul(t, TILE_VECTORS, a->d, ws->d_out + n * a->d, a->d, 1,
                ws->v_panels + p * PANEL * a->d, PANEL);
    FOR_TILE_ROWS(r) {
        float *at = ws->weights + (p * BLOCK_QUERIES + n + r) * PANEL,
              *sums = ws->sums + (n + r) * LANES;
        float *d_at = ws->d_scores + (p * BLOCK_QUERIES + n + r) * PANEL;
        const int16_t *draws = query_draws(a, bh, first + n + r);
        Vector sum = load(sums);
        FOR_VECTORS(c, TILE_VECTORS) {
            Vector d_weight = t[r][c];
            if (draws) d_weight = blend_zero(keep_mask(a, draws, p * PANEL + LANES * c), d_weight);
            sum = fmadd(load(at + LANES * c), d_weight, sum);
            store(d_at + LANES * c, d_weight);
        }
        store(sums, sum);
    }
}

/* Softmax backward: gradients of weights become those of scores; applies dropout to weights. */
static void backward_softmax(const Attention *a, const Workspace *ws, size_t bh, size_t first,
                             size_t n, size_t p) {
    FOR_TILE_ROWS(r) {
        float *at = ws->weights + (p * BLOCK_QUERIES + n + r) * PANEL;
        float *d_at = ws->d_scores + (p * BLOCK_QUERIES + n + r) * PANEL;
        const int16_t *draws = query_draws(a, bh, first + n + r);
        Vector delta = broadcast(ws->delta[n + r]);
        FOR_VECTORS(c, TILE_VECTORS) {
            Vector weight = load(at + LANES * c), d_weight = load(d_at + LANES * c);
            store(d_at + LANES * c, fmadd(weight, d_weight, -(weight * delta)));
            if (draws) {
                LaneMask keep = keep_mask(a, draws, p * PANEL + LANES * c);
                store(at + LANES * c, blend_zero(keep, weight));
            }
        }
    }
}

/* Adds one tile's terms to the gradients of queries (lane sums), keys (by panels) and w (lane sums);
   those of queries and keys still lack the factor w. */
static void backward_scores(const Attention *a, const Workspace *ws, size_t n, size_t p) {
    const float *q = ws->q_log2_scaled + n * a->m, *k = ws->k_panels + p * PANEL * a->m;
    const float *d_scores = ws->d_scores + (p * BLOCK_QUERIES + n) * PANEL;
    float *d_k = ws->d_k + p * PANEL * a->m, *d_q = ws->lane_sums + n * a->m * LANES;
    float *d_w = ws->lane_sums + BLOCK_QUERIES * a->m * LANES;
    for (size_t m = 0; m < a->m; m++, k += PANEL, d_k += PANEL) {
        Vector d_weight = broadcast(0.0f), d_key[TILE_VECTORS];
        FOR_VECTORS(c, TILE_VECTORS) d_key[c] = load(d_k + LANES * c);
        FOR_TILE_ROWS(r) {
            const Vector query = broadcast(q[r * a->m + m]);
            float *at = d_q + (r * a->m + m) * LANES;
            Vector d_query = load(at);
            FOR_VECTORS(c, TILE_VECTORS) {
                Vector inner = sigmoid(query + load(k + LANES * c));
                Vector d_inner = load(d_scores + r * PANEL + LANES * c) * inner;
                Vector d_sum = fmadd(-d_inner, inner, d_inner);
                d_weight += d_inner;
                d_query += d_sum;
                d_key[c] += d_sum;
            }
            store(at, d_query);
        }
        store(d_w + m * LANES, load(d_w + m * LANES) + d_weight);
        FOR_VECTORS(c, TILE_VECTORS) store(d_k + LANES * c, d_key[c]);
    }
}

static void block_backward(const Attention *a, const Workspace *ws, size_t bh, size_t first) {
    const size_t valid = min_size(BLOCK_QUERIES, a->i - first), rows = round_up(valid, TILE_ROWS);
    const float *w = head_weight(a, bh);
    copy_scaled_queries(a, ws, bh, first, valid);
    copy_scaled(ws->d_out, head_data(a->d_out, a, bh) + first * a->d_out.row_stride,
                a->d_out.row_stride, valid, a->d, 1.0f / a->keep_probability);
    memset(ws->sums, 0, rows * LANES * sizeof(float));
    memset(ws->lane_sums, 0, rows * a->m * LANES * sizeof(float));
    FOR_VISIBLE_TILES(a, first, rows, n, p) backward_weights(a, ws, bh, first, n, p);
    for (size_t n = 0; n < rows; n++) ws->delta[n] = reduce_add(load(ws->sums + n * LANES));
    FOR_VISIBLE_TILES(a, first, rows, n, p) {
        backward_softmax(a, ws, bh, first, n, p);
        backward_scores(a, ws, n, p);
    }
    for (size_t n = 0; n < valid * a->m; n++)
        ws->d_q[n] = w[n % a->m] * reduce_add(load(ws->lane_sums + n * LANES));
    write_gradient(a->d_q, a, bh, first, ws->d_q, valid, a->m);
    matmul_pairs_transposed(ws->d_v, a, ws->weights, ws->d_out, a->d, first, rows);
}

static void head_backward(const Attention *a, const Workspace *ws, size_t bh) {
    const float *w = head_weight(a, bh), *d_w = ws->lane_sums + BLOCK_QUERIES * a->m * LANES;
    pack_scaled_keys(a, ws, bh);
    begin_backward(a, ws, bh);
    memset(ws->lane_sums + BLOCK_QUERIES * a->m * LANES, 0, a->m * LANES * sizeof(float));
    for (size_t first = 0; first < a->i; first += BLOCK_QUERIES) block_backward(a, ws, bh, first);
    for (size_t m = 0; m < a->m; m++)
        a->d_weight[bh * a->m + m] = reduce_add(load(d_w + m * LANES));
    for (size_t key = 0; key < a->j; key++) {
        float *to = head_data(a->d_k, a, bh) + key * a->d_k.row_stride;
        const float *panel = ws->d_k + key / PANEL * PANEL * a->m + key % PANEL;
        for (size_t m = 0; m < a->m; m++) to[m] = w[m] * panel[m * PANEL];
    }
    write_gradient(a->d_v, a, bh, 0, ws->d_v, a->j, a->d);
}

int regard_additive_forward(ATTENTION_PARAMETERS) {
    return for_each_head(&ATTENTION, head_forward, threads);
}

int regard_additive_backward(ATTENTION_PARAMETERS) {
    return for_each_head(&ATTENTION, head_backward, threads);
}
