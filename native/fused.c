/* The statistics of two tensors in one pass: src/paralign/comparison/compiled.py calls it, kernel.py beside it is the same in numpy.
 *
 * Both tensors are taken in chunks that stay in the first-level cache. A chunk is compared as bytes, then its sums are taken in
 * float64, lane by lane in an order that does not depend on the processor (lanes.h): as nothing is contracted to a fused
 * multiply-add that would round otherwise (the build says so), every machine gets the same bits. A chunk with NaN or
 * infinities is done again element by element. Squares of float32 always fit into float64; a chunk of float64 whose squares do not
 * is left to numpy: the pass stops before it, and says where.
 */
#define PY_SSIZE_T_CLEAN
#if !defined(Py_GIL_DISABLED) && !defined(PARALIGN_WHOLE_API)
#define Py_LIMITED_API 0x030b0000 /* the buffer protocol is part of it from 3.11 on */
#endif
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define CHUNK 2048 /* elements: two of float64 take 32 KB, a first-level cache */
#define INTERFACE 1 /* of `compare`; compiled.py expects one, so that a file of another version is not used */
#ifndef PARALIGN_SOURCES
#define PARALIGN_SOURCES "" /* build_fused.py gives the digest of what it compiles; compiled.py compares it where the sources are */
#endif
#define LOW 1e-200 /* sums of squares of float64 between which no square can have been lost; kernel.py has the same */
#define HIGH 1e280
#define VANISHING 1e-290 /* products below it may have lost digits */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OWN_ORDER '<'
#else
#define OWN_ORDER '>'
#endif

enum kind { FLOAT32, FLOAT64, FLOAT16, BFLOAT16 };
static const char *const FORMATS[] = {"f", "d", "e", "H"};
static const Py_ssize_t SIZES[] = {4, 8, 2, 2};
static const double SPACINGS[] = {0x1p-23, 0x1p-52, 0x1p-10, 0x1p-7}; /* from 1 to the next value */

struct job {
    const char *reference, *candidate;
    Py_ssize_t count;
    int kind, tolerant, shown;
    double atol, rtol;
};

/* what the pass came to; `done` elements are in it, the next ones are numpy's */
struct part {
    Py_ssize_t done, max_abs_at, max_rel_at;
    long long finite, mismatched, exceeding, nan, inf, nan_reference, nan_candidate, inf_reference, inf_candidate;
    double reference, candidate, error, product, absolute, max_abs, max_rel;
    uint64_t ulp;
};

/* sums and greatest error of one chunk */
struct sums {
    double reference, candidate, error, product, top, absolute;
    long long differing;
    int rises; /* whether a relative error is above the limit that was given */
};

/* the loops for each width of vectors, see there; `width` is known where they are inlined */
#define W 2
#include "lanes.h"
#define W 4
#include "lanes.h"
#define WITH_WIDTH(name, ...) (width == 4 ? name##4(__VA_ARGS__) : name##2(__VA_ARGS__))

INLINE int32_t ordered16(uint16_t bits) { return bits & 0x8000 ? -(int32_t)(bits & 0x7fff) : bits; }

INLINE uint64_t units16(const uint16_t *a, const uint16_t *b, Py_ssize_t n) {
    int32_t most = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        int32_t apart = ordered16(a[i]) - ordered16(b[i]);
        apart = apart < 0 ? -apart : apart;
        most = apart > most ? apart : most;
    }
    return (uint64_t)most;
}

/* The values of float16 bits: their bits put into float32's places, and the exponent's bias mended by a product that is exact. */
INLINE void widen16(int width, const uint16_t *from, float *to, Py_ssize_t n) {
    Py_ssize_t i = 0;
#if defined(__x86_64__)
    for (; width == 4 && i + 8 <= n; i += 8)
        __asm__("vcvtph2ps %1, %%ymm0\n\tvmovups %%ymm0, %0"
                : "=m"(*(struct { char bytes[32]; } *)(to + i))
                : "m"(*(const struct { char bytes[16]; } *)(from + i))
                : "xmm0");
#endif
    (void)width;
    for (; i < n; i++) {
        uint32_t bits = from[i], rest = bits & 0x7fff, raised = rest << 13, put;
        float value;
        memcpy(&value, &raised, sizeof value);
        value *= 0x1p112f;
        memcpy(&put, &value, sizeof put);
        put = rest >= 0x7c00 ? raised | 0x7f800000 : put;
        put |= (bits & 0x8000) << 16;
        memcpy(to + i, &put, sizeof put);
    }
}

INLINE void widen_brain(const uint16_t *from, float *to, Py_ssize_t n) {
    for (Py_ssize_t i = 0; i < n; i++) {
        uint32_t put = (uint32_t)from[i] << 16;
        memcpy(to + i, &put, sizeof put);
    }
}

