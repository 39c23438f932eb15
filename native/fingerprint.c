/* Digest and sketch of a tensor in one pass, and its excess over levels in another: src/paralign/capture/compiled_passes.py calls it.
 *
 * The elements are taken in chunks of 512 rows of 1021, as sketches are defined. A chunk's sums are taken in float64, lane by lane in
 * an order that depends neither on the processor nor on the number of threads, its bins in the elements' own type over 64 rows and in
 * float64 beyond. Python's headers are not needed: addresses come from the frameworks, and one file serves every Python.
 */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define EXPORTED __attribute__((visibility("default")))
#define INTERFACE 2 /* compiled_passes.py expects one, so that a file of another version is not used */
#ifndef PARALIGN_SOURCES
#define PARALIGN_SOURCES ""
#endif
#define SIZE 1021 /* bins, rows, elements of a chunk: as in capture/sketch.py */
#define ROWS 512
#define CHUNK (SIZE * ROWS)
#define SPAN 64 /* rows whose bins are added in the elements' own type */
#define SUMS 5 /* numbers of a chunk: least, greatest, sums of x, x**2, x**4 */
#define LEVELS 3
#define LANES 8
#define STREAMS 2 /* sets of lanes */
#define THREADS 8

typedef void (*task)(void *);

struct job {
    task work;
    const char *values;
    const int8_t *signs;
    double *folds, *sums;
    double factor;
    const double *levels;
    int64_t count, chunks; /* elements; chunks of them */
    int wide, inside;      /* whether elements take eight bytes; how many levels there are */
    _Atomic int64_t next;  /* the first chunk that no thread has taken */
};

#define TYPE float
#define BITS uint32_t
#define SIGNED int32_t
#define W 2
#include "rows.h"
#undef W
#define W 4
#include "rows.h"
#undef W
#define W 8
#include "rows.h"
#undef W
#undef TYPE
#undef BITS
#undef SIGNED
#define TYPE double
#define BITS uint64_t
#define SIGNED int64_t
#define W 2
#include "rows.h"
#undef W
#define W 4
#include "rows.h"
#undef W
#define W 8
#include "rows.h"
#undef W
#undef TYPE
#undef BITS
#undef SIGNED
/* the loops of a type for a width that is known where they are inlined */
#define WITH_WIDTH(name, type, ...) \
    (width == 8 ? name##_##type##8(__VA_ARGS__) : width == 4 ? name##_##type##4(__VA_ARGS__) : name##_##type##2(__VA_ARGS__))

INLINE int64_t length_of(const struct job *job, int64_t chunk) {
    int64_t left = job->count - chunk * CHUNK;
    return left < CHUNK ? left : CHUNK;
}

INLINE int64_t taken(struct job *job) { return atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed); }

INLINE void survey_chunk(int width, const struct job *job, int64_t c, int scaled) {
    double *sums = job->sums + c * SUMS, *fold = job->folds ? job->folds + c * SIZE : 0;
    if (job->wide)
        WITH_WIDTH(survey, double, (const double *)job->values + c * CHUNK, length_of(job, c), job->factor, scaled, job->signs, fold, sums);
    else
        WITH_WIDTH(survey, float, (const float *)job->values + c * CHUNK, length_of(job, c), job->factor, scaled, job->signs, fold, sums);
}

INLINE void survey_all(int width, struct job *job) {
    for (int64_t c = taken(job); c < job->chunks; c = taken(job))
        if (job->factor == 1.0)
            survey_chunk(width, job, c, 0);
        else
            survey_chunk(width, job, c, 1);
}

INLINE void excess_chunk(int width, const struct job *job, int64_t c, int scaled, int inside) {
    double *sums = job->sums + c * LEVELS;
    if (job->wide)
        WITH_WIDTH(excess, double, (const double *)job->values + c * CHUNK, length_of(job, c), job->factor, scaled, job->levels, inside, sums);
    else
        WITH_WIDTH(excess, float, (const float *)job->values + c * CHUNK, length_of(job, c), job->factor, scaled, job->levels, inside, sums);
}

