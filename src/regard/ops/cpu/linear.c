/* A linear layer over many places, forward and back.

       y = x Wᵀ + b        dx = dy W        dW = dyᵀ x        db = Σ dy

   Places are shared out among threads for y and dx, outputs for dW and db: none changes an order of
   adding. Shapes as in products.h: W (out,in). */

#include "products.h"

int regard_linear_forward(const float *x, const float *weight, const float *bias, float *y,
                          size_t n, size_t inputs, size_t outputs, size_t threads) {
    float *packed = room(inputs * outputs);
    if (!packed) return 1;
    const Put to = {y, bias, outputs};
#pragma omp parallel num_threads((int)threads)
    {
        pack_turned_weight(packed, inputs, weight, outputs, omp_get_thread_num(),
                           omp_get_num_threads());
#pragma omp barrier
#pragma omp for schedule(dynamic)
        for (size_t block = 0; block < n / ROWS_AT_ONCE; block++) {
            const size_t first = block * ROWS_AT_ONCE;
            const Range rows = {first, end_of(first, n, ROWS_AT_ONCE)};
            multiply(x, rows, inputs, packed, outputs, put_tile, &to);
        }
    }
    free(packed);
    return 0;
}

typedef struct {
    const float *d_y, *x, *weight;
    float *d_x, *d_weight, *d_bias; /* missing where nobody wants them */
    float *packed, *left, *right;   /* the weight, and a chunk of dy and x */
    size_t n, inputs, outputs;
} Backward;

static void go_back(const Backward *b, size_t me, size_t threads) {
    const Range mine = vectors_of(b->outputs, me, threads);
    const Put to = {b->d_x, NULL, b->inputs};
    if (b->d_x) pack_weight(b->packed, b->outputs, b->weight, b->inputs, me, threads);
#pragma omp barrier
    for (size_t first = 0, end; first < b->n; first = end) {
        end = end_of(first, b->n, CHUNK);
        const size_t places = end - first;
        const Range rows = tiles_of(places, me, threads);
        const size_t from = first + rows.begin, count = rows.end - rows.begin;
        if (b->d_x)
            multiply(b->d_y, (Range){from, from + count}, b->outputs, b->packed, b->inputs,
                     put_tile, &to);
        if (b->d_weight || b->d_bias)
            pack_rows(b->left, places, rows.begin, b->d_y + from * b->outputs, count, b->outputs);
        if (b->d_weight)
            pack_rows(b->right, places, rows.begin, b->x + from * b->inputs, count, b->inputs);
#pragma omp barrier
        if (b->d_weight)
            gather(b->d_weight, mine, b->left, b->outputs, b->right, b->inputs, places);
        if (b->d_bias) sum_rows(b->d_bias, mine, b->left, b->outputs, places);
#pragma omp barrier
    }
}

/* d_weight and d_bias come as zeros. */
int regard_linear_backward(const float *d_y, const float *x, const float *weight, float *d_x,
                           float *d_weight, float *d_bias, size_t n, size_t inputs, size_t outputs,
                           size_t threads) {
    const Backward b = {
        .d_y = d_y,
        .x = x,
        .weight = weight,
        .d_x = d_x,
        .d_weight = d_weight,
        .d_bias = d_bias,
        .packed = room(inputs * outputs),
        .left = room(2 * CHUNK * outputs),
        .right = room(2 * CHUNK * inputs),
        .n = n,
        .inputs = inputs,
        .outputs = outputs,
    };
    const int whole = b.packed && b.left && b.right;
    if (whole) {
#pragma omp parallel num_threads((int)threads)
        go_back(&b, omp_get_thread_num(), omp_get_num_threads());
    }
    free(b.packed), free(b.left), free(b.right);
    return !whole;
}
