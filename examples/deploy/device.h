/* What an example wants of the CUDA driver: a context, memory, a stream. Ends the program where the
 * driver refuses something. */
#ifndef DEVICE_H
#define DEVICE_H

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct CUstream_st *stream_t;
typedef unsigned long long address;

static void *driver_function(const char *name) {
    static void *library;
    if (!library) library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library ? dlsym(library, name) : NULL;
    if (found) return found;
    if (library) fprintf(stderr, "libcuda.so.1 has no %s: the driver is too old\n", name);
    else fprintf(stderr, "%s; is an NVIDIA driver installed?\n", dlerror());
    exit(2);
}

/* CALL(cuInit, (unsigned), (0)): a function of the driver, its parameters, the arguments. */
#define CALL(name, parameters, arguments) \
    do { \
        int(*function) parameters; \
        *(void **)&function = driver_function(#name); \
        int failed = function arguments; \
        if (failed) { \
            fprintf(stderr, #name ": error %d of the driver\n", failed); \
            exit(2); \
        } \
    } while (0)

static void open_device(int number) {
    void *context;
    int device;
    CALL(cuInit, (unsigned), (0));
    CALL(cuDeviceGet, (int *, int), (&device, number));
    CALL(cuDevicePrimaryCtxRetain, (void **, int), (&context, device));
    CALL(cuCtxSetCurrent, (void *), (context));
}

static stream_t new_stream(void) {
    stream_t stream;
    CALL(cuStreamCreate, (stream_t *, unsigned), (&stream, 1)); /* waits for no other stream */
    return stream;
}

static void wait_for(stream_t stream) { CALL(cuStreamSynchronize, (stream_t), (stream)); }

static void *device_memory(size_t bytes) {
    address found;
    CALL(cuMemAlloc_v2, (address *, size_t), (&found, bytes ? bytes : 1));
    return (void *)(uintptr_t)found;
}

static void to_device(void *to, const void *from, size_t bytes) {
    CALL(cuMemcpyHtoD_v2, (address, const void *, size_t), ((address)(uintptr_t)to, from, bytes));
}

static void from_device(void *to, const void *from, size_t bytes) {
    CALL(cuMemcpyDtoH_v2, (void *, address, size_t), (to, (address)(uintptr_t)from, bytes));
}

static void fill_device(void *to, unsigned char value, size_t bytes) {
    CALL(cuMemsetD8_v2, (address, unsigned char, size_t), ((address)(uintptr_t)to, value, bytes));
}

#endif
