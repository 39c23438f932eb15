/* The loops over one chunk of elements of TYPE, for vectors of W float64. fingerprint.c includes this once for each pair: W is 2 on every
 * processor, 4 with AVX2, 8 with AVX-512. All keep eight sums in the same lanes and add these up in the same order, so that the bits are the
 * same; vectors wider than the processor's would be taken apart element by element.
 */
#define JOINED(name, type, width) name##_##type##width
#define NAMED(name, type, width) JOINED(name, type, width)
#define OF(name) NAMED(name, TYPE, W)
#define GROUPS (LANES / W)
#define lanes OF(lanes)
#define narrow OF(narrow)
#define mask OF(mask)

typedef double lanes __attribute__((vector_size(8 * W)));
typedef TYPE narrow __attribute__((vector_size(sizeof(TYPE) * W)));
typedef int64_t mask __attribute__((vector_size(8 * W)));

INLINE lanes OF(chosen)(mask where, lanes x, lanes y) { return (lanes)(((mask)x & where) | ((mask)y & ~where)); }

INLINE double OF(total)(const lanes *groups) {
    double s[LANES];
    memcpy(s, groups, sizeof s);
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

INLINE lanes OF(widened)(const TYPE *at) {
    narrow x;
    memcpy(&x, at, sizeof x);
    return __builtin_convertvector(x, lanes);
}

/* The sums of n elements, n a multiple of LANES, are added to those so far; sums are zero and low and high infinite before the first. */
INLINE void OF(add_up)(const TYPE *values, int64_t n, double factor, lanes *low, lanes *high, lanes *plain, lanes *squares, lanes *fourths,
                       lanes *wrong) {
    for (int64_t i = 0; i < n; i += LANES)
        for (int k = 0; k < GROUPS; k++) {
            lanes x = OF(widened)(values + i + W * k);
            low[k] = OF(chosen)(x < low[k], x, low[k]);
            high[k] = OF(chosen)(x > high[k], x, high[k]);
            wrong[k] += x * 0.0; /* NaN for what is not finite */
            x *= factor;
            lanes square = x * x;
            plain[k] += x;
            squares[k] += square;
            fourths[k] += square * square;
        }
}

/* Sums of the bins of a chunk. */
INLINE void OF(fold)(const TYPE *values, int64_t n, const int8_t *signs, double *fold) {
    TYPE bins[SIZE];
    memset(fold, 0, SIZE * sizeof *fold);
    for (int64_t start = 0; start < n; start += SPAN * SIZE) {
        int64_t stop = n - start < SPAN * SIZE ? n : start + SPAN * SIZE;
        memset(bins, 0, sizeof bins);
        for (int64_t row = start; row < stop; row += SIZE) {
            const TYPE *x = values + row;
            const int8_t *sign = signs + row;
            int64_t width = stop - row < SIZE ? stop - row : SIZE;
            for (int64_t j = 0; j < width; j++)
                bins[j] += x[j] * (TYPE)sign[j];
        }
        for (int j = 0; j < SIZE; j++)
            fold[j] += bins[j];
    }
}

INLINE void OF(survey)(const TYPE *values, int64_t n, double factor, const int8_t *signs, double *fold, double *sums) {
    lanes plain[GROUPS] = {{0}}, squares[GROUPS] = {{0}}, fourths[GROUPS] = {{0}}, wrong[GROUPS] = {{0}}, low[GROUPS], high[GROUPS];
    double least[LANES], greatest[LANES];
    TYPE rest[LANES];
    int64_t whole = n / LANES * LANES;
    for (int k = 0; k < LANES; k++)
        least[k] = INFINITY, greatest[k] = -INFINITY;
    memcpy(low, least, sizeof least);
    memcpy(high, greatest, sizeof greatest);
    OF(add_up)(values, whole, factor, low, high, plain, squares, fourths, wrong);
    memcpy(least, low, sizeof least);
    memcpy(greatest, high, sizeof greatest);
    sums[0] = INFINITY, sums[1] = -INFINITY;
    for (int k = 0; k < LANES; k++) {
        sums[0] = least[k] < sums[0] ? least[k] : sums[0];
        sums[1] = greatest[k] > sums[1] ? greatest[k] : sums[1];
    }
    if (whole < n) { /* those that are left, with zeros, which are no extremes */
        for (int k = 0; k < LANES; k++) {
            rest[k] = whole + k < n ? values[whole + k] : 0;
            if (whole + k < n) {
                sums[0] = rest[k] < sums[0] ? rest[k] : sums[0];
                sums[1] = rest[k] > sums[1] ? rest[k] : sums[1];
            }
        }
        OF(add_up)(rest, LANES, factor, low, high, plain, squares, fourths, wrong);
    }
    if (OF(total)(wrong) != 0.0)
        sums[0] = NAN;
    sums[2] = OF(total)(plain), sums[3] = OF(total)(squares), sums[4] = OF(total)(fourths);
    if (fold)
        OF(fold)(values, n, signs, fold);
}

INLINE void OF(add_excess)(const TYPE *values, int64_t n, double factor, const double *levels, lanes (*above)[GROUPS]) {
    for (int64_t i = 0; i < n; i += LANES)
        for (int k = 0; k < GROUPS; k++) {
            lanes x = OF(widened)(values + i + W * k) * factor;
            for (int l = 0; l < LEVELS; l++) {
                lanes over = x - levels[l];
                above[l][k] += (lanes)((mask)over & (over > 0.0));
            }
        }
}

INLINE void OF(excess)(const TYPE *values, int64_t n, double factor, const double *levels, double *sums) {
    lanes above[LEVELS][GROUPS] = {{{0}}};
    int64_t whole = n / LANES * LANES;
    OF(add_excess)(values, whole, factor, levels, above);
    if (whole < n) {
        TYPE rest[LANES];
        for (int k = 0; k < LANES; k++)
            rest[k] = whole + k < n ? values[whole + k] : -(TYPE)INFINITY;
        OF(add_excess)(rest, LANES, factor, levels, above);
    }
    for (int l = 0; l < LEVELS; l++)
        sums[l] = OF(total)(above[l]);
}

#undef JOINED
#undef NAMED
#undef OF
#undef GROUPS
#undef lanes
#undef narrow
#undef mask
