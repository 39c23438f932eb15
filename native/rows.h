/* The loops over one chunk of elements of TYPE, for vectors of W float64. fingerprint.c includes this once for each pair: W is 2 on every
 * processor, 4 with AVX2, 8 with AVX-512. All keep the same sums in the same lanes and add these up in the same order, so that the bits are the
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

/* The lesser of x and y, y where x is NaN. Compilers do not make one instruction of it; on x86 they are told it. */
INLINE lanes OF(lesser)(lanes x, lanes y) {
#if defined(__x86_64__) && W > 2
    __asm__("vminpd %0, %1, %0" : "+v"(y) : "v"(x));
    return y;
#else
    mask where = x < y;
    return (lanes)(((mask)x & where) | ((mask)y & ~where));
#endif
}

INLINE lanes OF(greater)(lanes x, lanes y) {
#if defined(__x86_64__) && W > 2
    __asm__("vmaxpd %0, %1, %0" : "+v"(y) : "v"(x));
    return y;
#else
    mask where = x > y;
    return (lanes)(((mask)x & where) | ((mask)y & ~where));
#endif
}

INLINE double OF(total)(const lanes *groups) {
    double s[LANES];
    memcpy(s, groups, sizeof s);
    return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

/* W elements as float64; on x86 by one instruction, of which compilers make four */
INLINE lanes OF(widened)(const TYPE *at) {
#if defined(__x86_64__) && W > 2
    if (sizeof(TYPE) < sizeof(double)) {
        lanes x;
        __asm__("vcvtps2pd %1, %0" : "=v"(x) : "m"(*(const struct { char bytes[4 * W]; } *)at));
        return x;
    }
#endif
    narrow x;
    memcpy(&x, at, sizeof x);
    return __builtin_convertvector(x, lanes);
}

/* What is known of the elements so far, in STREAMS sets of lanes: the more there are, the less an addition waits for the one before it. */
struct OF(sums) {
    lanes low[STREAMS][GROUPS], high[STREAMS][GROUPS], plain[STREAMS][GROUPS], squares[STREAMS][GROUPS], fourths[STREAMS][GROUPS];
};

/* Elements of each stream from `first` on: `length` of them, a multiple of LANES; those of the next stream follow. */
INLINE void OF(add_streams)(const TYPE *values, int64_t length, int first, int streams, double factor, int scaled, struct OF(sums) *sums) {
    for (int64_t i = 0; i < length; i += LANES)
        for (int s = first; s < first + streams; s++)
            for (int k = 0; k < GROUPS; k++) {
                lanes x = OF(widened)(values + s * length + i + W * k);
                sums->low[s][k] = OF(lesser)(x, sums->low[s][k]);
                sums->high[s][k] = OF(greater)(x, sums->high[s][k]);
                if (scaled)
                    x *= factor;
                lanes square = x * x;
                sums->plain[s][k] += x;
                sums->squares[s][k] += square;
                sums->fourths[s][k] += square * square;
            }
}

/* The same of all streams: together where the processor has registers for that, else one after the other, which gives the same bits. */
INLINE void OF(add_up)(const TYPE *values, int64_t length, double factor, int scaled, struct OF(sums) *sums) {
    if (W == 8)
        OF(add_streams)(values, length, 0, STREAMS, factor, scaled, sums);
    else
        for (int s = 0; s < STREAMS; s++)
            OF(add_streams)(values, length, s, 1, factor, scaled, sums);
}

/* An element times its sign, which is 1 or -1. */
INLINE TYPE OF(signed)(TYPE x, int8_t sign) {
    BITS bits;
    memcpy(&bits, &x, sizeof bits);
    bits ^= (BITS)(SIGNED)sign & ((BITS)1 << (8 * sizeof bits - 1));
    memcpy(&x, &bits, sizeof bits);
    return x;
}

/* The bins of n elements, at most SPAN rows, are added to those so far. */
INLINE void OF(fold)(const TYPE *values, int64_t n, const int8_t *signs, double *fold) {
    TYPE bins[SIZE] = {0};
    int64_t row = 0;
    for (; row + SIZE <= n; row += SIZE)
        for (int j = 0; j < SIZE; j++)
            bins[j] += OF(signed)(values[row + j], signs[row + j]);
    for (int64_t j = 0; j < n - row; j++)
        bins[j] += OF(signed)(values[row + j], signs[row + j]);
    for (int j = 0; j < SIZE; j++)
        fold[j] += bins[j];
}

/* Those that no stream has, fewer than LANES * STREAMS, with zeros, which are no extremes. */
INLINE void OF(add_rest)(const TYPE *values, int64_t n, double factor, int scaled, struct OF(sums) *sums, double *extremes) {
    TYPE rest[LANES * STREAMS] = {0};
    struct OF(sums) before = *sums;
    for (int64_t j = 0; j < n; j++) {
        rest[j] = values[j];
        extremes[0] = values[j] < extremes[0] ? values[j] : extremes[0];
        extremes[1] = values[j] > extremes[1] ? values[j] : extremes[1];
    }
    OF(add_up)(rest, LANES, factor, scaled, sums);
    memcpy(sums->low, before.low, sizeof before.low);
    memcpy(sums->high, before.high, sizeof before.high);
}

/* The figures of a chunk, and its bins if `fold` is there; a span is folded while it lies in the cache. */
INLINE void OF(survey)(const TYPE *values, int64_t n, double factor, int scaled, const int8_t *signs, double *fold, double *figures) {
    struct OF(sums) sums;
    double extremes[] = {INFINITY, -INFINITY}, least[STREAMS * LANES], greatest[STREAMS * LANES], totals[3] = {0};
    memset(&sums, 0, sizeof sums);
    for (int k = 0; k < STREAMS * LANES; k++)
        least[k] = INFINITY, greatest[k] = -INFINITY;
    memcpy(sums.low, least, sizeof least);
    memcpy(sums.high, greatest, sizeof greatest);
    if (fold)
        memset(fold, 0, SIZE * sizeof *fold);
    for (int64_t start = 0; start < n; start += SPAN * SIZE) {
        int64_t count = n - start < SPAN * SIZE ? n - start : SPAN * SIZE, length = count / (LANES * STREAMS) * LANES;
        OF(add_up)(values + start, length, factor, scaled, &sums);
        if (length * STREAMS < count)
            OF(add_rest)(values + start + length * STREAMS, count - length * STREAMS, factor, scaled, &sums, extremes);
        if (fold)
            OF(fold)(values + start, count, signs + start, fold);
    }
    memcpy(least, sums.low, sizeof least);
    memcpy(greatest, sums.high, sizeof greatest);
    for (int k = 0; k < STREAMS * LANES; k++) {
        extremes[0] = least[k] < extremes[0] ? least[k] : extremes[0];
        extremes[1] = greatest[k] > extremes[1] ? greatest[k] : extremes[1];
    }
    for (int s = 0; s < STREAMS; s++) {
        totals[0] += OF(total)(sums.plain[s]);
        totals[1] += OF(total)(sums.squares[s]);
        totals[2] += OF(total)(sums.fourths[s]);
    }
    figures[0] = isfinite(totals[0]) ? extremes[0] : NAN; /* NaN and infinity stay in a sum */
    figures[1] = extremes[1];
    memcpy(figures + 2, totals, sizeof totals);
}

/* As add_streams, of what elements have above each of so many levels. */
INLINE void OF(add_excess)(const TYPE *values, int64_t length, int first, int streams, double factor, int scaled, const double *levels, int count,
                           lanes (*above)[STREAMS][GROUPS]) {
    lanes zero = {0};
    for (int64_t i = 0; i < length; i += LANES)
        for (int s = first; s < first + streams; s++)
            for (int k = 0; k < GROUPS; k++) {
                lanes x = OF(widened)(values + s * length + i + W * k);
                if (scaled)
                    x *= factor;
                for (int l = 0; l < count; l++)
                    above[l][s][k] += OF(greater)(x - levels[l], zero);
            }
}

INLINE void OF(excess)(const TYPE *values, int64_t n, double factor, int scaled, const double *levels, int count, double *sums) {
    lanes above[LEVELS][STREAMS][GROUPS];
    int64_t length = n / (LANES * STREAMS) * LANES;
    memset(above, 0, sizeof above);
    if (W == 8)
        OF(add_excess)(values, length, 0, STREAMS, factor, scaled, levels, count, above);
    else
        for (int s = 0; s < STREAMS; s++)
            OF(add_excess)(values, length, s, 1, factor, scaled, levels, count, above);
    if (length * STREAMS < n) {
        TYPE rest[LANES * STREAMS];
        for (int64_t j = 0; j < LANES * STREAMS; j++)
            rest[j] = length * STREAMS + j < n ? values[length * STREAMS + j] : -(TYPE)INFINITY;
        OF(add_excess)(rest, LANES, 0, STREAMS, factor, scaled, levels, count, above);
    }
    for (int l = 0; l < count; l++) {
        sums[l] = 0;
        for (int s = 0; s < STREAMS; s++)
            sums[l] += OF(total)(above[l][s]);
    }
}

#undef JOINED
#undef NAMED
#undef OF
#undef GROUPS
#undef lanes
#undef narrow
#undef mask
