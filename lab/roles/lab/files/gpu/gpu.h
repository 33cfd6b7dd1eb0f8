/*
 * Copyright: kubegpu.tenancy contributors
 * GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * The simulated GPUs of a lab. A DOUBLE: no NVIDIA code, no GPU, nothing computes.
 *
 * A GPU is a device node /dev/nvidiaN, and its identity depends on the lab's name and N alone. Host, node and pod
 * therefore agree on a GPU's UUID, whichever nodes each of them sees.
 *
 * Compiled once per lab:
 *   gcc -O2 -Wall -Wextra -shared -fPIC -DLAB_NAME='"lab"' -Wl,-soname,libnvidia-ml.so.1 \
 *       -o libnvidia-ml.so.580.95.05 nvml.c
 *   gcc -O2 -Wall -Wextra -static -DLAB_NAME='"lab"' -o nvidia-smi nvidia-smi.c     (needs libc.a)
 *
 * What a GPU host needs for NVIDIA's own container toolkit to find a driver (the library directory is Debian's
 * /usr/lib/x86_64-linux-gnu, Fedora's /usr/lib64):
 *   LIBDIR/libnvidia-ml.so.580.95.05       the file name's suffix is the driver version
 *   LIBDIR/libnvidia-ml.so.1               link to the former; then run ldconfig
 *   /usr/bin/nvidia-smi
 *   /dev/nvidia0, /dev/nvidia1, ...        character devices 195:N
 *   /dev/nvidiactl                         character device 195:255
 */
#ifndef GPU_H
#define GPU_H

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#ifndef LAB_NAME
#define LAB_NAME "lab"
#endif
#ifndef GPU_NAME
#define GPU_NAME "NVIDIA H200"
#endif
#ifndef GPU_MEMORY_MIB
#define GPU_MEMORY_MIB 143771
#endif
#ifndef DRIVER_VERSION
#define DRIVER_VERSION "580.95.05"
#endif
#ifndef CUDA_VERSION /* 1000 * major + 10 * minor */
#define CUDA_VERSION 13000
#endif
#ifndef DEV_DIR
#define DEV_DIR "/dev"
#endif

#define GPU_MAX 32       /* device nodes nvidia0 to nvidia31 */
#define GPU_PCI_BUS 0xd0 /* nvidiaN sits on bus 0xd0 + N, clear of a real machine's usual devices */

struct gpu {
    unsigned int minor;
    char uuid[sizeof "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"];
    char bus_id[sizeof "00000000:XX:00.0"];
};

/* FNV-1a, with a final mix because one seed must not show through in the other half of a UUID. */
static uint64_t gpu_hash(const char *text, uint64_t seed)
{
    uint64_t hash = 0xcbf29ce484222325u ^ seed;

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    return hash ^ hash >> 31;
}

/* Fills gpus, ordered by device node, and returns how many there are. */
static unsigned int gpu_scan(struct gpu gpus[GPU_MAX])
{
    unsigned int count = 0;

    for (unsigned int minor = 0; minor < GPU_MAX; minor++) {
        char path[sizeof DEV_DIR + 20], seed[sizeof LAB_NAME + 20];
        struct gpu *gpu = &gpus[count];

        snprintf(path, sizeof path, DEV_DIR "/nvidia%u", minor);
        if (access(path, F_OK) != 0)
            continue;
        snprintf(seed, sizeof seed, LAB_NAME "/%u", minor);
        uint64_t high = gpu_hash(seed, 0), low = gpu_hash(seed, 1);

        gpu->minor = minor;
        snprintf(gpu->uuid, sizeof gpu->uuid, "GPU-%08x-%04x-%04x-%04x-%012llx", (unsigned int)(high >> 32),
                 (unsigned int)(high >> 16 & 0xffff), (unsigned int)(high & 0xffff), (unsigned int)(low >> 48),
                 (unsigned long long)(low & 0xffffffffffff));
        snprintf(gpu->bus_id, sizeof gpu->bus_id, "00000000:%02X:00.0",
                 (unsigned char)(GPU_PCI_BUS + minor));
        count++;
    }
    return count;
}

#endif
