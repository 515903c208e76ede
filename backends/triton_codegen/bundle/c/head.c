/* Launches the kernels of a bundle through the CUDA driver: see loopir_launch.h.
 *
 * For gcc or clang on Linux: cc -std=c11 -c loopir_launch.c; link with -ldl -lpthread where the C
 * library wants that. libcuda.so.1 is loaded when a bundle is opened, not linked.
 */
#define _POSIX_C_SOURCE 200809L
#include "loopir_bundle.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
