/*
 * Copyright: kubegpu.tenancy contributors
 * GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * nvidia-smi: a DOUBLE of NVIDIA's command for labs without GPUs. See gpu.h.
 *
 * Linked statically and without the library, so that it runs in any image.
 */
#include <string.h>

#include "gpu.h"

enum { EXIT_FIELD = 2, EXIT_NO_DEVICES = 6, EXIT_OPTION = 255 };
enum { INDEX, UUID, NAME, MEMORY_TOTAL, DRIVER, FIELDS };

static const char *const fields[FIELDS] = {"index", "uuid", "name", "memory.total", "driver_version"};

static void print_list(const struct gpu *gpus, unsigned int count)
{
    for (unsigned int i = 0; i < count; i++)
        printf("GPU %u: %s (UUID: %s)\n", i, GPU_NAME, gpus[i].uuid);
}

static void print_table(const struct gpu *gpus, unsigned int count)
{
    printf("NVIDIA-SMI %s (simulated GPUs of lab \"%s\")   CUDA Version: %d.%d\n\n", DRIVER_VERSION, LAB_NAME,
           CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
    printf("%-5s%-24s%-18s%14s\n", "GPU", "Name", "Bus-Id", "Memory");
    for (unsigned int i = 0; i < count; i++)
        printf("%-5u%-24s%-18s%10d MiB\n", i, GPU_NAME, gpus[i].bus_id, GPU_MEMORY_MIB);
}

static void print_csv(const struct gpu *gpus, unsigned int count, const int *query, int length, int header, int units)
{
    for (int column = 0; header && column < length; column++)
        printf("%s%s%s", column ? ", " : "", fields[query[column]], query[column] == MEMORY_TOTAL ? " [MiB]" : "");
    if (header)
        printf("\n");
    for (unsigned int i = 0; i < count; i++) {
        for (int column = 0; column < length; column++) {
            printf("%s", column ? ", " : "");
            switch (query[column]) {
            case INDEX:
                printf("%u", i);
                break;
            case UUID:
                printf("%s", gpus[i].uuid);
                break;
            case NAME:
                printf("%s", GPU_NAME);
                break;
            case MEMORY_TOTAL:
                printf("%d%s", GPU_MEMORY_MIB, units ? " MiB" : "");
                break;
            case DRIVER:
                printf("%s", DRIVER_VERSION);
            }
        }
        printf("\n");
    }
}

/* The place of a word in a list of words, or -1. */
static int find(const char *word, const char *const *words, int length)
{
    while (length-- > 0 && strcmp(word, words[length]) != 0)
        ;
    return length;
}

static int usage(const char *what, const char *word, int status)
{
    fprintf(stderr,
            "%s: %s\nusage: nvidia-smi [-L | --query-gpu=index,uuid,name,memory.total,driver_version"
            " [--format=csv[,noheader][,nounits]]]\n",
            what, word);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const formats[] = {"csv", "noheader", "nounits"};
    struct gpu gpus[GPU_MAX];
    int query[FIELDS], length = 0, list = 0, format[3] = {0};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-L") == 0 || strcmp(argv[i], "--list-gpus") == 0) {
            list = 1;
        } else if (strncmp(argv[i], "--query-gpu=", 12) == 0) {
            length = 0;
            for (char *word = strtok(argv[i] + 12, ", "); word; word = strtok(NULL, ", ")) {
                int field = find(word, fields, FIELDS);
                if (field < 0 || length == FIELDS)
                    return usage("Field is not valid", word, EXIT_FIELD);
                query[length++] = field;
            }
        } else if (strncmp(argv[i], "--format=", 9) == 0) {
            for (char *word = strtok(argv[i] + 9, ", "); word; word = strtok(NULL, ", ")) {
                int option = find(word, formats, 3);
                if (option < 0)
                    return usage("Format is not valid", word, EXIT_OPTION);
                format[option] = 1;
            }
        } else {
            return usage("Option is not valid", argv[i], EXIT_OPTION);
        }
    }

    unsigned int count = gpu_scan(gpus);

    if (count == 0) {
        printf("No devices were found\n");
        return EXIT_NO_DEVICES;
    }
    if (list)
        print_list(gpus, count);
    else if (length > 0)
        print_csv(gpus, count, query, length, !format[1], !format[2]);
    else
        print_table(gpus, count);
    return 0;
}
