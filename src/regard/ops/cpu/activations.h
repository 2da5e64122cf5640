/* Activation functions of decode steps. */

#ifndef REGARD_ACTIVATIONS_H
#define REGARD_ACTIVATIONS_H

#include "vectors.h"

enum { IDENTITY, RELU, GELU_TANH, GELU }; /* kernel ids, as in nn/activations.py */

/* Beyond ±limit the function is saturated, and powers of x would overflow. */
INLINE Vector clamp(Vector x, float limit) {
    return vmin(broadcast(limit), vmax(broadcast(-limit), x));
}

/* x · σ(2u) with u = √(2/π) (x + 0.044715 x³) */
INLINE Vector gelu_tanh(Vector x) {
    const float scale = 2.0f * 0.7978845608028654f;
    const Vector near = clamp(x, 20.0f), one = broadcast(1.0f), square = near * near;
    const Vector power =
        vexp2(near * fmadd(square, broadcast(0.044715f), one) * broadcast(-scale * LOG2_E));
    return x * (one / (one + power));
}

/* x · Φ(x). Φ(−|x|) = poly(t) · e^(−x²/2), t = 1 / (1 + p |x|), within 8e-8 (Abramowitz and
   Stegun, 7.1.26). */
INLINE Vector gelu(Vector x) {
    const Vector near = clamp(x, 13.0f), magnitude = vmax(near, -near), one = broadcast(1.0f);
    const Vector t = one / fmadd(magnitude, broadcast(0.3275911f * 0.70710678118654752f), one);
    const Vector e = vexp2(magnitude * magnitude * broadcast(-0.5f * LOG2_E));
    Vector p = broadcast(0.5f * 1.061405429f);
    p = fmadd(p, t, broadcast(0.5f * -1.453152027f));
    p = fmadd(p, t, broadcast(0.5f * 1.421413741f));
    p = fmadd(p, t, broadcast(0.5f * -0.284496736f));
    p = fmadd(p, t, broadcast(0.5f * 0.254829592f));
    const Vector tail = p * t * e;
    return x * blend(mask_greater(x, 0.0f), one - tail, tail);
}

INLINE Vector activate(Vector x, int activation) {
    if (activation == RELU) return vmax(broadcast(0.0f), x);
    if (activation == GELU_TANH) return gelu_tanh(x);
    return activation == GELU ? gelu(x) : x;
}

#endif