INLINE double value_at(const void *a, Py_ssize_t i, int wide) { return wide ? ((const double *)a)[i] : (double)((const float *)a)[i]; }

/* Where the greatest absolute error of a chunk of n elements first stands; never behind its last element. */
INLINE void place_greatest(struct part *p, const void *a, const void *b, Py_ssize_t start, Py_ssize_t n, int wide, double top) {
    Py_ssize_t i = 0;
    while (i + 1 < n && fabs(value_at(a, i, wide) - value_at(b, i, wide)) != top)
        i++;
    p->max_abs = top;
    p->max_abs_at = start + i;
}

INLINE void offer_relative(struct part *p, double e, double x, Py_ssize_t at) {
    double ratio = x != 0 ? e / fabs(x) : 0;
    if (ratio > p->max_rel) {
        p->max_rel = ratio;
        p->max_rel_at = at;
    }
}

INLINE long long beyond(const void *a, const void *b, Py_ssize_t n, int wide, const struct job *job) {
    long long count = 0;
    for (Py_ssize_t i = 0; i < n; i++) {
        double x = value_at(a, i, wide), allowed = fabs(x) * job->rtol;
        allowed += job->atol;
        count += fabs(x - value_at(b, i, wide)) > allowed;
    }
    return count;
}

/* The greatest distance in units in the last place of elements [from, from + n) of the chunk that starts at `start`. */
INLINE uint64_t units(int width, const struct job *job, const void *a, const void *b, Py_ssize_t start, Py_ssize_t from, Py_ssize_t n) {
    if (job->kind == FLOAT64)
        return WITH_WIDTH(units64, (const double *)a + from, (const double *)b + from, n);
    if (job->kind == FLOAT16)
        return units16((const uint16_t *)job->reference + start + from, (const uint16_t *)job->candidate + start + from, n);
    uint64_t apart = WITH_WIDTH(units32, (const float *)a + from, (const float *)b + from, n);
    return job->kind == BFLOAT16 ? apart >> 16 : apart;
}

/* One element at a time, for chunks with NaN or infinities; float32 only, whose sums need no scale. */
INLINE void add_any(int width, struct part *p, const struct job *job, const float *a, const float *b, Py_ssize_t start, Py_ssize_t n) {
    float alone[2][16] = {{0}};
    struct sums s = {.absolute = 0};
    for (Py_ssize_t i = 0; i < n; i++) {
        double x = a[i], y = b[i];
        if (isfinite(x) && isfinite(y)) {
            double e = fabs(x - y), allowed = fabs(x) * job->rtol;
            allowed += job->atol;
            p->finite++;
            p->mismatched += x != y;
            p->exceeding += job->tolerant && e > allowed;
            s.reference += x * x;
            s.candidate += y * y;
            s.product += x * y;
            s.error += e * e;
            s.absolute += e;
            if (e > p->max_abs) {
                p->max_abs = e;
                p->max_abs_at = start + i;
            }
            offer_relative(p, e, x, start + i);
            if (job->shown && x != y) {
                alone[0][0] = a[i], alone[1][0] = b[i];
                uint64_t apart = job->kind == FLOAT16
                                     ? units16((const uint16_t *)job->reference + start + i, (const uint16_t *)job->candidate + start + i, 1)
                                     : WITH_WIDTH(units32, alone[0], alone[1], 16);
                apart >>= job->kind == BFLOAT16 ? 16 : 0;
                p->ulp = apart > p->ulp ? apart : p->ulp;
            }
            continue;
        }
        int nan[2] = {isnan(x), isnan(y)}, inf[2] = {isinf(x) != 0, isinf(y) != 0}, differ = !(x == y || (nan[0] && nan[1]));
        p->mismatched += differ;
        p->exceeding += job->tolerant && differ;
        p->nan += nan[0] != nan[1];
        p->inf += (inf[0] || inf[1]) && x != y;
        p->nan_reference += nan[0];
        p->nan_candidate += nan[1];
        p->inf_reference += inf[0];
        p->inf_candidate += inf[1];
    }
    p->reference += s.reference;
    p->candidate += s.candidate;
    p->product += s.product;
    p->error += s.error;
    p->absolute += s.absolute;
}

/* The relative error up to which an element changes neither the greatest one nor the greatest distance in units in the last place.
 *
 * Between x and y, which is x * known away from it at most, values lie more than |x| * (1 - known) * spacing / 2 apart.
 */
INLINE double known_of(const struct part *p, int kind) {
    double units = p->ulp > 1 ? (double)(p->ulp - 1) * SPACINGS[kind] / 2 : 0;
    double near = units / (1 + units) * (1 - 0x1p-30), seen = p->max_rel * (1 - 0x1p-50);
    return near < seen ? near : seen;
}

