/* The tables of a bundle, as loopir_launch.c reads them. Written by the bundler, not by hand.
 *
 * Several bundles in one program: compile each loopir_bundle.c with -Dloopir_tables=NAME, and
 * declare `extern const struct loopir_tables NAME;`.
 */
#ifndef LOOPIR_BUNDLE_H
#define LOOPIR_BUNDLE_H

#include "loopir_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

#define LOOPIR_TABLES_VERSION 1
#define LOOPIR_MOST_TENSORS 16 /* of a program; so many parts of a workspace, too */
#define LOOPIR_MOST_VALUES 128
#define LOOPIR_MOST_KERNELS 8
#define LOOPIR_MOST_ARGUMENTS 128 /* of a kernel */
#define LOOPIR_MOST_MAPS 8
#define LOOPIR_MOST_DEPTH 32 /* of an expression's stack */
#define LOOPIR_MOST_MAP_DIMENSIONS 5

/* Expressions of integers, as programs for a stack. Buffers are numbered: tensors first, then parts
 * of the workspace. */
typedef enum {
    LOOPIR_CONSTANT, LOOPIR_VALUE, LOOPIR_EXTENT, LOOPIR_STRIDE, LOOPIR_ADDRESS,
    LOOPIR_ADD, LOOPIR_SUBTRACT, LOOPIR_MULTIPLY, LOOPIR_FLOOR_DIVIDE, LOOPIR_CEIL_DIVIDE,
    LOOPIR_MODULO, LOOPIR_MINIMUM, LOOPIR_MAXIMUM
} loopir_opcode;
typedef struct {
    loopir_opcode code;
    int64_t operand; /* the constant, or the number of a value, a tensor, a buffer */
    int dim;         /* of an extent, of a stride in elements */
} loopir_op;
typedef struct {
    const loopir_op *ops;
    int count;
} loopir_expression;

/* Sizes by name, each computed from those before it. `late`: only where some kernel has a block. */
typedef enum {
    LOOPIR_COMPUTED,
    LOOPIR_GIVEN, /* by the caller */
    LOOPIR_PICKED /* the least of the expression, the SMs, and what the caller says */
} loopir_value_kind;
typedef struct {
    const char *name; /* of a given or picked one: as the caller says it */
    loopir_value_kind kind;
    int is_late;
    loopir_expression expression;
} loopir_value;

typedef struct {
    const char *name;
    loopir_dtype dtype;
    int rank;
    int contiguous; /* dimension of stride 1, or -1 */
    int is_written;
    const loopir_expression *shape;
} loopir_parameter;

typedef struct {
    int a, b; /* tensors that may share no byte */
} loopir_pair;

/* A part of the workspace, at an offset from the start of the counters or of the tiles. */
typedef struct {
    const char *name;
    int is_counter;
    loopir_expression offset, bytes;
} loopir_part;

/* Holds where least <= expression <= most, and it is a multiple. */
typedef struct {
    loopir_expression expression;
    int64_t least, most, multiple_of;
} loopir_condition;

/* What cuTensorMapEncodeTiled is given; `dims`: of the tensor, the contiguous one first. */
typedef struct {
    int tensor, rank, data_type, element_bytes;
    int dims[LOOPIR_MOST_MAP_DIMENSIONS];
    uint32_t box[LOOPIR_MOST_MAP_DIMENSIONS];
    uint32_t element_strides[LOOPIR_MOST_MAP_DIMENSIONS];
    int interleave, swizzle, l2_promotion, oob_fill;
} loopir_map;

/* One for each parameter of the kernel: the number of a map, or an expression of 8 or 4 bytes. */
typedef enum { LOOPIR_64_BITS, LOOPIR_32_BITS, LOOPIR_TENSOR_MAP } loopir_argument_type;
typedef struct {
    loopir_argument_type type;
    int map;
    loopir_expression expression;
} loopir_argument;

/* A kernel compiled for one compute capability and one class of arguments. */
typedef struct {
    const char *symbol; /* name of the function in the image */
    int image;          /* place among the images */
    unsigned threads, shared_bytes;
    const loopir_condition *conditions;
    int condition_count;
    const loopir_map *maps;
    int map_count;
    const loopir_argument *arguments;
    int argument_count;
} loopir_variant;

/* The variants for one compute capability, in the order in which they are tried. */
typedef struct {
    int major, minor;
    int is_exact; /* no later minor capability runs them */
    const loopir_variant *variants;
    int variant_count;
    int first; /* number of the first variant among all of the bundle */
} loopir_build;

typedef struct {
    const char *name;
    loopir_expression blocks;
    const int *zeroed; /* buffers to zero before it */
    int zeroed_count;
    int overlaps; /* programmatic dependent launch */
    const loopir_build *builds;
    int build_count;
} loopir_kernel;

typedef struct {
    const char *name;
    const loopir_parameter *parameters;
    int parameter_count;
    const loopir_pair *pairs;
    int pair_count;
    const loopir_value *values;
    int value_count;
    loopir_expression counter_bytes, tile_bytes;
    const loopir_part *parts;
    int part_count;
    const loopir_kernel *kernels;
    int kernel_count;
} loopir_program_table;

typedef struct {
    const char *file; /* path below the bundle's folder */
    uint64_t bytes;
    const char *sha256; /* 64 lower-case hexadecimal digits */
} loopir_image;

struct loopir_tables {
    int version;      /* LOOPIR_TABLES_VERSION */
    int least_driver; /* as cuDriverGetVersion counts: 12040 for 12.4 */
    const loopir_image *images;
    int image_count;
    const loopir_program_table *programs;
    int program_count;
    int variant_count;
};

extern const struct loopir_tables loopir_tables;

#ifdef __cplusplus
}
#endif
#endif
