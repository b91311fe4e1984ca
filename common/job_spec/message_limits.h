// The sizes of a message's texts and lists, checked by a walk over all its fields, so that one that
// is added is bounded without anybody's thinking of it. What this version does not know of a
// message is not seen: a bound of the whole is the caller's.
#ifndef COMMON_JOB_SPEC_MESSAGE_LIMITS_H_
#define COMMON_JOB_SPEC_MESSAGE_LIMITS_H_

#include <cstddef>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/job_spec/job_spec.h"
#include "google/protobuf/message.h"

namespace paceline {

// A field that has a limit of its own.
struct OwnLimit {
  absl::string_view field;  // "paceline.v1.JoinRequest.csr_pem".
  size_t text = 0;          // Bytes of a text; 0: the field is not looked at, nor what is in it.
};

struct MessageLimits {
  size_t text = 0;  // Bytes of a text.
  int items = 0;    // Entries of a list.
  int labels = 0;   // Entries of a map.
  absl::Span<const OwnLimit> own = {};
};

// Each text, list and map that is larger, by its path: "placement.nodes[1]". Lists and maps that
// have too many entries are not scanned.
std::vector<SpecProblem> CheckMessageLimits(const google::protobuf::Message& message,
                                            const MessageLimits& limits);

}  // namespace paceline

#endif  // COMMON_JOB_SPEC_MESSAGE_LIMITS_H_
