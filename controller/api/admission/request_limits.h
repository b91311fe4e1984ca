// General limits on the sizes of requests, whose contents are kept, stored and sent on to nodes.
// New fields are covered automatically (message_limits.h). Fields with lower limits are also
// checked where they are used.
#ifndef CONTROLLER_API_ADMISSION_REQUEST_LIMITS_H_
#define CONTROLLER_API_ADMISSION_REQUEST_LIMITS_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <cstddef>

namespace paceline {

inline constexpr size_t kMaxRequestText = 4096;   // Bytes of any text; as PATH_MAX.
inline constexpr int kMaxRequestItems = 4096;     // Entries of any list; the most ranks of a job.
inline constexpr size_t kMaxCsrBytes = 16 << 10;  // A certificate request, usually some 500 bytes.
// Bytes of a whole request, including unknown fields; excluding a job's spec and a part of its code
// (kMaxCodePart).
inline constexpr size_t kMaxRequestBytes = 64 << 10;

// Returns INVALID_ARGUMENT, reason REQUEST_INVALID, with the fields that are too large ("request":
// the whole). Ignores a job's spec, which CheckJobSpec limits (SPEC_INVALID).
grpc::Status CheckRequestLimits(const google::protobuf::Message& request);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_REQUEST_LIMITS_H_
