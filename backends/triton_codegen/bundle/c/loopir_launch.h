/* Launches the kernels of a bundle through the CUDA driver: C11 or C++, no Python, no CUDA headers.
 *
 *     loopir_bundle *bundle;
 *     const loopir_program *gemm;
 *     loopir_open(&loopir_tables, "path/of/the/bundle", &bundle);
 *     loopir_find(bundle, "gemm", &gemm);
 *     loopir_launch(gemm, tensors, 3, NULL, 0, &workspace, stream);
 *     loopir_close(bundle);
 *
 * Every function but the two of texts returns LOOPIR_OK or the code of what is wrong;
 * loopir_last_error() says it in words. The CUDA context that is current to the calling thread is
 * the one used. All functions but loopir_close() may be called by several threads at once.
 */
#ifndef LOOPIR_LAUNCH_H
#define LOOPIR_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LOOPIR_MOST_DIMENSIONS 8

typedef struct CUstream_st *loopir_stream; /* CUstream of cuda.h, cudaStream_t */
typedef struct loopir_tables loopir_tables_type; /* see loopir_bundle.h */
typedef struct loopir_bundle loopir_bundle;
typedef struct loopir_program loopir_program;

typedef enum {
    LOOPIR_F8E4M3, LOOPIR_F8E5M2, LOOPIR_F16, LOOPIR_BF16, LOOPIR_F32, LOOPIR_F64,
    LOOPIR_I8, LOOPIR_I16, LOOPIR_I32, LOOPIR_I64, LOOPIR_BOOL
} loopir_dtype;

typedef enum {
    LOOPIR_OK,
    LOOPIR_NO_DRIVER,
    LOOPIR_OLD_DRIVER,
    LOOPIR_NO_CONTEXT,
    LOOPIR_DRIVER_FAILED,
    LOOPIR_OTHER_TABLES,
    LOOPIR_NO_FILE,
    LOOPIR_WRONG_HASH,
    LOOPIR_NO_MEMORY,
    LOOPIR_NO_PROGRAM,
    LOOPIR_NO_IMAGE,
    LOOPIR_WRONG_COUNT,
    LOOPIR_NULL_POINTER,
    LOOPIR_WRONG_DTYPE,
    LOOPIR_WRONG_RANK,
    LOOPIR_WRONG_SIZE,
    LOOPIR_WRONG_STRIDE,
    LOOPIR_SHARED_MEMORY,
    LOOPIR_OVERFLOW,
    LOOPIR_GRID_TOO_LARGE,
    LOOPIR_WORKSPACE_TOO_SMALL,
    LOOPIR_MISALIGNED,
    LOOPIR_ERROR_COUNT
} loopir_error;

/* An argument. data: device address, null only where there is no element; sizes and strides in
 * elements, of `rank` dimensions. */
typedef struct {
    void *data;
    loopir_dtype dtype;
    int rank;
    int64_t sizes[LOOPIR_MOST_DIMENSIONS];
    int64_t strides[LOOPIR_MOST_DIMENSIONS];
} loopir_tensor;

/* A size that no tensor shows, or a limit of the grid: "units", "blocks_per_sm". */
typedef struct {
    const char *name;
    int64_t value;
} loopir_size;

/* Device memory of a launch beside its tensors, for one launch at a time: counters, then tiles.
 *
 * data: at a multiple of 16, of `bytes`. counter_bytes: how many at its start are counters, a
 * multiple of 256; 0: what the launch needs. counters_are_zero: the caller promises that they are
 * zero; else each launch zeroes those it uses. Every launch that ends leaves them zero, whatever
 * its sizes and its program; so the promise holds of memory whose counters were zeroed once, that
 * keeps its counter_bytes (not 0), and that launches use one after the other. Tiles hold anything.
 */
typedef struct {
    void *data;
    size_t bytes;
    size_t counter_bytes;
    int counters_are_zero;
} loopir_workspace;

/* Loads the driver, and reads and verifies (size, SHA-256) every CUDA binary below `folder`.
 * `tables`: &loopir_tables of the bundle's loopir_bundle.c. Needs no context. */
int loopir_open(const loopir_tables_type *tables, const char *folder, loopir_bundle **bundle);

/* Unloads and forgets everything. No kernel of it may be running, no other thread in a call. */
void loopir_close(loopir_bundle *bundle);

/* The program of that name. */
int loopir_find(const loopir_bundle *bundle, const char *name, const loopir_program **program);

/* Loads all kernels of a program that the current context can run. A launch loads what it lacks;
 * call this before the capture of a CUDA graph, where nothing may be loaded. */
int loopir_load(const loopir_program *program);

/* What a launch of such arguments needs of a workspace, in all counter_bytes + tile_bytes; both are
 * 0 where it needs none. A program that picks the size of its grid wants a current context. */
int loopir_workspace_bytes(const loopir_program *program, const loopir_tensor *tensors,
                           size_t tensor_count, const loopir_size *sizes, size_t size_count,
                           size_t *counter_bytes, size_t *tile_bytes);

/* Checks everything, then enqueues on `stream` all that the program does: zeroing, and its kernels
 * in order. Allocates nothing on the device, waits for nothing, and can be captured by a graph.
 * `workspace`: may be null where none is needed. After LOOPIR_DRIVER_FAILED outputs and counters
 * may hold anything; after any other error nothing was enqueued. */
int loopir_launch(const loopir_program *program, const loopir_tensor *tensors, size_t tensor_count,
                  const loopir_size *sizes, size_t size_count, const loopir_workspace *workspace,
                  loopir_stream stream);

/* A tensor whose last dimension is contiguous and that has no gaps. */
loopir_tensor loopir_dense(void *data, loopir_dtype dtype, int rank, const int64_t *sizes);

/* The meaning of a code. */
const char *loopir_error_text(int code);

/* Of the last failure of this thread: what, where, what was expected. */
const char *loopir_last_error(void);

#ifdef __cplusplus
}
#endif
#endif