/* What is shown of a chunk, where it may be greater than before. */
INLINE void raise_shown(int width, struct part *p, const struct job *job, const void *a, const void *b, Py_ssize_t start, Py_ssize_t n, Py_ssize_t padded,
                        int wide) {
    if (WITH_WIDTH(greatest_ratio, a, b, padded, wide) > p->max_rel)
        for (Py_ssize_t i = 0; i < n; i++)
            offer_relative(p, fabs(value_at(a, i, wide) - value_at(b, i, wide)), value_at(a, i, wide), start + i);
    uint64_t apart = units(width, job, a, b, start, 0, job->kind == FLOAT16 ? n : padded);
    p->ulp = apart > p->ulp ? apart : p->ulp;
}

/* Whether the squares of float64 values lost nothing; sums of float32's never do, if they are finite. */
INLINE int ordinary(double sum, const void *a, Py_ssize_t n, int wide) {
    if (!wide)
        return isfinite(sum);
    if (LOW < sum && sum < HIGH)
        return 1;
    for (Py_ssize_t i = 0; i < n; i++)
        if (((const double *)a)[i] != 0)
            return 0;
    return sum == 0;
}

/* Add a chunk of which both sides hold the same bits; 0 where not all is finite and ordinary. */
INLINE int add_equal(int width, struct part *p, const void *a, Py_ssize_t n, Py_ssize_t padded, int wide) {
    double sum = WITH_WIDTH(squares, a, padded, wide);
    if (!ordinary(sum, a, n, wide))
        return 0;
    p->finite += n;
    p->reference += sum;
    p->candidate += sum;
    p->product += sum;
    return 1;
}

/* Add n elements from index `start` on; `padded` of them can be read, zeros where n ends. 0: not done, they are numpy's. */
INLINE int add_chunk(int width, struct part *p, const struct job *job, const void *a, const void *b, Py_ssize_t start, Py_ssize_t n, Py_ssize_t padded,
                     int wide, int shown) {
    struct sums s;
    int same = memcmp(a, b, (size_t)n * (wide ? sizeof(double) : sizeof(float))) == 0;
    if (same && add_equal(width, p, a, n, padded, wide))
        return 1;
    WITH_WIDTH(sum_up, a, b, padded, wide, shown, known_of(p, job->kind), &s);
    if (!ordinary(s.reference, a, n, wide) || !ordinary(s.candidate, b, n, wide) || (wide && s.differing && !(LOW < s.error && s.error < HIGH))) {
        if (!wide)
            add_any(width, p, job, a, b, start, n);
        return !wide;
    }
    p->finite += n;
    p->mismatched += s.differing;
    p->reference += s.reference;
    p->candidate += s.candidate;
    p->error += s.error;
    p->product += s.product;
    if (!s.differing)
        return 1;
    if (s.top > p->max_abs)
        place_greatest(p, a, b, start, n, wide, s.top);
    if (job->tolerant)
        p->exceeding += beyond(a, b, n, wide, job);
    if (!shown)
        return 1;
    p->absolute += s.absolute;
    if (s.rises)
        raise_shown(width, p, job, a, b, start, n, padded, wide);
    return 1;
}

/* A chunk as float32 or float64 in `room`, with zeros after it; or where it lies, if that does. */
INLINE const void *chunk_of(int width, const char *from, Py_ssize_t at, Py_ssize_t n, int kind, void *room) {
    const char *here = from + at * SIZES[kind];
    if (kind == FLOAT16 || kind == BFLOAT16) {
        if (n < CHUNK)
            memset(room, 0, CHUNK * sizeof(float));
        if (kind == FLOAT16)
            widen16(width, (const uint16_t *)here, room, n);
        else
            widen_brain((const uint16_t *)here, room, n);
        return room;
    }
    if (n == CHUNK)
        return here;
    memset(room, 0, CHUNK * SIZES[kind]);
    memcpy(room, here, (size_t)(n * SIZES[kind]));
    return room;
}

INLINE void pass(int width, const struct job *job, struct part *p, int wide, int shown) {
    double rooms[2][CHUNK];
    while (p->done < job->count) {
        Py_ssize_t left = job->count - p->done, n = left < CHUNK ? left : CHUNK, padded = (n + 15) / 16 * 16;
        const void *a = chunk_of(width, job->reference, p->done, n, job->kind, rooms[0]);
        const void *b = chunk_of(width, job->candidate, p->done, n, job->kind, rooms[1]);
        if (!add_chunk(width, p, job, a, b, p->done, n, padded, wide, shown))
            return;
        p->done += n;
    }
}

