// The sizes that a request may have, whatever it asks for: what it says is kept, stored and sent on
// to nodes. A field that is added is bounded without anybody's thinking of it (message_limits.h).
// Those that have less room are checked besides where they are used.
#ifndef CONTROLLER_API_ADMISSION_REQUEST_LIMITS_H_
#define CONTROLLER_API_ADMISSION_REQUEST_LIMITS_H_

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <cstddef>

namespace paceline {

inline constexpr size_t kMaxRequestText = 4096;   // Bytes of any text; PATH_MAX.
inline constexpr int kMaxRequestItems = 4096;     // Of any list; the most ranks there are.
inline constexpr size_t kMaxCsrBytes = 16 << 10;  // Of a certificate request; usual are some 500.
// Of the whole, what this version does not know of it included; without a job's spec and a part of
// its code (kMaxCodePart).
inline constexpr size_t kMaxRequestBytes = 64 << 10;

// INVALID_ARGUMENT, reason REQUEST_INVALID, with the fields that are larger; "request" is the
// whole. A job's spec is not looked at: CheckJobSpec bounds it, by SPEC_INVALID.
grpc::Status CheckRequestLimits(const google::protobuf::Message& request);

}  // namespace paceline

#endif  // CONTROLLER_API_ADMISSION_REQUEST_LIMITS_H_