INLINE void excess_all(int width, struct job *job) {
    for (int64_t c = taken(job); c < job->chunks; c = taken(job))
        if (job->factor != 1.0)
            excess_chunk(width, job, c, 1, LEVELS);
        else if (job->inside == 1)
            excess_chunk(width, job, c, 0, 1);
        else if (job->inside == 2)
            excess_chunk(width, job, c, 0, 2);
        else
            excess_chunk(width, job, c, 0, LEVELS);
}

static void survey_plain(void *job) { survey_all(2, job); }
static void excess_plain(void *job) { excess_all(2, job); }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void survey_avx2(void *job) { survey_all(4, job); }
__attribute__((target("avx2"))) static void excess_avx2(void *job) { excess_all(4, job); }
__attribute__((target("avx2,avx512f,avx512vl,avx512dq,avx512bw"))) static void survey_avx512(void *job) { survey_all(8, job); }
__attribute__((target("avx2,avx512f,avx512vl,avx512dq,avx512bw"))) static void excess_avx512(void *job) { excess_all(8, job); }
#endif

/* How much of the processor is used, as far as `level` lets it: the numbers do not depend on it. */
static int width_of(int level) {
#if defined(__x86_64__)
    int narrow = __builtin_cpu_supports("avx2");
    int vectors = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl");
    if (level > 1 && narrow && vectors && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw"))
        return 2;
    return level > 0 && narrow;
#else
    (void)level;
    return 0;
#endif
}

/* libgomp's and libiomp5's function that has the threads of OpenMP do the same at once */
typedef void (*pool)(task work, void *data, unsigned threads, unsigned flags);

static void *started_for(void *job) { ((struct job *)job)->work(job); return 0; }

/* A task over all chunks, in so many threads; each takes the next chunk that is left. The framework's own threads wait for work without
 * resting, so theirs are asked where `parallel` is there. Where a thread cannot be started, the others do its part. */
static void spread(struct job *job, task work, int threads, void *parallel) {
    pthread_t started[THREADS];
    int running[THREADS] = {0};
    job->work = work;
    job->chunks = (job->count + CHUNK - 1) / CHUNK;
    atomic_init(&job->next, 0);
    if (threads > THREADS)
        threads = THREADS;
    if (threads > job->chunks)
        threads = (int)job->chunks;
    if (parallel && threads > 1) {
        ((pool)parallel)(work, job, (unsigned)threads, 0);
        return;
    }
    for (int t = 1; t < threads; t++)
        running[t] = pthread_create(&started[t], 0, started_for, job) == 0;
    work(job);
    for (int t = 1; t < threads; t++)
        if (running[t])
            pthread_join(started[t], 0);
}

/* sums: SUMS numbers a chunk, the first NaN where an element is not finite; folds: SIZE numbers a chunk, or null. */
EXPORTED void survey(const void *values, int64_t count, int wide, double factor, const int8_t *signs, double *folds, double *sums, int threads,
                     int level, void *parallel) {
    struct job job = {.values = values, .signs = signs, .folds = folds, .sums = sums, .factor = factor, .count = count, .wide = wide};
#if defined(__x86_64__)
    task tasks[] = {survey_plain, survey_avx2, survey_avx512};
#else
    task tasks[] = {survey_plain};
#endif
    spread(&job, tasks[width_of(level)], threads, parallel);
}

/* sums: LEVELS numbers a chunk, the first `inside` of max(element * factor - level, 0) for each of so many levels. */
EXPORTED void excess(const void *values, int64_t count, int wide, double factor, const double *levels, int inside, double *sums, int threads, int level,
                     void *parallel) {
    struct job job = {.values = values, .sums = sums, .factor = factor, .levels = levels, .count = count, .wide = wide, .inside = inside};
#if defined(__x86_64__)
    task tasks[] = {excess_plain, excess_avx2, excess_avx512};
#else
    task tasks[] = {excess_plain};
#endif
    spread(&job, tasks[width_of(level)], threads, parallel);
}

EXPORTED int interface(void) { return INTERFACE; }
EXPORTED const char *sources(void) { return PARALIGN_SOURCES; }
