/* The loops over one chunk, for vectors of W float64. fused.c includes this once for each W: 2 (every processor) and 4 (AVX2).
 * Both keep eight sums in the same lanes and add these up in the same order, so that the bits are the same. Compilers do not turn
 * conversions and greatest values of these vectors into one instruction each; on x86 they are told it.
 */
#define JOINED(name, width) name##width
#define NAMED(name, width) JOINED(name, width)
#define IN(name) NAMED(name, W)
#define GROUPS (8 / W)
#define vd IN(vd)
#define vl IN(vl)
#define vu IN(vu)
#define vf IN(vf)
#define vi IN(vi)
#define vj IN(vj)

typedef double vd __attribute__((vector_size(8 * W)));
typedef int64_t vl __attribute__((vector_size(8 * W)));
typedef uint64_t vu __attribute__((vector_size(8 * W)));
typedef float vf __attribute__((vector_size(8 * W))); /* twice as many values */
typedef int32_t vi __attribute__((vector_size(8 * W)));
typedef uint32_t vj __attribute__((vector_size(8 * W)));

INLINE double IN(total)(const vd *groups) {
    double s[8];
    memcpy(s, groups, sizeof s);
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

INLINE vd IN(size_of)(vd x) { return (vd)((vl)x & INT64_MAX); }

INLINE vd IN(greater)(vd x, vd y) {
#if defined(__x86_64__) && W > 2
    __asm__("vmaxpd %1, %0, %0" : "+v"(x) : "v"(y));
    return x;
#else
    vl mask = x > y;
    return (vd)(((vl)x & mask) | ((vl)y & ~mask));
#endif
}

/* sum + x * y; the product of two float32 is exact in float64, so that a fused multiply-add gives the same bits */
INLINE vd IN(add_product)(vd sum, vd x, vd y, int wide) {
#if defined(__x86_64__) && W > 2
    if (!wide) {
        __asm__("vfmadd231pd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
        return sum;
    }
#else
    (void)wide;
#endif
    return sum + x * y;
}

/* W values from an index on, as float64 */
INLINE vd IN(load)(const void *array, Py_ssize_t i, int wide) {
    vd x;
    if (wide) {
        memcpy(&x, (const double *)array + i, sizeof x);
        return x;
    }
    const float *at = (const float *)array + i;
#if defined(__x86_64__) && W > 2
    __asm__("vcvtps2pd %1, %0" : "=v"(x) : "m"(*(const struct { char bytes[4 * W]; } *)at));
#else
    for (int k = 0; k < W; k++)
        x[k] = at[k];
#endif
    return x;
}

/* All that a verdict needs of n elements, n a multiple of 16; what is shown besides, of which relative errors up to `known` change nothing. */
INLINE void IN(sum_up)(const void *a, const void *b, Py_ssize_t n, int wide, int shown, double known, struct sums *out) {
    vd rr[GROUPS] = {{0}}, cc[GROUPS] = {{0}}, ee[GROUPS] = {{0}}, rc[GROUPS] = {{0}}, absolute[GROUPS] = {{0}};
    vd top = {0};
    vl differing = {0}, above = {0};
    vi apart = {0};
    for (Py_ssize_t i = 0; i < n; i += 8) {
        for (int k = 0; !wide && k < 8; k += 2 * W) {
            vf x, y;
            memcpy(&x, (const float *)a + i + k, sizeof x);
            memcpy(&y, (const float *)b + i + k, sizeof y);
            apart -= x != y;
        }
        for (int k = 0; k < GROUPS; k++) {
            vd x = IN(load)(a, i + W * k, wide), y = IN(load)(b, i + W * k, wide), e = x - y;
            rr[k] = IN(add_product)(rr[k], x, x, wide);
            cc[k] = IN(add_product)(cc[k], y, y, wide);
            rc[k] = IN(add_product)(rc[k], x, y, wide);
            ee[k] += e * e;
            if (wide)
                differing -= x != y;
            e = IN(size_of)(e);
            top = IN(greater)(top, e);
            if (shown) {
                vd limit = IN(size_of)(x) * known; /* rounding is monotonous: nothing greater is missed */
                absolute[k] += e;
                above |= wide ? (e > limit) | ((limit < VANISHING) & (e > 0)) : e > limit;
            }
        }
    }
    memset(out, 0, sizeof *out);
    for (int k = 0; k < W; k++) {
        out->differing += differing[k] + apart[k] + apart[k + W];
        out->rises |= above[k] != 0;
        out->top = top[k] > out->top ? top[k] : out->top;
    }
    out->reference = IN(total)(rr);
    out->candidate = IN(total)(cc);
    out->error = IN(total)(ee);
    out->product = IN(total)(rc);
    out->absolute = IN(total)(absolute);
}

/* Squares of n elements, n a multiple of 16. */
INLINE double IN(squares)(const void *a, Py_ssize_t n, int wide) {
    vd s[2 * GROUPS] = {{0}};
    for (Py_ssize_t i = 0; i < n; i += 16)
        for (int k = 0; k < 2 * GROUPS; k++) {
            vd x = IN(load)(a, i + W * k, wide);
            s[k] = IN(add_product)(s[k], x, x, wide);
        }
    for (int k = 0; k < GROUPS; k++)
        s[k] += s[k + GROUPS];
    return IN(total)(s);
}

/* The greatest relative error of n elements, n a multiple of 16; that of a zero is not one. */
INLINE double IN(greatest_ratio)(const void *a, const void *b, Py_ssize_t n, int wide) {
    vd top = {0};
    double most = 0;
    for (Py_ssize_t i = 0; i < n; i += W) {
        vd x = IN(load)(a, i, wide), ratio = IN(size_of)((x - IN(load)(b, i, wide)) / x);
        top = IN(greater)(top, (vd)((vl)ratio & (x != 0)));
    }
    for (int k = 0; k < W; k++)
        most = top[k] > most ? top[k] : most;
    return most;
}

/* Numbers of float32 values in their order: units in the last place are differences of these. */
INLINE vi IN(ordered32)(const float *at) {
    vi x, sign;
    memcpy(&x, at, sizeof x);
    sign = x >> 31;
    return ((x & INT32_MAX) ^ sign) - sign;
}

/* The greatest distance in units in the last place of n float32 values, n a multiple of 16. */
INLINE uint64_t IN(units32)(const float *a, const float *b, Py_ssize_t n) {
    vj top = {0};
    uint32_t most = 0;
    for (Py_ssize_t i = 0; i < n; i += 2 * W) {
        vi x = IN(ordered32)(a + i), y = IN(ordered32)(b + i);
        vj up = (vj)(x > y), apart = (vj)x - (vj)y; /* in unsigned, for it may take 32 bits */
        apart = (apart & up) | (-apart & ~up);
        vj more = (vj)(apart > top);
        top = (apart & more) | (top & ~more);
    }
    for (int k = 0; k < 2 * W; k++)
        most = top[k] > most ? top[k] : most;
    return most;
}

INLINE vl IN(ordered64)(const double *at) {
    vl x, sign;
    memcpy(&x, at, sizeof x);
    sign = x >> 63;
    return ((x & INT64_MAX) ^ sign) - sign;
}

/* as units32 */
INLINE uint64_t IN(units64)(const double *a, const double *b, Py_ssize_t n) {
    vu top = {0};
    uint64_t most = 0;
    for (Py_ssize_t i = 0; i < n; i += W) {
        vl x = IN(ordered64)(a + i), y = IN(ordered64)(b + i);
        vu up = (vu)(x > y), apart = (vu)x - (vu)y;
        apart = (apart & up) | (-apart & ~up);
        vu more = (vu)(apart > top);
        top = (apart & more) | (top & ~more);
    }
    for (int k = 0; k < W; k++)
        most = top[k] > most ? top[k] : most;
    return most;
}

#undef JOINED
#undef NAMED
#undef IN
#undef GROUPS
#undef vd
#undef vl
#undef vu
#undef vf
#undef vi
#undef vj
#undef W
