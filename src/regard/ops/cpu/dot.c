/* Scaled dot-product attention, forward and backward.

       s = 2^(q' kᵀ)      denominator = Σ_j s      out = (s · keep) v / denominator
       ds = s · (keep · (d_out' vᵀ) − delta)      d_out' = d_out / denominator
       delta = d_out' · out
       dq = c · ds k      dk = c · dsᵀ q      dv = (s · keep)ᵀ d_out'

   q' = c · log₂e · q are the log2-scaled queries. The division by the keep probability is applied
   once, to the far smaller d_out' and out. Shapes as in attention.h. */

#include "attention.h"

INLINE void score(Tile t, const Attention *a, const Workspace *ws, size_t first, size_t n,
                  size_t p) {
    tile_zero(t);
    tile_matmul(t, TILE_VECTORS, a->m, ws->q_log2_scaled + n * a->m, a->m, 1,
                ws->k_panels + p * PANEL * a->m, PANEL);
    exp2_visible(t, a, first + n, p * PANEL);
}

static void block_forward(const Attention *a, const Workspace *ws, size_t bh, size_t first) {
    const size_t valid = min_size(BLOCK_QUERIES, a->i - first), rows = round_up(valid, TILE_ROWS);
    const float *q = head_data(a->q, a, bh) + first * a->q.row_stride;
    copy_scaled(ws->q_log2_scaled, q, a->q.row_stride, valid, a->m, a->scale * LOG2_E);
    memset(ws->sums, 0, rows * LANES * sizeof(float));
    FOR_VISIBLE_TILES(a, first, rows, n, p) {
        Tile t;
        score(t, a, ws, first, n, p);
        store_weights(a, ws, t, bh, first, n, p);
    }
    write_output(a, ws, bh, first, valid);
}

static void head_forward(const Attention *a, const Workspace *ws, size_t bh) {
    pack_keys(ws->k_panels, head_data(a->k, a, bh), a->k.row_stride, a->j, a->m);
    copy_keys(ws->v, head_data(a->v, a, bh), a->v.row_stride, a->j, a->d);
    for (size_t first = 0; first < a->i; first += BLOCK_QUERIES) block_forward(a, ws, bh, first);
}

/* d_out' and delta of a block's queries. */
static void compute_delta(const Attention *a, const Workspace *ws, size_t bh, size_t first,
                          size_t valid) {
    const size_t d = a->d;
    for (size_t n = 0; n < round_up(valid, TILE_ROWS); n++) {
        float delta = 0.0f, *to = ws->d_out + n * d;
        if (n < valid) {
            const float *d_out = head_data(a->d_out, a, bh) + (first + n) * a->d_out.row_stride;
            const float *out = head_data(a->out, a, bh) + (first + n) * a->out.row_stride;
            const float denominator = a->denominator[bh * a->i + first + n];
            for (size_t k = 0; k < d; k++) {
                delta += d_out[k] * out[k];
                to[k] = d_out[k] / (denominator * a->keep_probability);
            }
            delta /= denominator;
        } else
            memset(to, 0, d * sizeof(float));
        ws->delta[n] = delta;
    }
}

static void block_backward(const Attention *a, const Workspace *ws, size_t bh, size_t first) {
    const size_t valid = min_size(BLOCK_QUERIES, a->i - first), rows = round_up(valid, TILE_ROWS);
    const float *q = head_data(a->q, a, bh) + first * a->q.row_stride;
    copy_scaled(ws->q, q, a->q.row_stride, valid, a->m, a->scale);
    copy_scaled(ws->q_log2_scaled, q, a->q.row_stride, valid, a->m, a->scale * LOG2_E);
    compute_delta(a, ws, bh, first, valid);
    FOR_VISIBLE_TILES(a, first, rows, n, p) {
        float *weights = ws->weights + (p * BLOCK_QUERIES + n) * PANEL;
        Tile t;
        score(t, a, ws, first, n, p);
        tile_store(weights, PANEL, TILE_VECTORS, t); /* two tiles do not fit the registers */
        tile_zero(t);
        tile_matmul(t, TILE_VECTORS, a->d, ws->d_out + n * a->d, a->d, 1,
                    ws->v_panels + p * PANEL * a->d, PANEL);
        FOR_TILE_ROWS(r) {
            float *at = weights + r * PANEL,
                  *d_at = ws->d_scores + (p * BLOCK_QUERIES + n + r) * PANEL;
            const int16_t *draws = query_draws(a, bh, first + n + r);
            Vector delta = broadcast(ws->delta[n + r]);
            FOR_VECTORS(c, TILE_VECTORS) {
                Vector weight = load(at + LANES * c), d_weight = t[r][c];
                if (draws) {
                    LaneMask keep = keep_mask(a, draws, p * PANEL + LANES * c);
                    d_weight = blend_zero(keep, d_weight);
                    store(at + LANES * c, blend_zero(keep, weight));
                }
                store(d_at + LANES * c, (d_weight - delta) * weight);
            }
        }
    }
    matmul_pairs(ws->d_q, a, ws->d_scores, ws->k, a->m, first, rows);
    for (size_t n = 0; n < valid * a->m; n++) ws->d_q[n] *= a->scale;
    write_gradient(a->d_q, a, bh, first, ws->d_q, valid, a->m);
    matmul_pairs_transposed(ws->d_v, a, ws->weights, ws->d_out, a->d, first, rows);
    matmul_pairs_transposed(ws->d_k, a, ws->d_scores, ws->q, a->m, first, rows);
}

static void head_backward(const Attention *a, const Workspace *ws, size_t bh) {
    pack_keys(ws->k_panels, head_data(a->k, a, bh), a->k.row_stride, a->j, a->m);
    copy_keys(ws->k, head_data(a->k, a, bh), a->k.row_stride, a->j, a->m);
    begin_backward(a, ws, bh);
    for (size_t first = 0; first < a->i; first += BLOCK_QUERIES) block_backward(a, ws, bh, first);
    write_gradient(a->d_k, a, bh, 0, ws->d_k, a->j, a->m);
    write_gradient(a->d_v, a, bh, 0, ws->d_v, a->j, a->d);
}

int regard_dot_forward(ATTENTION_PARAMETERS) {
    return for_each_head(&ATTENTION, head_forward, threads);
}

int regard_dot_backward(ATTENTION_PARAMETERS) {
    return for_each_head(&ATTENTION, head_backward, threads);
}
