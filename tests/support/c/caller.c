/* Runs the commands of its standard input against a bundle; a line of output for each that calls. */
#include "loopir_bundle.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static loopir_bundle *bundle;
static const loopir_program *program;
static loopir_tensor tensors[16];
static loopir_size sizes[16];
static char names[16][64];
static size_t tensor_count, size_count;
static loopir_workspace workspace;
static int has_workspace;
static unsigned long long stream;

static void enter_context(int number) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW), *context = NULL;
    int (*retain)(void **, int), (*enter)(void *);
    if (!library) return;
    *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
    *(void **)&enter = dlsym(library, "cuCtxSetCurrent");
    if (number >= 0) retain(&context, number);
    enter(context);
}

static int launch(void) {
    return loopir_launch(program, tensors, tensor_count, sizes, size_count,
                         has_workspace ? &workspace : NULL, (loopir_stream)(uintptr_t)stream);
}

static void *launch_often(void *failures) {
    enter_context(0);
    for (int i = 0; i < 50; i++) *(int *)failures += !!launch();
    return NULL;
}

static int launch_in_threads(void) {
    pthread_t threads[8];
    int failures[8] = {0}, all = 0;
    for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, launch_often, &failures[i]);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL), all += failures[i];
    return all;
}

static void add_tensor(const char *line) {
    loopir_tensor *t = &tensors[tensor_count++];
    unsigned long long data;
    int dtype, used = 0;
    sscanf(line, "%llu %d %d%n", &data, &dtype, &t->rank, &used);
    t->data = (void *)(uintptr_t)data;
    t->dtype = (loopir_dtype)dtype;
    for (int i = 0; i < 2 * t->rank; i++) {
        long long value;
        int more = 0;
        sscanf(line += used, "%lld%n", &value, &more);
        (i < t->rank ? t->sizes : t->strides)[i % t->rank] = value;
        used = more;
    }
}

static void set_workspace(const char *line) {
    unsigned long long data;
    sscanf(line, "%llu %zu %zu %d", &data, &workspace.bytes, &workspace.counter_bytes,
           &workspace.counters_are_zero);
    workspace.data = (void *)(uintptr_t)data;
    has_workspace = 1;
}

static void say(const char *command, int code) {
    printf("%s %d %s | %s\n", command, code, loopir_error_text(code), code ? loopir_last_error() : "");
}

static void ask_bytes(void) {
    size_t counters = 0, tiles = 0;
    int code = loopir_workspace_bytes(program, tensors, tensor_count, sizes, size_count, &counters,
                                      &tiles);
    say("bytes", code);
    printf("= %zu %zu\n", counters, tiles);
}

static void set_size(const char *line) {
    long long value;
    sscanf(line, "%63s %lld", names[size_count], &value);
    sizes[size_count].name = names[size_count];
    sizes[size_count++].value = value;
}

static void obey(const char *command, const char *rest) {
    if (!strcmp(command, "context")) enter_context(atoi(rest));
    else if (!strcmp(command, "open")) say(command, loopir_open(&loopir_tables, rest, &bundle));
    else if (!strcmp(command, "find")) say(command, loopir_find(bundle, rest, &program));
    else if (!strcmp(command, "tensor")) add_tensor(rest);
    else if (!strcmp(command, "size")) set_size(rest);
    else if (!strcmp(command, "stream")) sscanf(rest, "%llu", &stream);
    else if (!strcmp(command, "workspace")) set_workspace(rest);
    else if (!strcmp(command, "clear")) tensor_count = size_count = (size_t)(has_workspace = 0);
    else if (!strcmp(command, "load")) say(command, loopir_load(program));
    else if (!strcmp(command, "bytes")) ask_bytes();
    else if (!strcmp(command, "launch")) say(command, launch());
    else if (!strcmp(command, "threads")) say(command, launch_in_threads());
    else if (!strcmp(command, "close")) loopir_close(bundle), bundle = NULL;
    else printf("unknown command %s\n", command);
}

int main(void) {
    char line[4096], command[32];
    while (fgets(line, sizeof line, stdin)) {
        int used = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%31s %n", command, &used) == 1) obey(command, line + used);
    }
    loopir_close(bundle);
    return 0;
}