INLINE void pass_any(int width, const struct job *job, struct part *p) {
    if (job->kind == FLOAT64)
        job->shown ? pass(width, job, p, 1, 1) : pass(width, job, p, 1, 0);
    else
        job->shown ? pass(width, job, p, 0, 1) : pass(width, job, p, 0, 0);
}

static void pass_plain(const struct job *job, struct part *p) { pass_any(2, job, p); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void pass_avx2(const struct job *job, struct part *p) { pass_any(4, job, p); }
__attribute__((target("avx2,avx512f,avx512vl,avx512dq,avx512bw"))) static void pass_avx512(const struct job *job, struct part *p) {
    pass_any(4, job, p);
}
#endif

/* The pass for this processor. `level` bounds what of it is used (0: what every one has), for tests: the numbers do not depend on it. */
static void (*best_pass(int level))(const struct job *, struct part *) {
#if defined(__x86_64__)
    int narrow = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); /* both passes use them */
    int vectors = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
    if (level > 1 && narrow && vectors && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return pass_avx512;
    if (level > 0 && narrow)
        return pass_avx2;
#endif
    (void)level;
    return pass_plain;
}

/* The values behind an object, if they are of the kind, contiguous, and of the machine's byte order. */
static int view_of(PyObject *object, int kind, Py_buffer *view) {
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0)
        return -1;
    const char *format = view->format ? view->format : "B";
    format += *format == '@' || *format == '=' || *format == OWN_ORDER;
    int aligned = (uintptr_t)view->buf % (uintptr_t)SIZES[kind] == 0;
    if (aligned && view->itemsize == SIZES[kind] && strcmp(format, FORMATS[kind]) == 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "a buffer of %s values of %zd bytes%s, where %s of %zd are due", view->format ? view->format : "B",
                 view->itemsize, aligned ? "" : ", not aligned", FORMATS[kind], SIZES[kind]);
    PyBuffer_Release(view);
    return -1;
}

static PyObject *as_tuple(const struct part *p) {
    return Py_BuildValue("(nLLLLLLLLLddddddndnK)", p->done, p->finite, p->mismatched, p->exceeding, p->nan, p->inf, p->nan_reference,
                         p->nan_candidate, p->inf_reference, p->inf_candidate, p->reference, p->candidate, p->error, p->product, p->absolute,
                         p->max_abs, p->max_abs_at, p->max_rel, p->max_rel_at,
                         (unsigned long long)p->ulp);
}

static PyObject *compare(PyObject *module, PyObject *arguments) {
    (void)module;
    PyObject *reference, *candidate;
    struct job job;
    int level;
    memset(&job, 0, sizeof job);
    if (!PyArg_ParseTuple(arguments, "OOiddppi", &reference, &candidate, &job.kind, &job.atol, &job.rtol, &job.tolerant, &job.shown, &level))
        return NULL;
    if (job.kind < FLOAT32 || job.kind > BFLOAT16)
        return PyErr_Format(PyExc_ValueError, "there is no kind %d", job.kind);
    Py_buffer views[2];
    if (view_of(reference, job.kind, &views[0]) < 0)
        return NULL;
    if (view_of(candidate, job.kind, &views[1]) < 0) {
        PyBuffer_Release(&views[0]);
        return NULL;
    }
    PyObject *result = NULL;
    if (views[0].len != views[1].len) {
        PyErr_Format(PyExc_ValueError, "buffers of %zd and %zd bytes", views[0].len, views[1].len);
    } else {
        struct part part;
        memset(&part, 0, sizeof part);
        part.max_abs_at = part.max_rel_at = -1;
        job.reference = views[0].buf;
        job.candidate = views[1].buf;
        job.count = views[0].len / SIZES[job.kind];
        Py_BEGIN_ALLOW_THREADS
        best_pass(level)(&job, &part);
        Py_END_ALLOW_THREADS
        result = as_tuple(&part);
    }
    PyBuffer_Release(&views[0]);
    PyBuffer_Release(&views[1]);
    return result;
}

static PyMethodDef METHODS[] = {
    {"compare", compare, METH_VARARGS,
     "compare(reference, candidate, kind, atol, rtol, tolerant, shown, level): the figures of two buffers, up to where numpy has to go on"},
    {NULL, NULL, 0, NULL}};

static int add_interface(PyObject *module) {
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE) < 0)
        return -1;
    return PyModule_AddStringConstant(module, "SOURCES", PARALIGN_SOURCES);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, add_interface}, {0, NULL}};
static struct PyModuleDef MODULE = {PyModuleDef_HEAD_INIT, "_fused", "Statistics of two tensors in one pass.", 0, METHODS, SLOTS, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__fused(void) { return PyModuleDef_Init(&MODULE); }
