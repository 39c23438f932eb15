/* Digest and sketch of a tensor in one pass, and its excess over levels in another: src/paralign/capture/compiled_passes.py calls it.
 *
 * The elements are taken in chunks of 512 rows of 1021, as sketches are defined. A chunk's sums are taken in float64, lane by lane in
 * an order that depends neither on the processor nor on the number of threads, its bins in the elements' own type over 64 rows and in
 * float64 beyond. Python's headers are not needed: addresses come from the frameworks, and one file serves every Python.
 */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define EXPORTED __attribute__((visibility("default")))
#define INTERFACE 1 /* compiled_passes.py expects one, so that a file of another version is not used */
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
#define THREADS 8

struct job {
    const char *values;
    const int8_t *signs;
    double *folds, *sums;
    double factor;
    const double *levels;
    int64_t count, begin, end; /* elements; the chunks of this thread */
    int wide;
};

#define TYPE float
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
#define TYPE double
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
/* the loops of a type for a width that is known where they are inlined */
#define WITH_WIDTH(name, type, ...) \
    (width == 8 ? name##_##type##8(__VA_ARGS__) : width == 4 ? name##_##type##4(__VA_ARGS__) : name##_##type##2(__VA_ARGS__))

INLINE int64_t length_of(const struct job *job, int64_t chunk) {
    int64_t left = job->count - chunk * CHUNK;
    return left < CHUNK ? left : CHUNK;
}

INLINE void survey_all(int width, const struct job *job) {
    for (int64_t c = job->begin; c < job->end; c++) {
        double *sums = job->sums + c * SUMS, *fold = job->folds ? job->folds + c * SIZE : 0;
        if (job->wide)
            WITH_WIDTH(survey, double, (const double *)job->values + c * CHUNK, length_of(job, c), job->factor, job->signs, fold, sums);
        else
            WITH_WIDTH(survey, float, (const float *)job->values + c * CHUNK, length_of(job, c), job->factor, job->signs, fold, sums);
    }
}

INLINE void excess_all(int width, const struct job *job) {
    for (int64_t c = job->begin; c < job->end; c++) {
        double *sums = job->sums + c * LEVELS;
        if (job->wide)
            WITH_WIDTH(excess, double, (const double *)job->values + c * CHUNK, length_of(job, c), job->factor, job->levels, sums);
        else
            WITH_WIDTH(excess, float, (const float *)job->values + c * CHUNK, length_of(job, c), job->factor, job->levels, sums);
    }
}

static void *survey_plain(void *job) { survey_all(2, job); return 0; }
static void *excess_plain(void *job) { excess_all(2, job); return 0; }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void *survey_avx2(void *job) { survey_all(4, job); return 0; }
__attribute__((target("avx2"))) static void *excess_avx2(void *job) { excess_all(4, job); return 0; }
__attribute__((target("avx2,avx512f,avx512vl,avx512dq,avx512bw"))) static void *survey_avx512(void *job) { survey_all(8, job); return 0; }
__attribute__((target("avx2,avx512f,avx512vl,avx512dq,avx512bw"))) static void *excess_avx512(void *job) { excess_all(8, job); return 0; }
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

typedef void *(*task)(void *);

/* A task over all chunks, in so many threads; where one cannot be started, its chunks are done here. */
static void spread(struct job job, task work, int threads) {
    int64_t chunks = (job.count + CHUNK - 1) / CHUNK;
    pthread_t started[THREADS];
    struct job jobs[THREADS];
    int running[THREADS] = {0};
    if (threads > THREADS)
        threads = THREADS;
    if (threads > chunks)
        threads = (int)chunks;
    for (int t = 0; t < threads; t++) {
        jobs[t] = job;
        jobs[t].begin = chunks * t / threads;
        jobs[t].end = chunks * (t + 1) / threads;
    }
    for (int t = 1; t < threads; t++)
        running[t] = pthread_create(&started[t], 0, work, &jobs[t]) == 0;
    for (int t = 0; t < threads; t++)
        if (!running[t])
            work(&jobs[t]);
    for (int t = 1; t < threads; t++)
        if (running[t])
            pthread_join(started[t], 0);
}

/* sums: SUMS numbers a chunk, the first NaN where an element is not finite; folds: SIZE numbers a chunk, or null. */
EXPORTED void survey(const void *values, int64_t count, int wide, double factor, const int8_t *signs, double *folds, double *sums, int threads,
                     int level) {
    struct job job = {values, signs, folds, sums, factor, 0, count, 0, 0, wide};
#if defined(__x86_64__)
    task tasks[] = {survey_plain, survey_avx2, survey_avx512};
#else
    task tasks[] = {survey_plain};
#endif
    spread(job, tasks[width_of(level)], threads);
}

/* sums: LEVELS numbers a chunk, of max(element * factor - level, 0) for each of LEVELS levels. */
EXPORTED void excess(const void *values, int64_t count, int wide, double factor, const double *levels, double *sums, int threads, int level) {
    struct job job = {values, 0, 0, sums, factor, levels, count, 0, 0, wide};
#if defined(__x86_64__)
    task tasks[] = {excess_plain, excess_avx2, excess_avx512};
#else
    task tasks[] = {excess_plain};
#endif
    spread(job, tasks[width_of(level)], threads);
}

EXPORTED int interface(void) { return INTERFACE; }
EXPORTED const char *sources(void) { return PARALIGN_SOURCES; }
