/* What bends the numbers between two linear layers, and how steep it is there. */

#ifndef REGARD_BENDS_H
#define REGARD_BENDS_H

#include "vectors.h"

enum { STRAIGHT, RELU, GELU_TANH, GELU }; /* as in nn/activations.py */

/* b(x) and b'(x) */
typedef struct {
    Vector value, slope;
} Bent;

/* x where something bends; farther out powers of it would only grow. */
INLINE Vector between(Vector x, float end) { return smaller(all(end), larger(all(-end), x)); }

/* x · σ(2u) with u = √(2/π) (x + 0.044715 x³) */
INLINE Bent gelu_tanh(Vector x) {
    const float twice = 2.0f * 0.7978845608028654f;
    const Vector near = between(x, 20.0f), one = all(1.0f), square = near * near;
    const Vector power =
        power_of_2(near * times_plus(square, all(0.044715f), one) * all(-twice * LOG2_E));
    const Vector share = one / (one + power), left = share * power; /* which is 1 − share */
    const Vector steepness = times_plus(square, all(3 * 0.044715f), one) * all(twice);
    return (Bent){x * share, times_plus(near * share * left, steepness, share)};
}

/* x · Φ(x). Φ(−|x|) = poly(t) · e^(−x²/2), t = 1 / (1 + p |x|), within 8e-8 (Abramowitz and
   Stegun, 7.1.26). */
INLINE Bent gelu(Vector x) {
    const Vector near = between(x, 13.0f), far = larger(near, -near), one = all(1.0f);
    const Vector t = one / times_plus(far, all(0.3275911f * 0.70710678118654752f), one);
    const Vector e = power_of_2(far * far * all(-0.5f * LOG2_E));
    Vector p = all(0.5f * 1.061405429f);
    p = times_plus(p, t, all(0.5f * -1.453152027f));
    p = times_plus(p, t, all(0.5f * 1.421413741f));
    p = times_plus(p, t, all(0.5f * -0.284496736f));
    p = times_plus(p, t, all(0.5f * 0.254829592f));
    const Vector beyond = p * t * e;
    const Vector below = only_or(lanes_above(x, 0.0f), one - beyond, beyond);
    return (Bent){x * below, times_plus(near * e, all(0.3989422804014327f), below)};
}

INLINE Bent bent(Vector x, int bend) {
    if (bend == RELU) {
        const Lanes above = lanes_above(x, 0.0f);
        return (Bent){larger(all(0.0f), x), only(above, all(1.0f))};
    }
    if (bend == GELU_TANH) return gelu_tanh(x);
    return bend == GELU ? gelu(x) : (Bent){x, all(1.0f)};
}

#endif
