// Whether a rank of a job fits the memory of its device, and its copies that of its node.
#ifndef COMMON_JOB_SPEC_DEVICE_MEMORY_H_
#define COMMON_JOB_SPEC_DEVICE_MEMORY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/job_spec.pb.h"

namespace paceline {

// FailedPrecondition if a rank of the job needs more than `device_bytes`, by what
// common/core/model_memory.h counts. The message has the arithmetic, one line per kind, and keys
// with which the job would fit and be accepted. OK for all but the built-in llama: of other models
// too little is known. Requires: the spec has its defaults and no problems.
absl::Status CheckDeviceMemory(const v1::JobSpec& spec, int64_t device_bytes);

// The same for the copies that a rank on a GPU keeps in its node's memory, which has `host_bytes`
// (recovery.copy_every_steps). On CPUs that is the device's memory: CheckDeviceMemory counts them.
absl::Status CheckCopyMemory(const v1::JobSpec& spec, int64_t host_bytes);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_DEVICE_MEMORY_H_
