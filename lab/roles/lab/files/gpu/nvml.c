/*
 * Copyright: kubegpu.tenancy contributors
 * GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
 * SPDX-License-Identifier: GPL-3.0-or-later
 *
 * libnvidia-ml.so.1: a DOUBLE of NVIDIA's management library for labs without GPUs. See gpu.h.
 *
 * Written from NVML's public interface for what nvidia-container-toolkit, nvidia-device-plugin and KAI's
 * resource reservation call. The rest of what such programs may call answers "not supported": a function that is
 * absent would kill them.
 */
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "gpu.h"

typedef enum {
    NVML_SUCCESS = 0,
    NVML_ERROR_UNINITIALIZED = 1,
    NVML_ERROR_INVALID_ARGUMENT = 2,
    NVML_ERROR_NOT_SUPPORTED = 3,
    NVML_ERROR_NOT_FOUND = 6,
    NVML_ERROR_INSUFFICIENT_SIZE = 7,
    NVML_ERROR_TIMEOUT = 10,
} nvmlReturn_t;

enum { NVML_BRAND_NVIDIA = 14, NVML_DEVICE_ARCH_HOPPER = 9, NVML_TOPOLOGY_NODE = 40 };
enum { NVML_EVENT_XID_CRITICAL_ERROR = 8 };

typedef const struct gpu *nvmlDevice_t;
typedef const char *nvmlEventSet_t;

typedef struct {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
} nvmlPciInfo_t;

typedef struct {
    unsigned long long total;
    unsigned long long free;
    unsigned long long used;
} nvmlMemory_t;

static struct gpu gpus[GPU_MAX];
static unsigned int count, users;
static pthread_mutex_t users_lock = PTHREAD_MUTEX_INITIALIZER;
static const char event_set[] = "the only event set: nothing ever happens to a simulated GPU";

/* Library and system */

nvmlReturn_t nvmlInitWithFlags(unsigned int flags)
{
    (void)flags;
    pthread_mutex_lock(&users_lock);
    if (users++ == 0)
        count = gpu_scan(gpus);
    pthread_mutex_unlock(&users_lock);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void)
{
    return nvmlInitWithFlags(0);
}

nvmlReturn_t nvmlShutdown(void)
{
    nvmlReturn_t result = NVML_ERROR_UNINITIALIZED;

    pthread_mutex_lock(&users_lock);
    if (users > 0) {
        users--;
        result = NVML_SUCCESS;
    }
    pthread_mutex_unlock(&users_lock);
    return result;
}

const char *nvmlErrorString(nvmlReturn_t result)
{
    switch (result) {
    case NVML_SUCCESS:
        return "Success";
    case NVML_ERROR_UNINITIALIZED:
        return "Uninitialized";
    case NVML_ERROR_INVALID_ARGUMENT:
        return "Invalid Argument";
    case NVML_ERROR_NOT_SUPPORTED:
        return "Not Supported";
    case NVML_ERROR_NOT_FOUND:
        return "Not Found";
    case NVML_ERROR_INSUFFICIENT_SIZE:
        return "Insufficient Size";
    case NVML_ERROR_TIMEOUT:
        return "Timeout";
    }
    return "Unknown Error";
}

static nvmlReturn_t put_text(char *out, unsigned int size, const char *text)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    if (size <= strlen(text))
        return NVML_ERROR_INSUFFICIENT_SIZE;
    strcpy(out, text);
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *out, unsigned int size)
{
    return put_text(out, size, DRIVER_VERSION);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *out, unsigned int size)
{
    char version[sizeof DRIVER_VERSION + 4];

    snprintf(version, sizeof version, "%d.%s", CUDA_VERSION / 1000 % 100, DRIVER_VERSION);
    return put_text(out, size, version);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = CUDA_VERSION;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *out)
{
    return nvmlSystemGetCudaDriverVersion_v2(out);
}

/* Finding devices */

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *out)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = count;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *out)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    if (!out || index >= count)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = &gpus[index];
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *out)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    if (!uuid || !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < count; i++)
        if (strcmp(gpus[i].uuid, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2(i, out);
    return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *out)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    if (!bus_id || !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    for (unsigned int i = 0; i < count; i++)
        if (strcmp(gpus[i].bus_id, bus_id) == 0)
            return nvmlDeviceGetHandleByIndex_v2(i, out);
    return NVML_ERROR_NOT_FOUND;
}

/* Facts of a device */

static nvmlReturn_t check(nvmlDevice_t device, const void *out)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    return device >= gpus && device < gpus + count && out ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t put_number(nvmlDevice_t device, unsigned int *out, unsigned int number)
{
    nvmlReturn_t result = check(device, out);

    if (result == NVML_SUCCESS)
        *out = number;
    return result;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *out, unsigned int size)
{
    nvmlReturn_t result = check(device, out);

    return result == NVML_SUCCESS ? put_text(out, size, device->uuid) : result;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *out, unsigned int size)
{
    nvmlReturn_t result = check(device, out);

    return result == NVML_SUCCESS ? put_text(out, size, GPU_NAME) : result;
}

nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *out)
{
    return put_number(device, out, (unsigned int)(device - gpus));
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *out)
{
    nvmlReturn_t result = check(device, out);

    return result == NVML_SUCCESS ? put_number(device, out, device->minor) : result;
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int *out)
{
    return put_number(device, out, NVML_BRAND_NVIDIA);
}

nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *out)
{
    return put_number(device, out, NVML_DEVICE_ARCH_HOPPER);
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor)
{
    nvmlReturn_t result = check(device, major && minor ? major : NULL);

    if (result == NVML_SUCCESS) {
        *major = 9;
        *minor = 0;
    }
    return result;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *out)
{
    nvmlReturn_t result = check(device, out);

    if (result == NVML_SUCCESS) {
        out->total = out->free = GPU_MEMORY_MIB * 1024ULL * 1024ULL;
        out->used = 0;
    }
    return result;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *out)
{
    nvmlReturn_t result = check(device, out);

    if (result == NVML_SUCCESS) {
        memset(out, 0, sizeof *out);
        out->bus = GPU_PCI_BUS + device->minor;
        out->pciDeviceId = 0x233510de;
        strcpy(out->busId, device->bus_id);
        strcpy(out->busIdLegacy, device->bus_id + 4); /* its domain has four digits, not eight */
    }
    return result;
}

nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *out)
{
    return put_number(device, out, 0);
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *out)
{
    return put_number(device, out, 0);
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned int *out)
{
    nvmlReturn_t result = check(other, out);

    if (result == NVML_SUCCESS && one == other)
        return NVML_ERROR_NOT_SUPPORTED;
    return result == NVML_SUCCESS ? put_number(one, out, NVML_TOPOLOGY_NODE) : result;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *number, void *out)
{
    (void)out;
    return put_number(device, number, 0);
}

/* Health events: none come */

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *out)
{
    nvmlReturn_t result = check(device, out);

    if (result == NVML_SUCCESS)
        *out = NVML_EVENT_XID_CRITICAL_ERROR;
    return result;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *out)
{
    if (!users)
        return NVML_ERROR_UNINITIALIZED;
    if (!out)
        return NVML_ERROR_INVALID_ARGUMENT;
    *out = event_set;
    return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set)
{
    return types & ~(unsigned long long)NVML_EVENT_XID_CRITICAL_ERROR ? NVML_ERROR_NOT_SUPPORTED : check(device, set);
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, void *out, unsigned int milliseconds)
{
    struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000L};

    if (!set || !out)
        return NVML_ERROR_INVALID_ARGUMENT;
    while (nanosleep(&left, &left) != 0)
        ;
    return NVML_ERROR_TIMEOUT;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
    return set ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

/* Not supported */

#define NOT_SUPPORTED(name) \
    nvmlReturn_t name(void) { return NVML_ERROR_NOT_SUPPORTED; }

NOT_SUPPORTED(nvmlDeviceGetAddressingMode)
NOT_SUPPORTED(nvmlDeviceGetAttributes_v2)
NOT_SUPPORTED(nvmlDeviceGetComputeInstanceId)
NOT_SUPPORTED(nvmlDeviceGetComputeMode)
NOT_SUPPORTED(nvmlDeviceGetDeviceHandleFromMigDeviceHandle)
NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfo)
NOT_SUPPORTED(nvmlDeviceGetGpuFabricInfoV)
NOT_SUPPORTED(nvmlDeviceGetGpuInstanceById)
NOT_SUPPORTED(nvmlDeviceGetGpuInstanceId)
NOT_SUPPORTED(nvmlDeviceGetGpuInstanceProfileInfo)
NOT_SUPPORTED(nvmlDeviceGetGraphicsRunningProcesses_v3)
NOT_SUPPORTED(nvmlDeviceGetMPSComputeRunningProcesses_v3)
NOT_SUPPORTED(nvmlDeviceGetMemoryInfo_v2)
NOT_SUPPORTED(nvmlDeviceGetMigDeviceHandleByIndex)
NOT_SUPPORTED(nvmlDeviceGetMigMode)
NOT_SUPPORTED(nvmlDeviceGetNumaNodeId)
NOT_SUPPORTED(nvmlDeviceGetNvLinkRemotePciInfo_v2)
NOT_SUPPORTED(nvmlDeviceGetNvLinkState)
NOT_SUPPORTED(nvmlDeviceGetP2PStatus)
NOT_SUPPORTED(nvmlDeviceGetPowerUsage)
NOT_SUPPORTED(nvmlDeviceGetTemperature)
NOT_SUPPORTED(nvmlDeviceGetUtilizationRates)
NOT_SUPPORTED(nvmlDeviceGetVirtualizationMode)
